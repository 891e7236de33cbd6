"""A long table (path, time, features, flags) → stopped paths.

file → columns by role → rows grouped by path → checks → TrajectorySet
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from lit_ios.checks import check_choice
from lit_ios.readers.columns import Source, TimeUnit
from lit_ios.readers.features import column_of, feature_matrix
from lit_ios.readers.files import CSV_ENDINGS, TableError, read_parts, stack
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet, row_blocks

Missing = Literal["error", "drop", "forward_fill"]


@dataclass(frozen=True)
class TableRoles:
    """Which column of a table means what.

    Args:
        path_column: names the path a row belongs to; its rows need not lie together.
        time_column: numbers or dates.
        features: columns the state is made of, None for all that have no other role. `colour=red`
            names one category of a column of text.
        stop_column: 1 at the row where the expert stopped, else 0; a path without 1 is
            censored. Without this column the last row of each path is its stop.
        censored_column: 1 on the rows of paths that were censored.
        missing: what to do about missing and infinite values.
        sort: put the rows of each path into the order of time, instead of asking for it.
        time_unit: unit of time where the time column holds dates.
    """

    path_column: str
    time_column: str
    features: tuple[str, ...] | None = None
    stop_column: str | None = None
    censored_column: str | None = None
    missing: Missing = "error"
    sort: bool = False
    time_unit: TimeUnit = "hours"

    def __post_init__(self) -> None:
        """Check the choices."""
        check_choice("missing", self.missing, Missing)
        check_choice("time_unit", self.time_unit, TimeUnit)

    @property
    def others(self) -> list[str]:
        """Columns that are no features."""
        named = (self.path_column, self.time_column, self.stop_column, self.censored_column)
        return [name for name in named if name is not None]


def read_paths(file: str | Path, roles: TableRoles, *, training: bool = True) -> TrajectorySet:
    """Read the paths of a file or folder.

    Args:
        file: CSV, compressed CSV or Parquet, or a folder of such files.
        roles: which column means what.
        training: ask for at least one stop and one path of two rows.
    """
    return source_paths(open_file(file, roles), roles, training=training)[0]


def open_table(table: pa.Table, roles: TableRoles) -> Source:
    """Take a table in memory."""
    if table.num_rows == 0:
        raise TableError("the table has no rows")
    source = Source("table", table, roles.path_column)
    _check_columns(source, roles)
    return source


def source_paths(
    source: Source, roles: TableRoles, *, training: bool
) -> tuple[TrajectorySet, IntArray]:
    """Group the rows by path, check them, and say which row of the source each one is."""
    names = source.path_names(roles.path_column)
    times = source.times(roles.time_column, roles.time_unit)
    states, feature_names = feature_matrix(source, roles.features, roles.others)
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    order = _order(source, codes, times, roles)
    if order is not None:
        states, times, codes = states[order], times[order], codes[order]
    rows = np.arange(len(codes)) if order is None else order
    states, keep = _without_missing(source, states, codes, rows, feature_names, roles.missing)
    stopped = _stopped(source, roles, _offsets(codes), rows)  # before a row with a flag is dropped
    if keep is not None:
        states, times, codes, rows = states[keep], times[keep], codes[keep], rows[keep]
    offsets = _offsets(codes)
    all_names = names.dictionary.to_pylist()
    paths = TrajectorySet(
        states=states,
        times=times,
        offsets=offsets,
        stopped=stopped,
        names=tuple(all_names[code] for code in codes[offsets[:-1]]),
        feature_names=feature_names,
    )
    if training:
        _check_trainable(source, paths)
    del source, names
    pa.default_memory_pool().release_unused()
    return paths, rows


def open_file(file: str | Path, roles: TableRoles) -> Source:
    """Read the file, its path names and known categories as they are written."""
    as_text = [roles.path_column]
    parts = read_parts(file, as_text=as_text)
    known = set(parts[0][1].column_names)
    named = {column_of(name, known) for name in roles.features or () if name not in known}
    categorical = sorted(name for name in named if name is not None)
    if categorical:
        parts = read_parts(file, as_text=as_text + categorical)
    lengths = [(part, table.num_rows) for part, table in parts]
    source = Source(str(file), stack(parts), roles.path_column, lengths)
    _check_columns(source, roles)
    used = {*roles.others, *(column_of(name, known) for name in roles.features or known)}
    for column in source.table.column_names:
        if column in used or parts[0][0].name.endswith(CSV_ENDINGS):
            source.check_text(column)
    return source


def _check_columns(source: Source, roles: TableRoles) -> None:
    names = source.table.column_names
    features = [name for name in roles.features or () if name not in names and "=" not in name]
    missing = [name for name in roles.others + features if name not in names]
    if missing:
        raise TableError(
            f"{source.name}: no column {', '.join(map(repr, missing))}; "
            f"there are {', '.join(map(repr, names))}"
        )
    if len(set(roles.others)) < len(roles.others):
        raise TableError(f"{source.name}: one column has two roles: {', '.join(roles.others)}")


def _offsets(codes: IntArray) -> IntArray:
    """Return where each path begins in rows grouped by path, and the number of rows."""
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])


def _order(
    source: Source, codes: IntArray, times: FloatArray, roles: TableRoles
) -> IntArray | None:
    """Return the order that brings paths together; None if they lie so already."""
    grouped = len(np.flatnonzero(np.diff(codes))) + 1 == codes.max() + 1
    order = None
    if roles.sort:
        order = np.lexsort((times, codes))
    elif not grouped:
        order = np.argsort(codes, kind="stable")
    rows = np.arange(len(codes)) if order is None else order
    same_path = np.diff(codes[rows]) == 0
    step = np.diff(times[rows])
    bad = same_path & (step <= 0)
    if bad.any():
        at = int(np.argmax(bad))
        first, second = rows[at], rows[at + 1]
        where = source.where(roles.time_column, int(second))
        if step[at] == 0:
            raise TableError(f"{where}: the same time {times[second]:g} as in row {first + 1}")
        raise TableError(
            f"{where}: time {times[second]:g} after {times[first]:g} in row {first + 1}; "
            "put the rows into order, or set sort: true"
        )
    return order


def _without_missing(
    source: Source,
    states: FloatArray,
    codes: IntArray,
    rows: IntArray,
    names: tuple[str, ...],
    missing: Missing,
) -> tuple[FloatArray, IntArray | None]:
    """Deal with values that are not finite: states, and which rows to keep if not all."""
    if all(np.isfinite(states[block]).all() for block in row_blocks(len(states))):
        return states, None
    finite = np.isfinite(states)
    is_last = np.append(np.diff(codes) != 0, True)
    bad_rows = ~finite.all(axis=1)
    if missing == "forward_fill":
        states, bad_rows = _forward_filled(states, finite, codes)
    if missing == "drop" and not (bad_rows & is_last).any():
        return states, np.flatnonzero(~bad_rows)
    if not bad_rows.any():
        return states, None
    row = int(np.argmax(bad_rows & is_last if missing == "drop" else bad_rows))
    column = int(np.argmin(np.isfinite(states[row])))
    origin = column_of(names[column], set(source.columns)) or names[column]
    where = source.where(origin, int(rows[row]))
    hint = {
        "error": "set missing: drop or missing: forward_fill to go on without it",
        "drop": "the last row of a path cannot be dropped, it decides when the path ends",
        "forward_fill": "there is no value before it in its path",
    }[missing]
    raise TableError(f"{where}: missing or infinite value; {hint}")


def _forward_filled(
    states: FloatArray, finite: BoolArray, codes: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Fill each gap with the last value before it in its path; also say where there is none."""
    number = np.arange(len(states))
    last_known = np.maximum.accumulate(np.where(finite, number[:, None], -1), axis=0)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])
    first = np.repeat(starts, np.diff(np.append(starts, len(codes))))
    unknown = last_known < first[:, None]
    filled = np.take_along_axis(states, np.maximum(last_known, 0), axis=0)
    return np.where(unknown, np.nan, filled), np.asarray(unknown.any(axis=1))


