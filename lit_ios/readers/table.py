"""A long table (path, time, features, flags) → stopped paths.

file → columns by role → rows grouped by path → checks → TrajectorySet
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from lit_ios.readers.columns import Source
from lit_ios.readers.events import open_events
from lit_ios.readers.features import chosen_columns, column_matrix, text_categories
from lit_ios.readers.files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    Part,
    TableError,
    absence,
    check_names,
    read_parts,
    read_schema,
    stack,
    table_files,
)
from lit_ios.readers.outline import Outline, path_offsets, read_outline
from lit_ios.readers.roles import Missing, TableRoles
from lit_ios.times import SECONDS
from lit_ios.trajectories import (
    BoolArray,
    Categories,
    FloatArray,
    IntArray,
    TrajectorySet,
    row_blocks,
)

__all__ = [
    "Missing", "Outline", "TableRoles", "check_trainable", "holds_dates", "open_file", "open_table",
    "read_column_names", "read_outline", "read_paths", "read_rows", "read_share", "source_paths",
]  # fmt: skip


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


def source_paths(
    source: Source, roles: TableRoles, *, training: bool
) -> tuple[TrajectorySet, IntArray]:
    """Group the rows by path, check them, and say which row of the source each one is."""
    outline = read_outline(source, roles)
    names = chosen_columns(source, roles)
    categories = text_categories(source, names, roles.categories)
    states = column_matrix(source, names, categories, others=roles.unknown == "missing")
    codes, times, order = outline.codes, outline.times, outline.order
    rows = np.arange(len(codes)) if order is None else order
    if order is not None:
        states, times, codes = states[order], times[order], codes[order]
    keep = _treat_missing(source, states, codes, rows, names, roles.missing)
    if keep is not None:
        states, times, codes, rows = states[keep], times[keep], codes[keep], rows[keep]
    offsets = path_offsets(codes)
    paths = TrajectorySet(
        states=states,
        times=times,
        offsets=offsets,
        stopped=outline.stopped,
        names=tuple(map(outline.names.__getitem__, codes[offsets[:-1]].tolist())),
        feature_names=names,
        event_times=outline.event_times,
        categories=categories,
        gaps=roles.missing in ("last", "impute"),
    )
    if training:
        check_trainable(source.name, paths.stopped, len(paths.states))
    del source
    pa.default_memory_pool().release_unused()
    return paths, rows


def read_share(
    file: str | Path, roles: TableRoles, choose: Callable[[Outline], IntArray]
) -> dict[int, TrajectorySet]:
    """Read sets of paths of a file, without ever holding the features of all of it.

    Args:
        file: as for `read_paths`.
        roles: which column means what; features must be named.
        choose: returns the set each path belongs to, (P,), below 0 for those left out.
    """
    events = open_events(roles)
    flags = [name for name in roles.others[2:] if events is None or name not in events]
    wanted = [roles.path, roles.time, *flags]
    if roles.duplicates == "drop":  # by the features, too
        wanted += roles.features or ()
    outline = read_outline(open_file(file, roles, wanted=wanted), roles)
    chosen = choose(outline)
    keep = (chosen >= 0)[outline.codes]
    del outline  # as large as some features
    paths = source_paths(open_file(file, roles, keep=keep), roles, training=False)[0]
    chosen = chosen[chosen >= 0]
    return {int(number): paths.select(chosen == number) for number in np.unique(chosen)}


def read_column_names(
    file: str | Path, roles: TableRoles
) -> tuple[tuple[str, ...], Categories] | None:
    """Name the columns and categories of Parquet files without reading numbers; else None."""
    place = Path(file)
    files = table_files(place) if place.is_dir() else [place]
    if not all(part.name.endswith(PARQUET_ENDINGS) and part.is_file() for part in files):
        return None
    schemas = [Part(part, read_schema(part).empty_table(), 0) for part in files]
    outside = Source(str(file), stack(schemas))
    outside.events = open_events(roles)
    _check_columns(outside, roles)
    names = chosen_columns(outside, roles)
    categories: dict[str, tuple[str, ...]] = {}
    for name in names:
        if outside.is_text(name) or name in roles.categories:
            column = Source(str(file), stack(read_parts(file, [name], limits=roles.limits)))
            categories |= text_categories(column, [name], roles.categories)
    return names, categories


def open_table(table: pa.Table, roles: TableRoles) -> Source:
    """Take a table in memory."""
    if table.num_rows == 0:
        raise TableError("the table has no rows; give one that has some")
    check_names("table", table.column_names, None)
    source = Source("table", table, roles.path)
    source.events = open_events(roles)
    _check_columns(source, roles)
    return source


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
    dates = [roles.time, roles.event_time] if roles.date_format else []
    as_text = [roles.path, *(name for name in dates if name is not None)]
    parts = read_parts(file, wanted, as_text, keep, roles.dialect, roles.limits)
    known = set(parts[0].table.column_names)
    categorical = sorted(known & set(roles.categories))
    if categorical:
        parts = read_parts(file, wanted, as_text + categorical, keep, roles.dialect, roles.limits)
    lengths = [(part.file, part.rows) for part in parts]
    numbers = None if keep is None else np.flatnonzero(keep)
    source = Source(str(file), stack(parts), roles.path, lengths, numbers)
    source.events = open_events(roles)
    if wanted is None:
        _check_columns(source, roles)
    used = {*roles.others, *(roles.features or known)}
    for column in source.columns:
        if column in used or parts[0].file.name.endswith(CSV_ENDINGS):
            source.check_text(column)
    return source


def _check_columns(source: Source, roles: TableRoles) -> None:
    """Refuse roles of columns that are not there, that are two, or that two tables have."""
    elsewhere = {name for name in roles.others[2:] if source.events and name in source.events}
    both = sorted(name for name in elsewhere if name in source)
    if source.events and both:
        raise TableError(
            f"{source.name} and {source.events.name} both have the column {both[0]!r}; rename one, "
            "or leave events out"
        )
    left_out = roles.drop if roles.features is None else ()
    named = (*roles.others, *(roles.features or ()), *left_out)
    absent = [name for name in named if name not in source and name not in elsewhere]
    if absent:
        raise TableError(f"{source.name}: {absence(absent, source.columns)}")
    if len(set(roles.others)) < len(roles.others):
        raise TableError(
            f"{source.name}: one column has two roles: {', '.join(roles.others)}; name another for "
            "one of them"
        )


def _treat_missing(
    source: Source,
    states: FloatArray,
    codes: IntArray,
    rows: IntArray,
    names: tuple[str, ...],
    missing: Missing,
) -> IntArray | None:
    """Return the rows to keep, None for all; gaps that are left to the rule become NaN in place."""
    if missing in ("last", "impute"):
        for block in row_blocks(len(states)):
            states[block][~np.isfinite(states[block])] = np.nan
        return None
    if all(np.isfinite(states[block]).all() for block in row_blocks(len(states))):
        return None
    bad_rows = ~np.isfinite(states).all(axis=1)
    if missing == "drop":
        is_last = np.append(np.diff(codes) != 0, True)
        if not (bad_rows & is_last).any():
            return np.flatnonzero(~bad_rows)
        bad_rows &= is_last
    row = int(np.argmax(bad_rows))
    column = int(np.argmin(np.isfinite(states[row])))
    where = source.where(names[column], int(rows[row]))
    raise TableError(f"{where}: missing or infinite value; {_GAPS[missing]}")


_GAPS = {
    "error": "set missing='impute' to fill gaps from the training rows, missing='last' to take "
    "the last value before, or missing='drop' to leave out such rows",
    "drop": "the last row of a path cannot be dropped, as it says when the path ends; set "
    "missing='impute' or missing='last' instead",
}


def check_trainable(name: str, stopped: BoolArray, rows: int) -> None:
    """Refuse paths of which none was stopped, or none continued."""
    if not stopped.any():
        raise TableError(
            f"{name}: no path is stopped, all are censored; check stop, stop_value and censored"
        )
    if rows == len(stopped):
        raise TableError(
            f"{name}: every path has a single row, so the expert never continued; "
            "is path the right column?"
        )


_YEARS = 5 * 365.25 * 86400  # seconds from 1970 on within which a time is taken for a number


def holds_dates(file: str | Path, roles: TableRoles, times: FloatArray) -> bool:
    """Say whether the time column of a file holds dates, for figures to show them as such.

    The column is read again only where the times are large enough to be dates after 1974.

    Args:
        file: as for `read_paths`.
        roles: which column means what.
        times: that were read from it.
    """
    if not len(times) or float(times.min()) * SECONDS[roles.time_unit] < _YEARS:
        return False
    found = open_file(file, roles, wanted=[roles.path, roles.time])
    return found.holds_dates(roles.time, roles.date_format)
