"""Tables of other libraries: in by the Arrow interface, out as what came in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from lit_ios.checks import UserError, check_arguments
from lit_ios.data_record import TableColumns
from lit_ios.readers.columns import Source
from lit_ios.readers.files import check_names
from lit_ios.readers.table import TableRoles, open_file, open_table
from lit_ios.rule import Encoder
from lit_ios.trajectories import IntArray

Table = Any  # pandas, polars, pyarrow, a dictionary of columns, or the name of a file


def as_arrow(table: Table) -> pa.Table:
    """Return any kind of table as an Arrow table."""
    _check_shape(table)
    try:
        if _is_pandas(table):
            made = pa.Table.from_pandas(table, preserve_index=False)
        else:
            made = table if isinstance(table, pa.Table) else pa.table(table)
        return pa.table([_plain(column) for column in made.columns], made.column_names)
    except (TypeError, ValueError, pa.ArrowException) as error:
        if mixed := re.search(r"Conversion failed for column (.+) with type object", str(error)):
            raise UserError(
                f"column {mixed[1]!r} holds values of several kinds: make them one, e.g. with "
                "pandas.to_numeric(…) or astype(str)"
            ) from None
        raise _no_table(table) from None


def _check_shape(table: Table) -> None:
    """Refuse a single column for a table, and what is not a table yet."""
    kind = type(table).__name__
    if kind in ("Series", "ChunkedArray", "Index"):
        raise UserError(f"a table is needed, got a single column ({kind}): give the DataFrame")
    if kind == "LazyFrame":
        raise UserError("a LazyFrame has not been read yet: give table.collect()")
    if _is_pandas(table):  # pandas' own sentence lists all names
        if kind != "DataFrame":
            raise _no_table(table)
        check_names("the table", [str(name) for name in table.columns], None)


def _no_table(table: Table) -> UserError:
    made = ": pandas.DataFrame(…) makes one" if isinstance(table, list) else ""
    return UserError(
        "a table must be a DataFrame, an Arrow table, a dictionary of columns or a file, got "
        f"{type(table).__name__}{made}"
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return polars' text, which Arrow can do little with, as text; coded numbers as numbers."""
    coded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if coded else column.type
    if pa.types.is_string_view(kind) and coded:
        parts = [(part.indices, part.dictionary.cast(pa.large_string())) for part in column.chunks]
        return pa.chunked_array([pa.DictionaryArray.from_arrays(*part) for part in parts])
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return column.cast(kind) if coded and not text else column


def same_kind(original: Table, table: pa.Table, rows: IntArray) -> Any:
    """Return an Arrow table as the kind of table the original is.

    Args:
        original: whose index a pandas table keeps.
        table: made of rows of the original.
        rows: which rows.
    """
    if _is_pandas(original):
        return table.to_pandas().set_axis(original.index[rows])
    if type(original).__module__.split(".")[0] == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def table_roles(
    encoder: Encoder, trained: TableColumns, path: str | None, time: str | None, **roles: Any
) -> TableRoles:
    """Return which column means what: as it was in training, unless said otherwise.

    Args:
        encoder: of the rule.
        trained: columns of the table it was trained on.
        path: column that names the path.
        time: column of times.
        **roles: further arguments of TableRoles.
    """
    path, time = (
        old if new is None else new for new, old in ((path, trained.path), (time, trained.time))
    )
    if path is None or time is None:
        raise UserError("name the columns of paths and times: path='…', time='…'")
    check_roles(roles)
    given = plain_roles(path=path, time=time, **roles)
    return TableRoles(
        features=encoder.columns, categories=encoder.categories,
        **(_as_trained(trained, given) | given),
    )  # fmt: skip


def check_roles(roles: Iterable[str], own: Iterable[str] = ()) -> None:
    """Refuse keywords that say nothing of a table; `own` are others that may have been meant."""
    by_rule = {"features", "categories"}
    check_arguments(roles, {field.name for field in fields(TableRoles)} - by_rule | {*own})


def plain_roles(**roles: Any) -> dict[str, Any]:
    """Return arguments of TableRoles as it takes them, without those that are None."""
    given = {name: value for name, value in roles.items() if value is not None}
    for name in ("path", "time", "stop", "censored", "event_time"):
        if not isinstance(given.get(name, ""), str):
            raise UserError(
                f"{name} must be the name of one column, got {_kind_of(given[name])}: {name}='…'"
            )
    for name in ("features", "drop"):
        if name in given:
            given[name] = plain_names(name, given[name])
    if "stop_value" in given:  # checkpoints keep it as text
        given["stop_value"] = str(given["stop_value"])
    if "events" in given and not isinstance(given["events"], str | Path):
        given["events"] = as_arrow(given["events"])
    return given


def plain_names(argument: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return a list of columns; a single name would be taken for a list of letters."""
    if isinstance(given, str):
        raise UserError(f"{argument} must be a list of columns: write {argument}=[{given!r}]")
    return tuple(given)


def _as_trained(trained: TableColumns, given: dict[str, Any]) -> dict[str, Any]:
    """Return how the table of the training was read, as far as that is of use for another."""
    again = ("time_unit", "date_format", "separator", "decimal", "missing")
    kept = {name: getattr(trained, name) for name in again}
    if trained.missing == "drop":  # at use, a row that is not judged must be asked for
        kept["missing"] = "error"
    if given.get("stop") is not None and given["stop"] == trained.stop:
        kept["stop_value"] = trained.stop_value
    return kept


def open_any(table: Table, roles: TableRoles) -> Source:
    """Open a file, or take a table in memory."""
    if isinstance(table, str | Path):
        return open_file(table, roles)
    made = as_arrow(table)
    if _is_pandas(table):
        index = {name for name in table.index.names if name in roles.others}
        for name in index - {*table.columns}:
            raise UserError(f"{name!r} is the index of the table, not a column: df.reset_index()")
    return open_table(made, roles)


def _kind_of(value: object) -> str:
    """Name what was given; its content may be the user's data."""
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "a number" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _is_pandas(table: Table) -> bool:
    return type(table).__module__.split(".")[0] == "pandas"
