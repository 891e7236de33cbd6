"""Tables of other libraries: in by the Arrow interface, out as what came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lit_ios.checks import UserError
from lit_ios.policy.inputs import EngineInputs, Inputs
from lit_ios.readers.columns import Source
from lit_ios.readers.table import TableRoles, open_file, open_table, source_paths
from lit_ios.trajectories import IntArray, TrajectorySet

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


def like(original: Table, table: pa.Table, rows: IntArray) -> Any:
    """Return a table of these rows of the original as the kind that is of."""
    if _is_pandas(original):
        return table.to_pandas().set_axis(original.index[rows])
    if type(original).__module__.split(".")[0] == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def table_roles(
    inputs: Inputs, trained: Mapping[str, Any], path: str | None, time: str | None, **roles: Any
) -> TableRoles:
    """Return which column means what: as it was in training, unless said otherwise.

    Args:
        inputs: what the policy takes.
        trained: what the checkpoint knows of the table it was trained on.
        path: column that names the path.
        time: column of times.
        **roles: further arguments of TableRoles.
    """
    path, time = path or trained.get("path_column"), time or trained.get("time_column")
    if path is None or time is None:
        raise UserError("name the columns of paths and times: path='…', time='…' (--path, --time)")
    if "time_unit" in trained:
        roles = {"time_unit": trained["time_unit"]} | roles
    named = {"path_column", "time_column", "features"}  # by path, time and the policy itself
    unknown = roles.keys() - ({field.name for field in fields(TableRoles)} - named)
    if unknown:
        raise UserError(f"there is no argument {', '.join(sorted(unknown))}")
    if isinstance(inputs, EngineInputs) and roles.get("missing") == "forward_fill":
        raise UserError(
            "forward_fill would carry sensors into another operating condition: use "
            "stream(missing='carry'), which carries them scaled"
        )
    # an engine's sensors are scaled by its settings: those are read too
    return TableRoles(path, time, features=inputs.names, **roles)


def open_any(table: Table, roles: TableRoles) -> Source:
    """Open a file, or take a table in memory."""
    if isinstance(table, str | Path):
        return open_file(table, roles)
    return open_table(as_arrow(table), roles)


def read_features(
    source: Source, roles: TableRoles, inputs: Inputs
) -> tuple[TrajectorySet, IntArray]:
    """Return paths of features, and where their rows lie in the table."""
    paths, rows = source_paths(source, roles, training=False)
    if paths.feature_names != roles.features:
        text = next(name for name in inputs.names if name not in paths.feature_names)
        raise UserError(f"column {text!r}: the policy takes numbers here, the table holds text")
    if isinstance(inputs, EngineInputs):
        values = inputs.matrix(np.asarray(paths.states, dtype=np.float64))
        paths = paths.with_states(values, inputs.feature_names)
    return paths, rows


def _is_pandas(table: Table) -> bool:
    return type(table).__module__.split(".")[0] == "pandas"
