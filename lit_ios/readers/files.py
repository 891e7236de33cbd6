"""Files → columns: CSV, compressed CSV and Parquet, one file or a folder of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from lit_ios.trajectories import TrajectoryError

CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
PARQUET_ENDINGS = (".parquet", ".pq")


class TableError(TrajectoryError):
    """A table that cannot be read as paths; the message names file, column, path and row."""


def read_columns(place: str | Path, wanted: list[str] | None = None) -> pa.Table:
    """Read a file, or all files of a folder one below the other.

    Args:
        place: file or folder.
        wanted: columns to read; None for all. One that is missing is an error that names it.
    """
    path = Path(place)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_ENDINGS))
        if not files:
            raise TableError(f"{path}: no file in this folder ends in {', '.join(_ENDINGS)}")
        return _stack([(file, _read_file(file, wanted)) for file in files])
    if not path.is_file():
        raise TableError(f"{path}: there is no such file or folder")
    return _read_file(path, wanted)


_ENDINGS = CSV_ENDINGS + PARQUET_ENDINGS


def _read_file(file: Path, wanted: list[str] | None) -> pa.Table:
    if file.stat().st_size == 0:
        raise TableError(f"{file}: the file is empty")
    if file.name.endswith(PARQUET_ENDINGS):
        table = _read_parquet(file, wanted)
    elif file.name.endswith(CSV_ENDINGS):
        table = _read_csv(file, wanted)
    else:
        raise TableError(f"{file}: the name must end in one of {', '.join(_ENDINGS)}")
    if table.num_rows == 0:
        raise TableError(f"{file}: there are columns, but no rows")
    return table


def _read_parquet(file: Path, wanted: list[str] | None) -> pa.Table:
    try:
        with pa_parquet.ParquetFile(file) as parquet:
            _check_names(file, parquet.schema_arrow.names, wanted)
            return parquet.read(columns=wanted)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{file}: not a readable Parquet file: {_first_line(error)}") from None


def _read_csv(file: Path, wanted: list[str] | None) -> pa.Table:
    refused: list[pa_csv.InvalidRow] = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    try:
        table = pa_csv.read_csv(
            file,
            read_options=pa_csv.ReadOptions(use_threads=False),  # else rows have no numbers
            parse_options=pa_csv.ParseOptions(invalid_row_handler=refuse),
            convert_options=pa_csv.ConvertOptions(strings_can_be_null=True),
        )
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        if refused:
            row = refused[0]
            raise TableError(
                f"{file}, line {row.number}: {row.actual_columns} fields where the header has "
                f"{row.expected_columns}: {row.text[:80]!r}"
            ) from None
        raise TableError(f"{file}: not a readable CSV file: {_first_line(error)}") from None
    _check_names(file, table.column_names, wanted)
    return table if wanted is None else table.select(wanted)


def _check_names(file: Path, names: list[str], wanted: list[str] | None) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"{file}: more than one column is named {', '.join(map(repr, twice))}")
    if "" in names:
        raise TableError(f"{file}: column {names.index('') + 1} has no name")
    missing = [name for name in wanted or [] if name not in names]
    if missing:
        raise TableError(
            f"{file}: no column {', '.join(map(repr, missing))}; "
            f"there are {', '.join(map(repr, names))}"
        )


def _stack(tables: list[tuple[Path, pa.Table]]) -> pa.Table:
    """Put tables with the same columns one below the other."""
    first_file, first = tables[0]
    for file, table in tables[1:]:
        if set(table.column_names) != set(first.column_names):
            only = set(table.column_names) ^ set(first.column_names)
            raise TableError(
                f"{file} and {first_file} have different columns: "
                f"{', '.join(map(repr, sorted(only)))} in one of them only"
            )
    try:
        return pa.concat_tables(
            [table.select(first.column_names) for _, table in tables],
            promote_options="permissive",
        )
    except pa.ArrowException as error:
        names = ", ".join(str(file) for file, _ in tables)
        raise TableError(f"{names}: columns of different types: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