def _stopped(source: Source, roles: TableRoles, offsets: IntArray, rows: IntArray) -> BoolArray:
    """Say which paths end with a stop, from the flags."""
    last = offsets[1:] - 1
    stopped = np.ones(len(last), dtype=bool)
    if roles.stop_column is not None:
        flags = source.flags(roles.stop_column)[rows]
        early = flags.copy()
        early[last] = False
        if early.any():
            row = int(rows[np.argmax(early)])
            raise TableError(f"{source.where(roles.stop_column, row)}: rows follow after the stop")
        stopped = flags[last]
    if roles.censored_column is not None:
        flags = source.flags(roles.censored_column)[rows]
        censored = np.logical_or.reduceat(flags, offsets[:-1])
        both = censored & stopped
        if roles.stop_column is not None and both.any():
            row = int(rows[last[np.argmax(both)]])
            raise TableError(
                f"{source.where(roles.censored_column, row)}: the path is marked as censored "
                f"and as stopped ({roles.stop_column})"
            )
        stopped = stopped & ~censored
    return stopped


def _check_trainable(source: Source, paths: TrajectorySet) -> None:
    if not paths.stopped.any():
        raise TableError(f"{source.name}: no path is stopped, all are censored")
    if (paths.lengths == 1).all():
        raise TableError(
            f"{source.name}: every path has a single row, so the expert never continued; "
            "is the path column right?"
        )
