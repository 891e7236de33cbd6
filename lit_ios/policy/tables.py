"""Tables of other libraries: in by the Arrow interface, out as what came in."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from lit_ios.checks import UserError
from lit_ios.data_record import TableColumns
from lit_ios.readers.columns import Source
from lit_ios.readers.table import TableRoles, open_file, open_table
from lit_ios.rule import Encoder
from lit_ios.trajectories import IntArray

Table = Any  # pandas, polars, pyarrow, a dictionary of columns, or the name of a file


def as_arrow(table: Table) -> pa.Table:
    """Return any kind of table as an Arrow table."""
    try:
        if _is_pandas(table):
            return pa.Table.from_pandas(table, preserve_index=False)
        made = table if isinstance(table, pa.Table) else pa.table(table)
        for i, field in enumerate(made.schema):
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            if pa.types.is_string_view(kind):  # polars' text, which Arrow can do little with
                made = made.set_column(i, field.name, made[i].cast(pa.large_string()))
        return made
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UserError(
            f"a table must be a DataFrame, an Arrow table, a dictionary of columns or a file, got "
            f"{type(table).__name__}: {error}"
        ) from None


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
    unknown = roles.keys() - ({field.name for field in fields(TableRoles)} - named)
    if unknown:
        raise UserError(f"there is no argument {', '.join(sorted(unknown))}")
    return TableRoles(
        path, time, features=encoder.columns, categories=encoder.categories,
        **({"time_unit": trained.time_unit} | roles),
    )  # fmt: skip


def open_any(table: Table, roles: TableRoles) -> Source:
    """Open a file, or take a table in memory."""
    if isinstance(table, str | Path):
        return open_file(table, roles)
    return open_table(as_arrow(table), roles)


def _is_pandas(table: Table) -> bool:
    return type(table).__module__.split(".")[0] == "pandas"
