"""Tables from strangers: bombs, and files of bytes that no program would write."""

from __future__ import annotations

import bz2
import gzip
import random
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hostile_checks.outcome import attempts
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.checks import UserError
from lit_ios.readers import TableRoles, read_paths
from lit_ios.trajectories import TrajectorySet

SECONDS = 60.0  # a bomb must be refused within
ROLES = TableRoles(path="p", time="t")
_PIECE = 100 << 20


def _zeros(file: Path) -> Path:
    """Write ten gigabytes of zeros into ten megabytes."""
    piece = gzip.compress(b"0" * _PIECE)
    return _repeated(file.with_suffix(".csv.gz"), b"", piece, 100)


def _rows(pack: Callable[[bytes], bytes], ending: str, times: int = 27) -> Callable[[Path], Path]:
    """Return what writes 2.7 GB of rows."""

    def write(file: Path) -> Path:
        rows = pack(b"0,0,0\n" * (_PIECE // 6 // 10)) * 10
        return _repeated(file.with_suffix(ending), pack(b"p,t,x\n"), rows, times)

    return write


def _repeated(file: Path, head: bytes, piece: bytes, times: int) -> Path:
    with file.open("wb") as stream:
        stream.write(head)
        for _ in range(times):
            stream.write(piece)
    return file


def _bz2(data: bytes) -> bytes:
    return bz2.compress(data, 1)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def _shared_text(file: Path) -> Path:
    """Write a text of a megabyte that a million rows share."""
    rows = 1 << 20
    codes = pa.array([0]).take(pa.array([0] * rows)).cast(pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000]))
    table = pa.table({"p": texts, "t": pa.array(range(rows)), "x": pa.array([0.0] * rows)})
    target = file.with_suffix(".parquet")
    pq.write_table(table, target)
    return target


def _nothing(file: Path) -> Path:
    """Write fifty million rows of nothing, in many groups."""
    target, rows = file.with_suffix(".parquet"), 1_000_000
    group = pa.table(dict.fromkeys(["p", "t", "x"], pa.nulls(rows, pa.float64())))
    with pq.ParquetWriter(target, group.schema) as writer:
        for _ in range(50):
            writer.write_table(group)
    return target


BOMBS: dict[str, Callable[[Path], Path]] = {
    "zeros, gz": _zeros,
    "rows, gz": _rows(gzip.compress, ".csv.gz"),
    "rows, bz2": _rows(_bz2, ".csv.bz2"),
    "rows, zst": _rows(_zstd, ".csv.zst"),
    "shared text, parquet": _shared_text,
    "nothing, parquet": _nothing,
}


def table_bombs(trials: int, seed: int) -> Outcome:
    """Read small files that are large in memory: refused in a sentence, in seconds."""
    slowest = 0.0

    def attempt(rng: random.Random, number: int) -> str | None:
        nonlocal slowest
        name = list(BOMBS)[number % len(BOMBS)]
        with tempfile.TemporaryDirectory() as folder:
            file = BOMBS[name](Path(folder) / "table")
            began = time.perf_counter()
            try:
                read_paths(file, TableRoles(path="p", time="t", max_bytes=1 << 30, max_rows=10**7))
            except UserError as error:
                wrong = None if "more than" in str(error) else str(error)
            else:
                wrong = "read"
            seconds = time.perf_counter() - began
        slowest = max(slowest, seconds)
        return f"{name}: {wrong}, {seconds:.0f} s" if wrong or seconds > SECONDS else None

    found = attempts("table_bombs", trials, seed, attempt)
    return found._replace(note=found.note or f"the slowest was refused after {slowest:.1f} s")


CELLS = (
    "", "0", "1", "-1", "1e400", "nan", "inf", "NULL", "007", "0x1F", "1,5", '"a,b"', '"', "é",
    "\x00", "\x1b[31m", "=1+1", "\t", "2026-01-01", "31.12.2026", "true", "a" * 3000, "١٢",
    "\ufeff", "\u202e",
)  # fmt: skip


def _generated(rng: random.Random) -> bytes:
    """Return bytes that look like a table, more or less."""
    names = rng.sample(["p", "t", "x", "y", "", "p", "\x00", "=cmd", "é"], rng.randrange(1, 7))
    names = names if rng.random() < 0.3 else ["p", "t", "x"]
    mark, end = rng.choice((",", ",", ";", "\t", "|")), rng.choice(("\n", "\n", "\r\n", "\r"))
    lines = [mark.join(names)]
    for row in range(rng.randrange(12)):
        width = len(names) if rng.random() < 0.9 else rng.randrange(6)
        cells = [str(row // 3), str(row), "0.5"][:width] if rng.random() < 0.6 else []
        cells += [rng.choice(CELLS) for _ in range(width - len(cells))]
        lines.append(mark.join(cells))
    encoding = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"))
    data = bytearray((end.join(lines) + end).encode(encoding, "replace"))
    for _ in range(rng.choice((0, 0, 0, 1, 5))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


def _parquet(rng: random.Random, file: Path) -> None:
    """Write a Parquet file with some bytes changed."""
    rows = 6
    kinds = [
        pa.array([str(i // 3) for i in range(rows)]), pa.array(range(rows)),
        pa.array([rng.choice((0.5, None, float("nan"), 1e300)) for _ in range(rows)]),
    ]  # fmt: skip
    pq.write_table(pa.table(kinds, ["p", "t", "x"]), file)
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 3, 20))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    file.write_bytes(bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data))


def table_bytes(trials: int, seed: int) -> Outcome:
    """Read generated CSV and damaged Parquet files: as paths, or refused in a sentence."""
    folder = tempfile.TemporaryDirectory()

    def attempt(rng: random.Random, number: int) -> str | None:
        ending = rng.choice((".csv", ".csv", ".csv", ".csv.gz", ".parquet"))
        file = Path(folder.name) / f"table{ending}"
        if ending == ".parquet":
            _parquet(rng, file)
        else:
            data = _generated(rng)
            file.write_bytes(data if ending == ".csv" else gzip.compress(data))
        given = {
            "missing": rng.choice(("error", "impute", "last", "drop")),
            "sort": bool(number % 2),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                paths = read_paths(file, TableRoles(path="p", time="t", **given), training=False)
            except UserError as error:
                return None if len(str(error).splitlines()) <= 1 else f"two lines: {error}"
        return None if isinstance(paths, TrajectorySet) and len(paths) else "no paths"

    with folder:
        return attempts("table_bytes", trials, seed, attempt)
