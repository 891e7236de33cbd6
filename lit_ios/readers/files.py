"""Files → columns: CSV, compressed CSV and Parquet, one file or a folder of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from lit_ios.checks import nearest
from lit_ios.readers.dialects import SAMPLE, Dialect
from lit_ios.readers.limits import Limits
from lit_ios.readers.scans import ScanError, check_parquet, scan
from lit_ios.trajectories import BoolArray, TrajectoryError

CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
PARQUET_ENDINGS = (".parquet", ".pq")
FIND_OUT, BY_MEMORY = Dialect(), Limits()
MOST_NAMES = 20  # in a message


class TableError(TrajectoryError):
    """A table that cannot be read as paths; the message names file, column, path and row."""


class Part(NamedTuple):
    """What was read of a file."""

    file: Path
    table: pa.Table
    rows: int  # of the file, also if not all were kept


def read_columns(
    place: str | Path,
    wanted: list[str] | None = None,
    dialect: Dialect = FIND_OUT,
    limits: Limits = BY_MEMORY,
) -> pa.Table:
    """Read a file, or all files of a folder one below the other; see `read_parts`."""
    return stack(read_parts(place, wanted, dialect=dialect, limits=limits))


def read_parts(
    place: str | Path,
    wanted: list[str] | None = None,
    as_text: Sequence[str] = (),
    keep: BoolArray | None = None,
    dialect: Dialect = FIND_OUT,
    limits: Limits = BY_MEMORY,
) -> list[Part]:
    """Read a file, or all files of a folder, each by itself.

    Args:
        place: file or folder.
        wanted: columns to read; None for all. One that is missing is an error that names it.
        as_text: columns of a CSV file to take as they are written: 007 is not 7.
        keep: which rows of all files to keep, None for all; of a Parquet file no others are ever
            in memory but a few at a time.
        dialect: how CSV files are written.
        limits: of each file; larger ones are refused.
    """
    path = Path(place)
    if path.is_dir():
        files = table_files(path)
    elif path.is_file():
        files = [path]
    else:
        searched = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise TableError(
            f"{path}: there is no such file or folder{searched}{_neighbour(path)}; check the name"
        )
    start, parts = 0, []
    for file in files:
        chosen = None if keep is None else keep[start:]
        parts.append(Part(file, *_read_file(file, wanted, as_text, chosen, dialect, limits)))
        start += parts[-1].rows
        if limits.max_rows is not None and start > limits.max_rows:
            raise TableError(f"{path}: {limits.reason(start, 0, 0)}")
    return parts


def table_files(folder: Path) -> list[Path]:
    """Return the tables of a folder; links that lead out of it are refused."""
    files = sorted(file for file in folder.iterdir() if file.name.endswith(_ENDINGS))
    if not files:
        raise TableError(
            f"{folder}: no file in this folder ends in {', '.join(_ENDINGS)}; name the file "
            "itself, or another folder"
        )
    for file in files:
        if file.is_symlink() and not file.resolve().is_relative_to(folder.resolve()):
            raise TableError(
                f"{file}: a link that leads out of the folder, and is not read; put the file "
                "itself there, or name it by itself"
            )
        if not file.is_file():
            raise TableError(f"{file}: not a file; remove it from the folder")
    return files


_ENDINGS = CSV_ENDINGS + PARQUET_ENDINGS
# what damaged metadata of a Parquet file make pyarrow raise
_DAMAGED = (pa.ArrowException, OSError, LookupError, MemoryError, OverflowError, UnicodeDecodeError)


def _neighbour(path: Path) -> str:
    """Name a file that is called nearly so."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    near = nearest(path.name, [file.name for file in beside])
    return "" if near is None else f" (but {near!r} is there)"


