"""Tables of other libraries: in by the Arrow interface, out as what came in."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lit_ios.checks import UserError
from lit_ios.trajectories import IntArray

Table = Any  # pandas, polars, pyarrow, a dictionary of columns, or the name of a file


def as_arrow(table: Table) -> pa.Table:
    """Return any kind of table as an Arrow table."""
    if _is_pandas(table):
        return pa.Table.from_pandas(table, preserve_index=False)
    try:
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


def like(original: Table, table: pa.Table, rows: IntArray) -> Any:
    """Return a table of these rows of the original as the kind that is of."""
    if _is_pandas(original):
        return table.to_pandas().set_axis(original.index[rows])
    if type(original).__module__.split(".")[0] == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def _is_pandas(table: Table) -> bool:
    return type(table).__module__.split(".")[0] == "pandas"
