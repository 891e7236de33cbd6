"""Tables of other libraries: in by the Arrow interface, out as what came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from lit_ios.checks import UserError, check_arguments, did_you_mean
from lit_ios.data_record import TableColumns
from lit_ios.readers.columns import Source
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
        raise UserError(
            f"a table must be a DataFrame, an Arrow table, a dictionary of columns or a file, got "
            f"{type(table).__name__}: {error}"
        ) from None


def _check_shape(table: Table) -> None:
    """Refuse one column for a table, and two columns of one name."""
    kind = type(table).__name__
    if kind in ("Series", "ChunkedArray", "Index"):
        raise UserError(f"a table is needed, got a single column ({kind}): give the DataFrame")
    names = [str(name) for name in getattr(table, "columns", ())] if _is_pandas(table) else []
    names = table.column_names if isinstance(table, pa.Table) else names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"the table has two columns {twice!r}: rename or drop one of them")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return polars' text and categories of numbers as what Arrow can do more with."""
    coded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if coded else column.type
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
    path, time = path or trained.path, time or trained.time
    if path is None or time is None:
        raise UserError("name the columns of paths and times: path='…', time='…' (--path, --time)")
    named = {"path", "time", "features", "categories"}  # by path, time and the rule
    check_arguments(roles, {field.name for field in fields(TableRoles)} - named)
    given = {name: value for name, value in roles.items() if value is not None}
    if "events" in given and not isinstance(given["events"], str | Path):
        given["events"] = as_arrow(given["events"])
    return TableRoles(
        path, time, features=encoder.columns, categories=encoder.categories,
        **(_as_trained(trained, given) | given),
    )  # fmt: skip


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
    for role in ("path", "time", "stop", "censored"):
        name = getattr(roles, role)
        if not isinstance(name, str | None):
            raise UserError(
                f"{role} must be the name of one column, got {_kind_of(name)}: give its name, "
                f"{role}='…'"
            )
    if isinstance(table, str | Path):
        return open_file(table, roles)
    made = as_arrow(table)
    here = roles.others if roles.events is None else [roles.path, roles.time]
    _check_names(table, set(made.column_names), (*here, *(roles.features or ())))
    return open_table(made, roles)


def _check_names(table: Table, there: set[str], wanted: Sequence[str]) -> None:
    """Refuse a column that is not there: it is the index, or its name is another."""
    for name in wanted:
        if name in there:
            continue
        if _is_pandas(table) and name in table.index.names:
            raise UserError(f"{name!r} is the index of the table, not a column: df.reset_index()")
        near = did_you_mean(name, there)
        if near:
            raise UserError(f"the table has no column {name!r}{near}")


def _kind_of(value: object) -> str:
    """Name what was given; its content may be the user's data."""
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "a number" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _is_pandas(table: Table) -> bool:
    return type(table).__module__.split(".")[0] == "pandas"