def _read_file(
    file: Path,
    wanted: list[str] | None,
    as_text: Sequence[str],
    keep: BoolArray | None,
    dialect: Dialect,
    limits: Limits,
) -> tuple[pa.Table, int]:
    """Return the rows to keep, and how many there are in the file."""
    if file.stat().st_size == 0:
        raise TableError(f"{file}: the file is empty; write the table again")
    if file.name.endswith(PARQUET_ENDINGS):
        table, rows = _read_parquet(file, wanted, keep, limits)
    elif file.name.endswith(CSV_ENDINGS):
        table = _read_csv(file, wanted, as_text, dialect, limits)
        rows = table.num_rows
        table = table if keep is None else table.filter(pa.array(keep[:rows]))
    else:
        raise TableError(
            f"{file}: the name must end in one of {', '.join(_ENDINGS)}; write the table as one of "
            "these, or rename the file if it is one"
        )
    if rows == 0:
        raise TableError(f"{file}: there are columns, but no rows; name a file that has some")
    return table, rows


def read_schema(file: Path) -> pa.Schema:
    """Return names and types of a Parquet file's columns."""
    try:
        schema = pa_parquet.read_schema(file)
    except _DAMAGED as error:
        raise _unreadable(file, "Parquet", error) from None
    check_names(file, schema.names, None)
    return schema


def _read_parquet(
    file: Path, wanted: list[str] | None, keep: BoolArray | None, limits: Limits
) -> tuple[pa.Table, int]:
    try:
        with pa_parquet.ParquetFile(file, pre_buffer=False) as parquet:  # else all bytes at once
            check_names(file, _names(parquet), wanted)
            share = 1.0 if keep is None or not len(keep) else float(keep.mean())
            check_parquet(file, parquet.metadata, wanted, limits, share)
            rows = parquet.metadata.num_rows
            if keep is None:
                return parquet.read(columns=wanted), rows
            start, kept = 0, [parquet.schema_arrow.empty_table().select(wanted or _names(parquet))]
            for batch in parquet.iter_batches(columns=wanted):
                chosen = pa.array(keep[start : start + batch.num_rows])
                kept.append(pa.Table.from_batches([batch]).filter(chosen))
                start += batch.num_rows
            return pa.concat_tables(kept, promote_options="permissive"), rows
    except ScanError as error:
        raise TableError(f"{file}: {error}") from None
    except _DAMAGED as error:
        raise _unreadable(file, "Parquet", error) from None


def _names(parquet: pa_parquet.ParquetFile) -> list[str]:
    return list(parquet.schema_arrow.names)


def _read_csv(
    file: Path,
    wanted: list[str] | None,
    as_text: Sequence[str],
    dialect: Dialect,
    limits: Limits,
) -> pa.Table:
    refused: list[pa_csv.InvalidRow] = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        return pa_csv.read_csv(
            file,
            read_options=pa_csv.ReadOptions(
                use_threads=False,  # else rows have no numbers
                block_size=max(SAMPLE, 2 * marks.longest_line),
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=written.separator,
                # which pyarrow cannot show a row that is not UTF-8
                invalid_row_handler=refuse if marks.is_utf8 else None,
                newlines_in_values=marks.quotes > 0,
            ),
            convert_options=pa_csv.ConvertOptions(
                strings_can_be_null=True, column_types=types, decimal_point=written.decimal
            ),
        )

    try:
        written = dialect.found_in(file)
        marks = scan(file, str(written.separator).encode(), limits)
        types = {name: pa.string() for name in as_text}
        table = read(types)
        if marks.hexadecimal:  # read as a negative integer where the first bit is set
            integers = [f.name for f in table.schema if pa.types.is_integer(f.type)]
            table = _hexadecimal_as_text(table, read(types | dict.fromkeys(integers, pa.string())))
        names = table.column_names
    except ScanError as error:
        raise TableError(f"{file}: {error}") from None
    except UnicodeDecodeError:
        raise TableError(f"{file}: the header is not UTF-8; save the file as UTF-8") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        if "Empty CSV" in str(error):
            raise TableError(f"{file}: all lines are empty; write the table again") from None
        if refused:
            row = refused[0]
            raise TableError(
                f"{file}, row {row.number - 1}: {row.actual_columns} fields where the header has "
                f"{row.expected_columns}; {_ragged(row.expected_columns, written)}"
            ) from None
        if "UTF8" in str(error) and as_text:
            raise TableError(
                f"{file}, column {as_text[0]!r}: text that is not UTF-8; save the file as UTF-8"
            ) from None
        raise _unreadable(file, "CSV", error) from None
    check_names(file, names, wanted)
    return table if wanted is None else table.select(wanted)


