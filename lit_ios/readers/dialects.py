"""How a CSV file is written: what separates columns, and what marks decimals."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lit_ios.checks import UserError

SAMPLE = 1 << 20  # bytes, of which
ROWS = 100  # rows are looked at
_FOUND = (",", ";", "\t")
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


class Dialect(NamedTuple):
    """What separates columns and decimals; None where the file is to say it."""

    separator: str | None = None
    decimal: str | None = None

    @classmethod
    def of(cls, separator: str | None, decimal: str | None) -> Dialect:
        """Check what a user gives; a tab may be called `tab`."""
        mark = None if separator is None else _NAMES.get(separator, separator)
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark.isalnum()):
            raise UserError(
                f"separator must be one character such as ',' or ';', or tab; got {separator!r}"
            )
        if decimal not in (None, ".", ","):
            raise UserError(f"decimal must be '.' or ',', got {decimal!r}")
        if decimal is not None and mark == decimal:
            raise UserError(f"separator and decimal cannot both be {decimal!r}; change one of them")
        return cls(mark, decimal)

    def found_in(self, file: Path) -> Dialect:
        """Return what separates columns and decimals of a file, by its first rows.

        Commas separate, unless header and first rows fall into equally many columns only at
        semicolons or only at tabs. Where commas do not separate, they mark decimals if the first
        rows have numbers such as 0,5, and none such as 0.5.
        """
        if self.separator is not None and self.decimal is not None:
            return self
        text = _sample(file)
        separator = self.separator or _separator(text, self.decimal)
        return Dialect(separator, self.decimal or _decimal(text, separator))


def looks_like_a_decimal_comma(text: str) -> bool:
    """Whether a cell is a number with a comma where others have a point."""
    return _COMMA.fullmatch(text.strip()) is not None


_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.A)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.A)  # 1,234 can be either
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.A)


def _sample(file: Path) -> str:
    """Return whole lines from the beginning of a file; "" if it is no text."""
    with pa.input_stream(file, buffer_size=SAMPLE) as stream:
        data = stream.read(SAMPLE)
    if len(data) == SAMPLE:
        data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
    try:
        return str(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return ""


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the cells of header and first rows."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) > ROWS:
                break
    except csv.Error:  # such as a cell of more than 128 kB
        return []
    return rows


def _separator(text: str, decimal: str | None) -> str:
    fitting = []
    for mark in _FOUND:
        lengths = {len(row) for row in _rows(text, mark)}
        if mark != decimal and len(lengths) == 1 and lengths != {1}:
            fitting.append(mark)
    if len(fitting) == 1:
        return fitting[0]
    return ";" if decimal == "," else ","


def _decimal(text: str, separator: str) -> str:
    if separator == ",":
        return "."
    cells = [cell.strip() for row in _rows(text, separator)[1:] for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    surely = any(not _THOUSANDS.fullmatch(cell) for cell in commas)
    return "," if surely and not any(_POINT.fullmatch(cell) for cell in cells) else "."
