"""Which rows of a table are which path, in which order, and how each path ends."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from lit_ios.readers.columns import Source
from lit_ios.readers.duplicates import are_identical, first_of_identical
from lit_ios.readers.events import Events, events_of
from lit_ios.readers.files import TableError
from lit_ios.readers.flags import read_flags, read_stops
from lit_ios.readers.roles import TableRoles
from lit_ios.trajectories import BoolArray, FloatArray, IntArray


class Outline(NamedTuple):
    """The paths of a table without their features."""

    names: list[str]  # by code
    codes: IntArray  # (N,) path of each row of the table
    times: FloatArray  # (N,)
    order: IntArray | None  # rows with those of each path together; None: they are
    stopped: BoolArray  # (P,) of each path, in the order in which they first appear
    event_times: FloatArray | None  # (P,) NaN where there is none


def read_outline(source: Source, roles: TableRoles) -> Outline:
    """Find out which rows belong to which path, in which order, and which paths were stopped."""
    coded = source.path_names(roles.path)
    names = coded.dictionary.to_pylist()
    times = source.times(roles.time, roles.time_unit, roles.date_format)
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    order = _order(source, codes, times, roles)
    rows = np.arange(len(codes)) if order is None else order
    offsets = path_offsets(codes[rows])
    last = rows[offsets[1:] - 1]
    events = events_of(source, names, roles, last, times)  # codes count paths as they appear
    stopped = _stopped(source, roles, offsets, rows, events)
    happened = None
    if events is not None and events.times is not None:
        happened = np.where(stopped, events.times, np.nan)
    return Outline(names, codes, times, order, stopped, happened)


def path_offsets(codes: IntArray) -> IntArray:
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
    if roles.duplicates == "drop":
        keep = first_of_identical(source, roles, codes, times)
        if not keep.all():
            order = rows = rows[keep[rows]]
    bad = (np.diff(codes[rows]) == 0) & (np.diff(times[rows]) <= 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise _out_of_order(source, roles, times, int(rows[at]), int(rows[at + 1]))
    return order


def _out_of_order(
    source: Source, roles: TableRoles, times: FloatArray, first: int, second: int
) -> TableError:
    where, before = source.where(roles.time, second), source.in_its_file(first)[1] + 1
    early, late = (source.cell(roles.time, row) for row in (first, second))
    if times[first] != times[second]:
        return TableError(
            f"{where}: time {late} after {early} in row {before}; "
            "put the rows into order, or set sort=True"
        )
    if are_identical(source, roles, first, second):
        hint = "the rows are identical: set duplicates='drop' to keep the first"
    else:
        hint = "the rows differ: keep one, or check that path and time name the right columns"
    return TableError(f"{where}: the same time {late} as in row {before}; {hint}")


def _stopped(
    source: Source, roles: TableRoles, offsets: IntArray, rows: IntArray, events: Events | None
) -> BoolArray:
    """Say which paths end with a stop, from the flags, or else from the events."""
    stopped = np.ones(len(offsets) - 1, dtype=bool)
    if roles.stop is not None:
        if events is not None and roles.stop in events.table:
            stopped = read_stops(events.table, roles.stop, roles.stop_value)[events.rows]
        else:
            flags = read_stops(source, roles.stop, roles.stop_value)[rows]
            stopped = _path_stops(source, roles.stop, flags, offsets, rows)
    elif roles.censored is None and events is not None and events.times is not None:
        stopped = np.isfinite(events.times)
    if roles.censored is None:
        return stopped
    if events is not None and roles.censored in events.table:
        censored = read_flags(events.table, roles.censored)[events.rows]
    else:
        flags = read_flags(source, roles.censored)[rows]
        censored = np.logical_or.reduceat(flags, offsets[:-1])
    both = censored & stopped
    if roles.stop is not None and both.any():
        row = int(rows[offsets[1:][np.argmax(both)] - 1])
        raise TableError(
            f"{source.where(roles.censored, row)}: the path is marked as censored and as stopped "
            f"({roles.stop!r}); correct one of the two"
        )
    return stopped & ~censored


def _path_stops(
    source: Source, column: str, flags: BoolArray, offsets: IntArray, rows: IntArray
) -> BoolArray:
    """Say which paths are stopped: by a flag on the last row, or the same flag on all rows."""
    last = offsets[1:] - 1
    early = flags.copy()
    early[last] = False
    if not early.any():
        return flags[last]
    counts = np.add.reduceat(flags, offsets[:-1], dtype=np.int64)
    if ((counts == 0) | (counts == np.diff(offsets))).all():
        warnings.warn(
            f"{source.name}, column {column!r} is the same on all rows of each path, so it is "
            "taken as the path's outcome: the stop is the last row",
            stacklevel=2,
        )
        return flags[last]
    row = int(rows[np.argmax(early)])
    raise TableError(
        f"{source.where(column, row)}: rows follow after the stop; drop them, or mark the stop "
        "either on the last row of a path only or on all rows of all stopped paths"
    )