def _ragged(expected: int, written: Dialect) -> str:
    """Say what may be wrong with a row of more or fewer fields than the header."""
    if expected == 1:
        return (
            "delete what stands above the line that names the columns, or say what separates "
            "columns, e.g. separator=';'"
        )
    return (
        f"put text that holds {written.separator!r} into quotes, or say what separates columns, "
        "e.g. separator=';'"
    )


def _hexadecimal_as_text(table: pa.Table, texts: pa.Table) -> pa.Table:
    """Take columns with hexadecimal numbers as text, so that they are refused where they count."""
    for i, (read, written) in enumerate(zip(table.columns, texts.columns, strict=True)):
        if read.type != written.type and pc.any(pc.match_substring_regex(written, "0[xX]")).as_py():
            table = table.set_column(i, table.column_names[i], written)
    return table


def check_names(file: str | Path, names: list[str], wanted: Sequence[str] | None) -> None:
    """Refuse columns of one name or none, and ask for those that are wanted."""
    if len(set(names)) < len(names):
        if _are_values(names):
            raise TableError(f"{file}: {_NO_HEADER}")
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise TableError(
            f"{file}: more than one column is named {_listed(sorted(twice))}; rename all but one"
        )
    if "" in names:
        raise TableError(f"{file}: {_nameless(names)}")
    known = set(names)
    absent = [name for name in wanted or () if name not in known]
    if absent:
        raise TableError(f"{file}: {absence(absent, names)}")


def _nameless(names: Sequence[str]) -> str:
    """Say which column has no name, and how that may have come about."""
    number = names.index("") + 1
    if number == 1:
        how = "; numbers of rows are left out by df.to_csv(…, index=False), in R row.names=FALSE"
    else:
        last = number == len(names)
        how = ", or take the separator away from the ends of the lines" if last else ""
    return f"column {number} has no name; give it one in the header{how}"


def _are_values(names: Sequence[str]) -> bool:
    """Whether names look like cells of a file without a header: many of them are numbers."""
    numbers = sum(_NUMBER.fullmatch(name) is not None for name in names)
    return numbers >= 2 and 3 * numbers >= len(names)


_NO_HEADER = "the first line must name the columns and seems to hold values; write a header above"
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.A)


def absence(absent: Sequence[str], names: Sequence[str]) -> str:
    """Say which columns are not there, and which might be meant."""
    near = nearest(absent[0], names)
    if len(names) == 1 and (mark := next((mark for mark in "|;\t:," if mark in names[0]), None)):
        hint = f"the header is one column {names[0]!r}: set separator={mark!r}"
    elif _are_values(names):
        return _NO_HEADER
    elif near is not None:
        hint = f"did you mean {near!r}?"
    else:
        hint = f"name one of {_listed(names)}"
    return f"no column {_listed(absent)}; {hint}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(repr, names[:MOST_NAMES])) + more


def stack(parts: list[Part]) -> pa.Table:
    """Put tables with the same columns one below the other."""
    first_file, first, _ = parts[0]
    for file, table, _ in parts[1:]:
        if set(table.column_names) != set(first.column_names):
            only = set(table.column_names) ^ set(first.column_names)
            raise TableError(
                f"{file} and {first_file} have different columns: "
                f"{_listed(sorted(only))} in one of them only; files of one folder need the same"
            )
    try:
        return pa.concat_tables(
            [part.table.select(first.column_names) for part in parts],
            promote_options="permissive",
        )
    except pa.ArrowException as error:
        names = ", ".join(str(part.file) for part in parts[:MOST_NAMES])
        raise TableError(
            f"{names}: columns of different types: {_reason(error)}; write them alike in all files"
        ) from None


def _unreadable(file: Path, kind: str, error: BaseException) -> TableError:
    return TableError(
        f"{file}: not a readable {kind} file: {_reason(error)}; write the file again, or name it "
        "after what it is"
    )


def _reason(error: BaseException) -> str:
    """Return what Arrow says, without the cells and rows it quotes."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    counted = re.search(r"got \d+", line)
    line = line[: counted.end()] if counted else re.sub(r"'.*'|\".*\"", "…", line)
    return line[:200]
