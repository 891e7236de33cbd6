"""A long table (path, time, features, flags) → stopped paths.

file → columns by role → rows grouped by path → checks → TrajectorySet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from lit_ios.checks import check_choice
from lit_ios.readers.columns import Source
from lit_ios.readers.features import chosen_columns, column_matrix, text_categories
from lit_ios.readers.files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    TableError,
    read_parts,
    read_schema,
    stack,
)
from lit_ios.times import TimeUnit
from lit_ios.trajectories import (
    BoolArray,
    Categories,
    FloatArray,
    IntArray,
    TrajectorySet,
    row_blocks,
)

Missing = Literal["error", "drop", "last"]


@dataclass(frozen=True)
class TableRoles:
    """Which column of a table means what.

    Args:
        path: names the path a row belongs to; its rows need not lie together.
        time: numbers or dates.
        features: columns the state is made of, None for all that have no other role.
        stop: 1 at the row where the expert stopped, else 0; a path without 1 is
            censored. Without this column the last row of each path is its stop.
        censored: 1 on the rows of paths that were censored.
        missing: what to do about missing and infinite values: refuse them, drop the row, or take
            the last value before in the path.
        sort: put the rows of each path into the order of time, instead of asking for it.
        time_unit: unit of time where the time column holds dates.
        categories: of text columns that are to be coded as before.
    """

    path: str
    time: str
    features: tuple[str, ...] | None = None
    stop: str | None = None
    censored: str | None = None
    missing: Missing = "error"
    sort: bool = False
    time_unit: TimeUnit = "hours"
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the choices."""
        check_choice("missing", self.missing, Missing)
        check_choice("time_unit", self.time_unit, TimeUnit)

    @property
    def others(self) -> list[str]:
        """Columns that are not features."""
        named = (self.path, self.time, self.stop, self.censored)
        return [name for name in named if name is not None]


def read_paths(file: str | Path, roles: TableRoles, *, training: bool = True) -> TrajectorySet:
    """Read the paths of a file or folder.

    Args:
        file: CSV, compressed CSV or Parquet, or a folder of such files.
        roles: which column means what.
        training: ask for at least one stop and one path of two rows.
    """
    return read_rows(file, roles, training=training)[0]


def read_rows(
    file: str | Path, roles: TableRoles, *, training: bool = True
) -> tuple[TrajectorySet, IntArray]:
    """Read the paths of a file or folder, and say which row of it each of theirs is."""
    return source_paths(open_file(file, roles), roles, training=training)


def open_table(table: pa.Table, roles: TableRoles) -> Source:
    """Take a table in memory."""
    if table.num_rows == 0:
        raise TableError("the table has no rows")
    source = Source("table", table, roles.path)
    _check_columns(source, roles)
    return source


def source_paths(
    source: Source, roles: TableRoles, *, training: bool
) -> tuple[TrajectorySet, IntArray]:
    """Group the rows by path, check them, and say which row of the source each one is."""
    outline = read_outline(source, roles)
    names = chosen_columns(source, roles.features, roles.others)
    categories = text_categories(source, names, roles.categories)
    states = column_matrix(source, names, categories)
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
        categories=categories,
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
    names = source.path_names(roles.path)
    times = source.times(roles.time, roles.time_unit)
    codes = np.asarray(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    order = _order(source, codes, times, roles)
    rows = np.arange(len(codes)) if order is None else order
    stopped = _stopped(source, roles, _offsets(codes[rows]), rows)
    return Outline(names.dictionary.to_pylist(), codes, times, order, stopped)


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


def read_column_names(
    file: str | Path, roles: TableRoles
) -> tuple[tuple[str, ...], Categories] | None:
    """Name the columns of a Parquet file and its categories without reading numbers; else None."""
    if not str(file).endswith(PARQUET_ENDINGS) or not Path(file).is_file():
        return None
    outside = Source(str(file), read_schema(Path(file)).empty_table())
    _check_columns(outside, roles)
    names = chosen_columns(outside, roles.features, roles.others)
    categories: dict[str, tuple[str, ...]] = {}
    for name in names:
        if outside.is_text(name) or name in roles.categories:
            column = Source(str(file), stack(read_parts(file, [name])))
            categories |= text_categories(column, [name], roles.categories)
    return names, categories


def open_file(
    file: str | Path,
    roles: TableRoles,
    wanted: list[str] | None = None,
    keep: BoolArray | None = None,
) -> Source:
    """Read the file, its path names and columns of known categories as they are written.

    Args:
        file: CSV or Parquet, or a folder of such files.
        roles: which column means what.
        wanted: columns to read; None for all.
        keep: rows to read; None for all.
    """
    as_text = [roles.path]
    parts = read_parts(file, wanted, as_text, keep)
    known = set(parts[0].table.column_names)
    categorical = sorted(known & set(roles.categories))
    if categorical:
        parts = read_parts(file, wanted, as_text + categorical, keep)
    lengths = [(part.file, part.rows) for part in parts]
    numbers = None if keep is None else np.flatnonzero(keep)
    source = Source(str(file), stack(parts), roles.path, lengths, numbers)
    if wanted is None:
        _check_columns(source, roles)
    used = {*roles.others, *(roles.features or known)}
    for column in source.table.column_names:
        if column in used or parts[0].file.name.endswith(CSV_ENDINGS):
            source.check_text(column)
    return source


def _check_columns(source: Source, roles: TableRoles) -> None:
    names = source.table.column_names
    missing = [name for name in (*roles.others, *(roles.features or ())) if name not in names]
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
        where, before = source.where(roles.time, second), source.in_its_file(first)[1] + 1
        early, late = (source.cell(roles.time, row) for row in (first, second))
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
    if missing == "last":
        states, bad_rows = _forward_filled(states, finite, codes)
    if missing == "drop" and not (bad_rows & is_last).any():
        return states, np.flatnonzero(~bad_rows)
    if not bad_rows.any():
        return states, None
    row = int(np.argmax(bad_rows & is_last if missing == "drop" else bad_rows))
    column = int(np.argmin(np.isfinite(states[row])))
    where = source.where(names[column], int(rows[row]))
    hint = {
        "error": "set missing: drop or missing: last to go on without it",
        "drop": "the last row of a path cannot be dropped, it decides when the path ends",
        "last": "there is no value before it in its path",
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
    if roles.stop is not None:
        flags = source.flags(roles.stop)[rows]
        early = flags.copy()
        early[last] = False
        if early.any():
            row = int(rows[np.argmax(early)])
            raise TableError(f"{source.where(roles.stop, row)}: rows follow after the stop")
        stopped = flags[last]
    if roles.censored is not None:
        flags = source.flags(roles.censored)[rows]
        censored = np.logical_or.reduceat(flags, offsets[:-1])
        both = censored & stopped
        if roles.stop is not None and both.any():
            row = int(rows[last[np.argmax(both)]])
            raise TableError(
                f"{source.where(roles.censored, row)}: the path is marked as censored "
                f"and as stopped ({roles.stop})"
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
