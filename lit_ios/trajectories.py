"""Stopped paths: one `Trajectory`, and the ragged, columnar `TrajectorySet` of many.

Rows of all paths lie one below the other; `offsets` says where each path begins:

    states   (N, D)   s_0 … s_τ of path 0, then of path 1, …
    times    (N,)     in the data's own unit, increasing within a path
    offsets  (P + 1,) path i is rows offsets[i] : offsets[i + 1]
    stopped  (P,)     True: the expert stopped at the last row; False: censored
    events   (P,)     time of the event: as given, else the stop; NaN where unknown
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lit_ios.checks import UserError

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Categories = Mapping[str, tuple[str, ...]]

STOP, CONTINUE = 0, 1


class TrajectoryError(UserError):
    """Data that are not valid stopped paths; the message says where."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One path of states, stopped by the expert at its last row or censored there.

    Args:
        states: (T, D) finite numbers, T ≥ 1; with `gaps`, NaN where a value is missing.
        times: (T,) increasing; 0, 1, 2, … when left out.
        stopped: False if the expert had not stopped when observation ended.
        name: what errors and predictions call this path.
        gaps: whether values may be missing.
    """

    states: FloatArray
    times: FloatArray | None = None
    stopped: bool = True
    name: str = ""
    gaps: bool = False

    def __post_init__(self) -> None:
        """Check the arrays and fill in the times."""
        states = _as_float(self.states, f"path {self.name!r}: states")
        if states.ndim != 2 or states.shape[0] < 1:
            raise TrajectoryError(
                f"path {self.name!r}: states must have shape (T, D) with T ≥ 1, got {states.shape}"
            )
        times = np.arange(len(states)) if self.times is None else self.times
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "times", _as_float(times, f"path {self.name!r}: times"))
        offsets = np.array([0, len(states)])
        _check_rows(states, self.times, offsets, [self.name], self.gaps)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.states)

    @property
    def actions(self) -> IntArray:
        """Actions: a = 1 (continue) before the stop, a = 0 at it; (T,)."""
        actions = np.full(len(self), CONTINUE)
        if self.stopped:
            actions[-1] = STOP
        return actions


@dataclass(frozen=True, eq=False)
class TrajectorySet:
    """Many paths, stored by column; see the module's sketch for the shapes.

    Columns of text are coded 0, 1, …; `categories` says what the codes of each stand for. With
    `gaps`, states hold NaN where a value is missing, for an encoder to fill in.
    """

    states: FloatArray
    times: FloatArray
    offsets: IntArray
    stopped: BoolArray
    names: tuple[str, ...]
    feature_names: tuple[str, ...] = field(default=())
    event_times: FloatArray | None = None
    categories: Categories = field(default_factory=dict)
    gaps: bool = False

    def __post_init__(self) -> None:
        """Check the columns against each other."""
        states = _as_float(self.states, "states")
        if states.ndim != 2:
            raise TrajectoryError(f"states must have shape (N, D), got {states.shape}")
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "times", _as_float(self.times, "times"))
        object.__setattr__(self, "offsets", np.asarray(self.offsets, dtype=np.int64))
        object.__setattr__(self, "stopped", np.asarray(self.stopped, dtype=np.bool_))
        names = self.feature_names or tuple(f"x{i}" for i in range(states.shape[1]))
        object.__setattr__(self, "feature_names", tuple(names))
        object.__setattr__(self, "names", tuple(self.names))
        if self.event_times is not None:
            object.__setattr__(self, "event_times", _as_float(self.event_times, "event_times"))
        self._check()

    def _check(self) -> None:
        offsets = self.offsets
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(self.states):
            raise TrajectoryError(
                f"offsets must run from 0 to the number of rows {len(self.states)} "
                f"and hold at least one path, got {offsets}"
            )
        if not len(self.stopped) == len(self.names) == len(offsets) - 1:
            raise TrajectoryError(
                f"{len(offsets) - 1} paths, but {len(self.stopped)} stop flags "
                f"and {len(self.names)} names"
            )
        if self.event_times is not None and self.event_times.shape != self.stopped.shape:
            raise TrajectoryError(
                f"{len(self.stopped)} paths, but event_times of shape {self.event_times.shape}"
            )
        if (np.diff(offsets) < 1).any():
            empty = int(np.argmax(np.diff(offsets) < 1))
            raise TrajectoryError(f"path {self.names[empty]!r} has no rows")
        if len(self.feature_names) != self.states.shape[1]:
            raise TrajectoryError(
                f"{self.states.shape[1]} features, but {len(self.feature_names)} names: "
                f"{self.feature_names}"
            )
        _check_rows(self.states, self.times, offsets, self.names, self.gaps)

    @classmethod
    def from_paths(
        cls, paths: Iterable[Trajectory], feature_names: Sequence[str] = ()
    ) -> TrajectorySet:
        """Stack single paths, which must agree in the number of features."""
        paths = list(paths)
        if not paths:
            raise TrajectoryError("no paths given; at least one is needed")
        dimensions = {path.states.shape[1] for path in paths}
        if len(dimensions) > 1:
            raise TrajectoryError(f"paths differ in their number of features: {sorted(dimensions)}")
        return cls(
            states=np.concatenate([path.states for path in paths]),
            times=np.concatenate([path.times for path in paths]),
            offsets=np.cumsum([0, *(len(path) for path in paths)]),
            stopped=np.array([path.stopped for path in paths]),
            names=tuple(path.name or str(i) for i, path in enumerate(paths)),
            feature_names=tuple(feature_names),
            gaps=any(path.gaps for path in paths),
        )

    def __len__(self) -> int:
        """Return the number of paths."""
        return len(self.stopped)

    def __getitem__(self, index: int) -> Trajectory:
        """Return one path."""
        index = range(len(self))[index]
        rows = slice(self.offsets[index], self.offsets[index + 1])
        return Trajectory(
            self.states[rows], self.times[rows], bool(self.stopped[index]), self.names[index],
            self.gaps,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Trajectory]:
        """Go through the paths."""
        return (self[i] for i in range(len(self)))

    def select(self, indices: npt.ArrayLike) -> TrajectorySet:
        """Return the paths named by `indices` (or a mask), in that order."""
        wanted = np.asarray(indices)
        chosen = np.arange(len(self))[wanted if wanted.size else wanted.astype(np.int64)]
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        rows = np.arange(offsets[-1]) + shift
        return TrajectorySet(
            states=self.states[rows],
            times=self.times[rows],
            offsets=offsets,
            stopped=self.stopped[chosen],
            names=tuple(self.names[i] for i in chosen),
            feature_names=self.feature_names,
            event_times=None if self.event_times is None else self.event_times[chosen],
            categories=self.categories,
            gaps=self.gaps,
        )

    def followed_by(self, other: TrajectorySet) -> TrajectorySet:
        """Return these paths and then the other ones, of the same features."""
        events: FloatArray | None = None
        if self.event_times is not None or other.event_times is not None:
            events = np.concatenate([self.events, other.events])
        return TrajectorySet(
            states=np.concatenate([self.states, other.states]),
            times=np.concatenate([self.times, other.times]),
            offsets=np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
            stopped=np.concatenate([self.stopped, other.stopped]),
            names=self.names + other.names,
            feature_names=self.feature_names,
            event_times=events,
            categories=self.categories,
            gaps=self.gaps or other.gaps,
        )

    def stopped_earlier(self, lead: float) -> TrajectorySet:
        """Return paths whose experts stop by so much time before the event: later rows are gone.

        A path that is not as long ends with its first row; censored paths stay as they are.
        """
        if lead == 0:
            return self
        latest = np.where(self.stopped, self.events - lead, np.inf)
        latest = latest + 1e-9 * np.abs(np.where(np.isfinite(latest), latest, 0))
        first = np.zeros(len(self.states), dtype=bool)
        first[self.offsets[:-1]] = True
        kept = first | (self.times <= np.repeat(latest, self.lengths))
        lengths = np.add.reduceat(kept, self.offsets[:-1])
        return replace(
            self, states=self.states[kept], times=self.times[kept],
            offsets=np.concatenate([[0], np.cumsum(lengths)]), event_times=self.events,
        )  # fmt: skip

    def with_states(
        self, states: FloatArray, feature_names: Sequence[str] | None = None
    ) -> TrajectorySet:
        """Return the same paths with other states, row by row and without gaps.

        Named anew, they are all numbers.
        """
        if feature_names is None:
            return replace(self, states=states, gaps=False)
        names = tuple(feature_names)
        return replace(self, states=states, feature_names=names, categories={}, gaps=False)

    @property
    def lengths(self) -> IntArray:
        """Rows per path; (P,)."""
        return np.diff(self.offsets)

    @property
    def last_rows(self) -> IntArray:
        """Index of each path's last row; (P,)."""
        return self.offsets[1:] - 1

    @property
    def events(self) -> FloatArray:
        """Time of each path's event: `event_times` where given, else its stop, else NaN; (P,)."""
        stops = np.where(self.stopped, self.times[self.last_rows], np.nan)
        if self.event_times is None:
            return stops
        return np.where(np.isfinite(self.event_times), self.event_times, stops)

    @property
    def path_of_row(self) -> IntArray:
        """Index of the path each row belongs to; (N,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def steps(self) -> IntArray:
        """Index t = 0, 1, 2, … within each path; (N,)."""
        return np.arange(len(self.states)) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def static(self) -> BoolArray:
        """Which coordinates never change along a path, though some path has two rows; (D,)."""
        same = np.ones(self.states.shape[1], dtype=np.bool_)
        within = np.ones(len(self.states), dtype=np.bool_)
        within[self.offsets[:-1]] = False
        rows = np.flatnonzero(within)
        for block in row_blocks(len(rows)):
            now, before = self.states[rows[block]], self.states[rows[block] - 1]
            same &= ((now == before) | (np.isnan(now) & np.isnan(before))).all(axis=0)
        return same & bool(len(rows))

    @property
    def actions(self) -> IntArray:
        """Actions: a = 1 (continue) on every row but the expert's stops, where a = 0; (N,)."""
        actions = np.full(len(self.states), CONTINUE)
        actions[self.last_rows[self.stopped]] = STOP
        return actions


