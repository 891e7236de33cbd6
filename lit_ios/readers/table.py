"""A long table (path, time, features, flags) → stopped paths.

file → columns by role → rows grouped by path → checks → TrajectorySet
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from lit_ios.checks import check_choice
from lit_ios.readers.columns import SECONDS, Source, TimeUnit
from lit_ios.readers.features import column_of, feature_matrix, feature_names
from lit_ios.readers.files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    TableError,
    read_parts,
    read_schema,
    stack,
)
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
    outline = read_outline(source, roles)
    states, names = feature_matrix(source, roles.features, roles.others)
    codes, times, order = outline.codes, outline.times, outline.order
    rows = np.arange(len(codes)) if order is None else order
    if order is not None:
        states, times, codes = states[order], times[order], codes[order]
    states, keep = _without_missing(source, states, codes, rows, names, roles.missing)
    if keep is not None:
        states, times, codes, rows = states[keep], times[keep], codes[keep], rows[keep]
    offsets = _offsets(codes)
    paths = TrajectorySet(
        states=states,
        times=times,
        offsets=offsets,
        stopped=outline.stopped,
        names=tuple(outline.names[code] for code in codes[offsets[:-1]]),
        feature_names=names,
    )
    if training:
        check_trainable(source.name, paths.stopped, len(paths.states))
    del source
    pa.default_memory_pool().release_unused()
    return paths, rows


class Outline(NamedTuple):
    """The paths of a table without their features."""

    names: list[str]  # by code
    codes: IntArray  # (N,) path of each row of the table
    times: FloatArray  # (N,)
    order: IntArray | None  # (N,) rows with those of each path together; None: they are
    stopped: BoolArray  # (P,) of each path, in the order in which they first appear


def read_outline(source: Source, roles: TableRoles) -> Outline:
    """Find out which rows belong to which path, in which order, and which paths were stopped."""
    names = source.path_names(roles.path_column)
    times = source.times(roles.time_column, roles.time_unit)
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    order = _order(source, codes, times, roles)
    rows = np.arange(len(codes)) if order is None else order
    stopped = _stopped(source, roles, _offsets(codes[rows]), rows)
    return Outline(names.dictionary.to_pylist(), codes, times, order, stopped)


def as_dates(file: str | Path, roles: TableRoles, times: FloatArray) -> pa.Array:
    """Return times that were read of a file as it has them: as dates (UTC), or as they are."""
    if not open_file(file, roles, wanted=roles.others).holds_dates(roles.time_column):
        return pa.array(times, from_pandas=True)
    microseconds = pa.array(np.round(times * (1e6 * SECONDS[roles.time_unit])), from_pandas=True)
    return microseconds.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


def read_share(
    file: str | Path, roles: TableRoles, choose: Callable[[Outline], IntArray]
) -> dict[int, TrajectorySet]:
    """Read sets of paths of a file, without ever holding the features of all of it.

    Args:
        file: as for `read_paths`.
        roles: which column means what; features must be named.
        choose: returns the set each path belongs to, (P,), below 0 for those left out.
    """
    outline = read_outline(open_file(file, roles, wanted=roles.others), roles)
    chosen = choose(outline)
    keep = (chosen >= 0)[outline.codes]
    del outline  # as large as some features
    paths = source_paths(open_file(file, roles, keep=keep), roles, training=False)[0]
    chosen = chosen[chosen >= 0]
    return {int(number): paths.select(chosen == number) for number in np.unique(chosen)}


def read_feature_names(file: str | Path, roles: TableRoles) -> list[str]:
    """Name the features of a Parquet file without reading its numbers; of others, nothing."""
    if not str(file).endswith(PARQUET_ENDINGS) or not Path(file).is_file():
        return []
    outside = Source(str(file), read_schema(Path(file)).empty_table())
    _check_columns(outside, roles)
    known = outside.columns
    names: list[str] = []
    for name in roles.features or (name for name in known if name not in roles.others):
        if name in known and outside.is_text(name):
            column = Source(str(file), stack(read_parts(file, [name])))
            names += feature_names(column, [name], ())
        else:
            names.append(name)
    return names


def open_file(
    file: str | Path,
    roles: TableRoles,
    wanted: list[str] | None = None,
    keep: BoolArray | None = None,
) -> Source:
    """Read the file, its path names and known categories as they are written.

    Args:
        file: CSV or Parquet, or a folder of such files.
        roles: which column means what.
        wanted: columns to read; None for all.
        keep: rows to read; None for all.
    """
    as_text = [roles.path_column]
    parts = read_parts(file, wanted, as_text, keep)
    known = set(parts[0].table.column_names)
    named = {column_of(name, known) for name in roles.features or () if name not in known}
    categorical = sorted(name for name in named if name is not None)
    if categorical:
        parts = read_parts(file, wanted, as_text + categorical, keep)
    lengths = [(part.file, part.rows) for part in parts]
    numbers = None if keep is None else np.flatnonzero(keep)
    source = Source(str(file), stack(parts), roles.path_column, lengths, numbers)
    if wanted is None:
        _check_columns(source, roles)
    used = {*roles.others, *(column_of(name, known) for name in roles.features or known)}
    for column in source.table.column_names:
        if column in used or parts[0].file.name.endswith(CSV_ENDINGS):
            source.check_text(column)
    return source


def _check_columns(source: Source, roles: TableRoles) -> None:
    names = source.table.column_names
    features = [name for name in roles.features or () if name not in names and "=" not in name]
    missing = [name for name in roles.others + features if name not in names]
    if missing:
        other = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        raise TableError(
            f"{source.name}: no column {', '.join(map(repr, missing))}; "
            + ("columns must be separated by commas, the header is " if other else "there are ")
            + ", ".join(map(repr, names))
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
        first, second = int(rows[at]), int(rows[at + 1])
        where, before = source.where(roles.time_column, second), source.in_its_file(first)[1] + 1
        early, late = (source.cell(roles.time_column, row) for row in (first, second))
        if step[at] == 0:
            raise TableError(f"{where}: the same time {late} as in row {before}")
        raise TableError(
            f"{where}: time {late} after {early} in row {before}; "
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


def check_trainable(name: str, stopped: BoolArray, rows: int) -> None:
    """Refuse paths of which none was stopped, or none continued."""
    if not stopped.any():
        raise TableError(f"{name}: no path is stopped, all are censored")
    if rows == len(stopped):
        raise TableError(
            f"{name}: every path has a single row, so the expert never continued; "
            "is the path column right?"
        )
