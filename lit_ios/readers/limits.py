"""How much of a file is read: a small compressed file can hold more than any memory.

The rows and bytes that a file unpacks to are counted before anything is made of them, so a file
that is too large is refused in seconds and in little memory.
"""

from __future__ import annotations

from typing import NamedTuple

from lit_ios.checks import UserError
from lit_ios.memory import memory_at_hand

PER_CELL = 24  # bytes that a cell takes at the most, while a table becomes paths
LONGEST_LINE = 64 << 20  # bytes of one row of text


class Limits(NamedTuple):
    """The largest table that is read; None for what memory allows."""

    max_rows: int | None = None
    max_bytes: int | None = None

    def check(self) -> None:
        """Refuse limits that are not positive integers."""
        for name, value in self._asdict().items():
            if value is not None and (type(value) is not int or value < 1):
                raise UserError(f"{name} must be a positive integer, got {value!r}")

    def reason(self, rows: int, size: int, cells: int) -> str | None:
        """Say why a table is too large; None if it is not.

        Args:
            rows: so far.
            size: bytes so far, unpacked.
            cells: so far.
        """
        if self.max_rows is not None and rows > self.max_rows:
            return f"more than {self.max_rows:,} rows; raise max_rows (--max-rows) if that is meant"
        if self.max_bytes is not None:
            if size <= self.max_bytes:
                return None
            more = f"more than {self.max_bytes:,} bytes unpacked"
            return f"{more}; raise max_bytes (--max-bytes) if that is meant"
        needed, there = size + PER_CELL * cells, memory_at_hand()
        if needed <= there:
            return None
        return (
            f"too large for the memory at hand ({there / 1e9:.1f} GB): more than {rows:,} rows, "
            f"{size / 1e9:.1f} GB unpacked; read fewer columns of a Parquet file, take a larger "
            "machine, or set max_bytes (--max-bytes) to try all the same"
        )