def row_blocks(rows: int, size: int = 1 << 16) -> Iterator[slice]:
    """Go through many rows in blocks small enough to make copies of."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _as_float(values: npt.ArrayLike, what: str) -> FloatArray:
    """Keep float32 and float64 as they are, turn other numbers into float64."""
    try:
        array = np.asarray(values)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TrajectoryError(f"{what} must be an array of numbers: {error}") from None


def _check_rows(
    states: FloatArray, times: FloatArray, offsets: npt.NDArray[Any], names: Sequence[str],
    gaps: bool,
) -> None:  # fmt: skip
    """Refuse numbers that are not finite and times that do not increase, saying where."""

    def where(row: int) -> str:
        path = int(np.searchsorted(offsets, row, side="right")) - 1
        return f"path {names[path]!r}, row {row - offsets[path] + 1}"

    for block in row_blocks(len(states)):
        finite = np.isfinite(states[block])
        if gaps:
            finite |= np.isnan(states[block])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            row += block.start
            raise TrajectoryError(f"{where(row)}: states must be finite, got {states[row, column]}")
    if times.shape != (len(states),):
        raise TrajectoryError(f"times must have shape ({len(states)},), got {times.shape}")
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise TrajectoryError(f"{where(row)}: time must be finite, got {times[row]}")
    increasing = np.diff(times) > 0
    increasing[offsets[1:-1] - 1] = True  # from one path to the next, time may fall back
    if not increasing.all():
        row = int(np.argmin(increasing)) + 1
        raise TrajectoryError(
            f"{where(row)}: times must increase within a path, "
            f"got {times[row - 1]} then {times[row]}"
        )
