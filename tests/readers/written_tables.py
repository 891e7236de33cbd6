"""Tables written to disk for the tests of the readers."""

from __future__ import annotations

import bz2
import gzip
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from lit_ios.readers import TableError, TableRoles, read_paths
from lit_ios.rule import ColumnEncoder
from lit_ios.trajectories import TrajectorySet

Content = str | bytes | pa.Table


def zstd(data: bytes) -> bytes:
    """Compress as a stream, as the zstd program does."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {".csv.gz": gzip.compress, ".csv.bz2": bz2.compress, ".csv.zst": zstd}


def write(file: Path, content: Content) -> Path:
    """Write text, bytes or a Parquet table."""
    if isinstance(content, pa.Table):
        pa_parquet.write_table(content, file)
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def write_folder(folder: Path, files: dict[str, Content]) -> Path:
    """Write several files into a new folder."""
    folder.mkdir()
    for name, content in files.items():
        write(folder / name, content)
    return folder


def name_for(content: Content) -> str:
    return "table.parquet" if isinstance(content, pa.Table) else "table.csv"


def read(place: Path, *, training: bool = True, **roles: Any) -> TrajectorySet:
    """Read a table whose path column is `unit` and whose time column is `t`."""
    return read_paths(place, TableRoles("unit", "t", **roles), training=training)


def read_written(folder: Path, content: Content, name: str = "", **options: Any) -> TrajectorySet:
    """Write a file and read it."""
    return read(write(folder / (name or name_for(content)), content), **options)


def encoded(paths: TrajectorySet) -> TrajectorySet:
    """Return one 0/1 feature per category where the columns as read hold codes of text."""
    return ColumnEncoder(paths.feature_names, paths.categories).paths(paths)


def expanded(paths: TrajectorySet) -> tuple[list[str], list[list[float | None]]]:
    """Return names and rows with one 0/1 feature per category, None where there is a gap."""
    names: list[str] = []
    rows: list[list[float | None]] = [[] for _ in paths.states]
    for name, column in zip(paths.feature_names, paths.states.T.tolist(), strict=True):
        known = paths.categories.get(name)
        names += [name] if known is None else [f"{name}={category}" for category in known]
        for row, value in zip(rows, column, strict=True):
            values = [value] if known is None else [value == i for i in range(len(known))]
            row += [None if math.isnan(value) else float(v) for v in values]
    return names, rows


def refusal(place: Path, **options: Any) -> str:
    """Return the message with which a table is refused, its place as PLACE."""
    with pytest.raises(TableError) as caught:
        read(place, **options)
    assert str(place) in str(caught.value)
    return str(caught.value).replace(str(place), "PLACE")


def refusal_of(folder: Path, content: Content, name: str = "", **options: Any) -> str:
    """Write a file and return the message with which it is refused."""
    return refusal(write(folder / (name or name_for(content)), content), **options)


def parquet_table(**columns: Any) -> pa.Table:
    """Return paths a and b of two rows each; any column may be replaced or added."""
    return pa.table(
        {"unit": ["a", "a", "b", "b"], "t": [0, 1, 0, 1], "x": [1.0, 2.0, 3.0, 4.0]} | columns
    )
