"""Rows as scikit-learn hands them over → paths.

X, groups, times → numbers and categories → rows grouped by path → TrajectorySet
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lit_ios.checks import UserError, did_you_mean
from lit_ios.policy.tables import as_arrow
from lit_ios.readers.columns import Source
from lit_ios.readers.features import column_matrix, text_categories
from lit_ios.readers.files import TableError
from lit_ios.recognition import Hashes, row_hashes
from lit_ios.times import TimeUnit
from lit_ios.trajectories import BoolArray, Categories, FloatArray, IntArray, TrajectorySet

Column = int | str
Groups = npt.NDArray[Any]


class Rows(NamedTuple):
    """Rows of X, apart from what says where they belong."""

    values: FloatArray  # (N, D) text as codes
    names: tuple[str, ...]
    categories: Categories
    groups: Groups | None  # (N,)
    times: FloatArray | None  # (N,)


def is_frame(X: Any) -> bool:  # noqa: N803
    """Say whether X is a DataFrame whose columns have names."""
    library = type(X).__module__.split(".")[0]
    if library not in ("pandas", "polars") or not hasattr(X, "columns"):
        return False
    return all(isinstance(name, str) for name in X.columns)


def frame_rows(
    X: Any,  # noqa: N803
    group_column: str | None,
    time_column: str | None,
    unit: TimeUnit,
    categories: Categories,
) -> Rows:
    """Read a DataFrame: numbers, text and true or false as features, dates as times.

    Args:
        X: the rows.
        group_column: which path a row belongs to.
        time_column: numbers or dates.
        unit: of dates.
        categories: of text columns that are coded as before.
    """
    try:
        return _frame_rows(Source("X", as_arrow(X), group_column), time_column, unit, categories)
    except TableError as error:
        raise UserError(_without_arguments(str(error))) from None


def _without_arguments(sentence: str) -> str:
    """Replace advice to set an argument of `fit` that the estimator does not have."""
    problem, _, advice = sentence.rpartition("; ")
    if re.search(r"\w=['\[]", advice) is None:
        return sentence
    return f"{problem}; correct the column, or leave it out of X"


def _frame_rows(
    source: Source, time_column: str | None, unit: TimeUnit, categories: Categories
) -> Rows:
    group_column = source.path_column
    names = tuple(n for n in source.columns if n not in (group_column, time_column))
    groups = None if group_column is None else as_groups(_plain_column(source, group_column))
    times = None if time_column is None else source.times(time_column, unit)
    known = text_categories(source, names, categories)
    values = column_matrix(source, names, known)
    finite = np.isfinite(values)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = source.where(names[column], int(row))
        raise UserError(f"{where}: missing or infinite value; fill it in, or leave the row out")
    return Rows(values, names, known, groups, times)


def _plain_column(source: Source, column: str) -> Groups:
    values = source.texts(column) if source.is_text(column) else source.table[column]
    return np.asarray(values.to_numpy())


def column_of(X: Any, column: Column) -> Groups:  # noqa: N803
    """Return one column of a DataFrame or array, by name or position."""
    frame = is_frame(X)
    names = [*X.columns] if frame else [f"x{i}" for i in range(np.shape(X)[1])]
    name = names[position_of(column, names)]
    return np.asarray(X[name]) if frame else np.asarray(X)[:, names.index(name)]


def position_of(column: Column, names: list[str]) -> int:
    """Return the position of a column that is given by name or position."""
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return int(column % len(names))
    if column not in names:
        near = did_you_mean(column, names) or f"; there are {', '.join(names[:10])}"
        raise UserError(f"X has no column {column!r}{near}")
    return names.index(str(column))


def as_groups(given: Any) -> Groups:
    """Return what paths are called: numbers or text; none may be missing."""
    groups = np.asarray(given)
    if groups.dtype == object:
        try:
            made = pa.array(groups, from_pandas=True)
        except pa.ArrowException:
            raise UserError("groups must be all text or all numbers") from None
        missing = made.null_count > 0
        groups = np.asarray(made.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)
    else:
        missing = bool((groups != groups).any())
    if missing:
        raise UserError("a group is missing (NaN): every row needs one")
    return groups


def as_times(given: Any, unit: TimeUnit) -> FloatArray:
    """Return numbers as they are, and dates in `unit` since 1970."""
    times = np.asarray(given)
    if np.issubdtype(times.dtype, np.number) or times.ndim != 1:
        return np.asarray(times, dtype=np.float64)
    return Source("X", pa.table({"times": pa.array(times, from_pandas=True)})).times("times", unit)


def groups_ended_by(stop: npt.NDArray[Any]) -> IntArray:
    """Return the path of each row where every stop ends one."""
    return np.asarray(np.cumsum(stop) - stop, dtype=np.int64)


def group_paths(
    rows: Rows, stop: BoolArray | None = None, stop_class: object = 1
) -> tuple[TrajectorySet, IntArray]:
    """Return the rows as paths, and where each of their rows lies in X.

    Args:
        rows: with groups.
        stop: where the expert stopped; None if that is not known.
        stop_class: what y calls it.
    """
    count, groups, times = len(rows.values), rows.groups, rows.times
    assert groups is not None
    if groups.shape != (count,):
        raise UserError(f"{count} rows, but groups of shape {groups.shape}")
    if times is not None and times.shape != (count,):
        raise UserError(f"{count} rows, but times of shape {times.shape}")
    known, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(np.argsort(first))[codes], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes)[np.argsort(first)])])
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    stopped = np.zeros(len(known), dtype=bool)
    if stop is not None:
        flags = np.asarray(stop)[order]
        stopped = flags[offsets[1:] - 1]
        flags[offsets[1:] - 1] = False
        if flags.any():
            row = int(order[np.argmax(flags)])
            raise UserError(
                f"row {row}: rows of group {groups[row]} follow after its stop (class {stop_class})"
            )
    paths = TrajectorySet(
        states=rows.values[order],
        times=np.arange(count) - starts if times is None else times[order],
        offsets=offsets,
        stopped=stopped,
        names=tuple(str(name) for name in known[np.argsort(first)]),
        feature_names=rows.names,
        categories=rows.categories,
    )
    return paths, order


class Begun(NamedTuple):
    """What is kept of a path that was trained on, to tell whether it comes back whole."""

    rows: Hashes
    stopped: bool
    last: float  # time; infinite where none was given


def beginnings(paths: TrajectorySet, timed: bool) -> dict[str, Begun]:
    """Return what paths that are trained on will be compared with."""
    bounds, last = paths.offsets, paths.times[paths.last_rows] if timed else None
    hashes = row_hashes(paths.states)
    return {
        name: Begun(
            hashes[bounds[i] : bounds[i + 1]],
            bool(paths.stopped[i]),
            np.inf if last is None else float(last[i]),
        )
        for i, name in enumerate(paths.names)
    }


def refuse_torn(paths: TrajectorySet, known: dict[str, Begun], group_column: object) -> None:
    """Refuse rows of a path that was trained on which are not its beginning, nor continue it.

    So come rows back that were dealt out one by one. A path that begins after the stop of one of
    the same name is another one.
    """
    hashes = row_hashes(paths.states)
    for i, name in enumerate(paths.names):
        begun = known.get(name)
        if begun is None:
            continue
        start, end = int(paths.offsets[i]), int(paths.offsets[i + 1])
        shared = min(end - start, len(begun.rows))
        if np.array_equal(hashes[start : start + shared], begun.rows[:shared]):
            continue
        if begun.stopped and paths.times[start] > begun.last:
            continue
        given = "" if group_column is None else f"group_column={group_column!r}"
        raise UserError(
            f"rows of group {name} were split between training and scoring: use "
            f"cv=PathFolds({given}) of lit_ios, which keeps paths whole; if this is another path, "
            "give it a name of its own"
        )
