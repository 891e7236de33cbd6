"""A second table with one row per path: its status, the time of its event, or both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.readers.columns import Source
from lit_ios.readers.files import TableError, check_names, read_parts, stack
from lit_ios.readers.roles import TableRoles
from lit_ios.trajectories import FloatArray, IntArray


def open_events(roles: TableRoles) -> Source | None:
    """Read the table of events, if one is named; columns without a role are not used."""
    if roles.events is None:
        return None
    if isinstance(roles.events, pa.Table):
        source = Source("the table of events", roles.events, roles.path)
    else:
        as_text = [roles.path, *([roles.time] if roles.date_format else [])]
        parts = read_parts(roles.events, None, as_text, dialect=roles.dialect, limits=roles.limits)
        lengths = [(part.file, part.rows) for part in parts]
        source = Source(str(roles.events), stack(parts), roles.path, lengths)
    check_names(source.name, source.columns, [roles.path])
    if not any(name in source for name in roles.others[1:]):
        raise TableError(
            f"{source.name}: neither the time of the event ({roles.time!r}) nor a status; name the "
            "column of the status with stop='…', or leave events out"
        )
    return source


_KINDS = {False: "numbers", True: "dates"}


class Events(NamedTuple):
    """What a table of events says of the paths of the long table."""

    table: Source
    rows: IntArray  # (P,) of the table of events
    times: FloatArray | None  # (P,) NaN where none is given


def events_of(
    source: Source, names: list[str], roles: TableRoles, last: IntArray, times: FloatArray
) -> Events | None:
    """Find the event of each path, and refuse rows that follow it.

    Args:
        source: the long table.
        names: of its paths.
        roles: which column means what.
        last: row of the long table in which each path ends.
        times: of all rows of the long table.
    """
    if roles.event_time is not None:
        events, rows = own_events(source, roles), np.arange(len(names))
    elif source.events is not None:
        events = source.events
        rows = _rows_of(events, source, names, roles.path)
    else:
        return None
    if roles.time not in events:
        return Events(events, rows, None)
    dated = [table.holds_dates(roles.time, roles.date_format) for table in (source, events)]
    when = _times(events, roles)[rows]
    if dated[0] != dated[1] and np.isfinite(when).any():
        raise TableError(
            f"{events.name}, column {roles.time!r}: {_KINDS[dated[1]]} where {source.name} has "
            f"{_KINDS[dated[0]]}; write both alike"
        )
    late = times[last] > when
    if late.any():
        path = int(np.argmax(late))
        raise TableError(
            f"{source.where(roles.time, int(last[path]))}: the row is after the path's event at "
            f"{events.cell(roles.time, int(rows[path]))} in {events.name}; drop the rows after an "
            "event, or correct its time"
        )
    return Events(events, rows, when)


def own_events(source: Source, roles: TableRoles) -> Source:
    """Return a column of event times of the long table as a table of events, path by path."""
    assert roles.event_time is not None
    codes = np.asarray(source.path_names(roles.path).indices.to_numpy(zero_copy_only=False))
    first = np.unique(codes, return_index=True)[1]
    column = source[roles.event_time].combine_chunks().dictionary_encode()
    kinds = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    torn = kinds != kinds[first][codes]
    if torn.any():
        raise TableError(
            f"{source.where(roles.event_time, int(np.argmax(torn)))}: another time of the event "
            "than in the path's first row; write the same on all rows of a path"
        )
    taken = {roles.path: roles.path, roles.time: roles.event_time}
    made = pa.table({name: source[column].take(pa.array(first)) for name, column in taken.items()})
    return Source(f"{source.name}, column {roles.event_time!r}", made, roles.path)


def _rows_of(events: Source, source: Source, names: list[str], path: str) -> IntArray:
    """Return the row of each path in the table of events."""
    coded = events.path_names(path)
    if len(coded.dictionary) < len(coded):
        codes = coded.indices.to_numpy()
        first = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        file, number = events.in_its_file(row)
        raise TableError(
            f"{file}, column {path!r}, row {number + 1}: a second row for path "
            f"{coded[row].as_py()!r}; keep one row per path"
        )
    found = pc.index_in(pa.array(names, pa.string()), coded.dictionary.cast(pa.string()))
    if found.null_count:
        absent = names[int(np.argmax(found.is_null().to_numpy(zero_copy_only=False)))]
        raise TableError(
            f"{source.name}: path {absent!r} has no row in {events.name}; add one, or drop the path"
        )
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _times(events: Source, roles: TableRoles) -> FloatArray:
    """Return the times of events, NaN where there is none."""
    column = events[roles.time]
    given = column.is_valid().to_numpy()
    times = np.full(events.rows, np.nan)
    if given.any():
        at = np.flatnonzero(given)
        some = Source(
            events.name, events.table.select([roles.path, roles.time]).take(pa.array(at)),
            events.path_column, events.parts, at,
        )  # fmt: skip
        times[at] = some.times(roles.time, roles.time_unit, roles.date_format)
    return times
