"""How long is left on a live path: looked up on a grid of margin and elapsed time, NumPy alone."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from lit_ios.checks import UserError
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, row_blocks

ROUNDING = 1e-9  # of a bound, so that the last digit does not decide whether it holds


@dataclass(frozen=True, eq=False)
class Forecast:
    """The law of the time left, given the margin and the time since the path began.

    Between the knots of the grid, everything is interpolated linearly. `bounds` are K functions
    on the grid that rise from 0; a position between 0 and K − 1 says which one is taken, or what
    lies between which two.

    Args:
        margins: (U,) knots, increasing.
        elapsed: (T,) knots, increasing.
        times: (X,) times left, increasing from 0.
        survival: (U, T, X) probability that more than this time is left.
        bounds: (U, T, K) lower bounds of the time left, from cautious to bold.
        starts: (I,) elapsed times at which intervals begin.
        positions: (I,) position that is promised for rows in each interval.
        record_path: (R,) calibration path of each row whose margin is the largest so far.
        record_margin: (R,) its margin.
        record_position: (R,) the boldest position that held there.
        confidence: with which a bound holds.
        paths: calibration paths.
        events: how many of them were seen to their stop.
        rule: fingerprint of the rule whose margins these are.
        horizons: times left that tables give a probability for.
    """

    margins: FloatArray
    elapsed: FloatArray
    times: FloatArray
    survival: FloatArray
    bounds: FloatArray
    starts: FloatArray
    positions: FloatArray
    record_path: IntArray
    record_margin: FloatArray
    record_position: FloatArray
    confidence: float
    paths: int
    events: int
    rule: str
    horizons: tuple[float, ...] = ()
    _at_stop: dict[float, float] = field(default_factory=dict, repr=False)

    def plain(self) -> dict[str, Any]:
        """Return everything by name, as arrays and plain values."""
        names = [entry.name for entry in fields(self) if entry.init and entry.name[0] != "_"]
        return {name: getattr(self, name) for name in names}

    def listed(self) -> dict[str, Any]:
        """Return everything by name, as JSON takes it."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.plain().items()
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Forecast:
        """Make it of what `plain` returned, lists in place of arrays included."""
        single = {"confidence", "paths", "events", "rule", "horizons"}
        made = {
            name: value if name in single else np.asarray(value) for name, value in plain.items()
        }
        found = cls(**(made | {"horizons": tuple(plain["horizons"])}))
        if not found._fits():
            raise UserError("its forecast is damaged: learn it anew")
        return found

    def _fits(self) -> bool:
        """Say whether all pieces are numbers of shapes that go together."""
        numbers = [value for value in self.plain().values() if isinstance(value, np.ndarray)]
        finite = all(value.dtype.kind in "fiu" and np.isfinite(value).all() for value in numbers)
        if not finite or self.bounds.ndim != 3:
            return False
        knots = (self.margins, self.elapsed, self.times)
        rising = all(x.ndim == 1 and len(x) > 1 and (np.diff(x) > 0).all() for x in knots)
        grid = tuple(len(x) for x in knots[:2]) if rising else ()
        records = {x.shape for x in (self.record_path, self.record_margin, self.record_position)}
        last = self.bounds.shape[2] - 1
        return bool(
            rising
            and self.survival.shape == (*grid, len(self.times))
            and self.bounds.shape[:2] == grid
            and last >= 1
            and self.starts.ndim == 1
            and 0 < len(self.starts) == len(self.positions)
            and self.positions.ndim == 1
            and len(records) == 1
            and self.record_path.ndim == 1
            and ((self.positions >= 0) & (self.positions <= last)).all()
            and ((self.record_position >= 0) & (self.record_position <= last)).all()
            and isinstance(self.confidence, float)
            and 0 < self.confidence < 1
            and self.times[0] >= 0
            and (np.diff(self.starts) > 0).all()
            and (self.survival >= 0).all()
            and (self.survival <= 1).all()
            and (np.diff(self.survival) <= ROUNDING).all()
            and (self.bounds >= 0).all()
            and (np.diff(self.bounds) >= 0).all()
            and all(type(count) is int and count >= 0 for count in (self.paths, self.events))
            and isinstance(self.rule, str)
            and all(isinstance(x, int | float) and 0 <= x < math.inf for x in self.horizons)
        )

    def __call__(
        self, margin: FloatArray, elapsed: FloatArray, first_stop: BoolArray, threshold: FloatArray
    ) -> Remaining:
        """Say how long is left at rows of B paths; (B,) each.

        Args:
            margin: of the rows.
            elapsed: time since their paths began.
            first_stop: whether the rule stops there for the first time.
            threshold: of their paths.
        """
        i, a = _places(margin, self.margins)
        j, b = _places(elapsed, self.elapsed)
        corner, width = i * len(self.elapsed) + j, len(self.elapsed)
        corners = np.stack([corner, corner + 1, corner + width, corner + width + 1], -1)
        weights = np.stack([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b], -1)
        interval = np.maximum(np.searchsorted(self.starts, elapsed, side="right") - 1, 0)
        at_stop, stops = np.full(len(corner), np.nan), np.flatnonzero(first_stop)
        known = {value: self.stop_position(value) for value in set(threshold[stops].tolist())}
        position = np.array([known[value] for value in threshold[stops].tolist()])
        at_stop[stops] = self._low(corners[stops], weights[stops], position)
        low = self._low(corners, weights, self.positions[interval])
        return Remaining(self, corners, weights, low, at_stop)

    def one(self, margin: float, elapsed: float, first_stop: bool, threshold: float) -> Remaining:
        """Say how long is left at one row, in numbers where arrays take longer."""
        (i, a), (j, b) = _place(margin, self._lists[0]), _place(elapsed, self._lists[1])
        width = len(self.elapsed)
        corner = i * width + j
        corners = (corner, corner + 1, corner + width, corner + width + 1)
        weights = ((1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b)
        interval = max(bisect_right(self._lists[2], elapsed) - 1, 0)
        low = self._low_one(corners, weights, self._lists[3][interval])
        at_stop = math.nan
        if first_stop:
            at_stop = self._low_one(corners, weights, self.stop_position(threshold))
        return Remaining(self, np.array(corners), np.array(weights), low, at_stop)

    def stop_position(self, threshold: float) -> float:
        """Return the position that is promised at the first stop by a threshold."""
        found = self._at_stop.get(threshold)
        if found is None:
            stops = np.flatnonzero(self.record_margin >= threshold)
            _, first = np.unique(self.record_path[stops], return_index=True)
            found = promised(self.record_position[stops[first]], self.confidence)
            self._at_stop[threshold] = found
        return found

    def bold(self, corners: IntArray, weights: FloatArray) -> FloatArray:
        """Return the bounds of all positions at rows; (B, K)."""
        return np.asarray((weights[:, None] @ self._flat_bounds[corners])[:, 0])

    def _low(self, corners: IntArray, weights: FloatArray, position: FloatArray) -> FloatArray:
        k = np.minimum(position.astype(np.int64), self.bounds.shape[2] - 2)
        share, table = (position - k)[:, None], self._flat_bounds
        below, above = table[corners, k[:, None]], table[corners, k[:, None] + 1]
        low = (weights * (below + share * (above - below))).sum(-1)
        return np.asarray(low * (1 - ROUNDING))

    def _low_one(self, corners: Sequence[int], weights: Sequence[float], position: float) -> float:
        k = min(int(position), self.bounds.shape[2] - 2)
        low, share, table = 0.0, position - k, self._flat_bounds
        for corner, weight in zip(corners, weights, strict=True):
            below, above = table[corner, k : k + 2].tolist()
            low += weight * (below + share * (above - below))
        return low * (1 - ROUNDING)

    @cached_property
    def _flat_bounds(self) -> FloatArray:
        return self.bounds.reshape(-1, self.bounds.shape[2])

    @cached_property
    def flat_survival(self) -> FloatArray:
        """The survival functions of all knots, one below the other; (U T, X)."""
        return self.survival.reshape(-1, len(self.times))

    @cached_property
    def _lists(self) -> tuple[list[float], ...]:
        return tuple(x.tolist() for x in (self.margins, self.elapsed, self.starts, self.positions))


@dataclass(frozen=True, eq=False, repr=False)
class Remaining:
    """How long is left at a row, or at B rows.

    Args:
        forecast: that says so.
        corners: (…, 4) knots of the grid around each row.
        weights: (…, 4) their shares.
        low: with the forecast's confidence at least this time is left, at a time that was fixed
            beforehand.
        low_at_stop: the same at the first stop of a path, NaN at other rows.
    """

    forecast: Forecast
    corners: IntArray
    weights: FloatArray
    low: Any
    low_at_stop: Any

    def within(self, horizon: float) -> Any:
        """Return the probability that the stop comes within this time."""
        times = self.forecast.times
        if not (0 <= horizon <= times[-1]):
            raise UserError(
                f"a horizon must lie between 0 and {times[-1]:g}, the longest time left that a "
                f"calibration path shows, got {horizon!r}"
            )
        x = min(int(np.searchsorted(times, horizon, side="right")), len(times) - 1)
        share = (horizon - times[x - 1]) / (times[x] - times[x - 1])
        table = self.forecast.flat_survival
        below, above = table[self.corners, x - 1], table[self.corners, x]  # (…, 4)
        return 1 - (self.weights * (below + share * (above - below))).sum(-1)

    def quantile(self, probability: float) -> Any:
        """Return the time within which the stop comes with this probability.

        It is ∞ where calibration paths were not followed for long enough to say.
        """
        if not 0 < probability < 1:
            raise UserError(f"a quantile must lie between 0 and 1, got {probability!r}")
        if self.corners.ndim == 1:
            return float(self._quantiles(self.corners[None], self.weights[None], probability)[0])
        found = np.empty(len(self.corners))
        for block in row_blocks(len(found)):
            found[block] = self._quantiles(self.corners[block], self.weights[block], probability)
        return found

    def _quantiles(self, corners: IntArray, weights: FloatArray, probability: float) -> FloatArray:
        survival = weights[:, None] @ self.forecast.flat_survival[corners]  # (B, 1, X)
        return first_times(1 - survival[:, 0], self.forecast.times, probability)

    @property
    def median(self) -> Any:
        """The time within which the stop comes with probability ½."""
        return self.quantile(0.5)

    def __eq__(self, other: object) -> bool:
        """Say whether the same is said of the same rows."""
        return isinstance(other, Remaining) and all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            for name in ("corners", "weights", "low", "low_at_stop")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say the bound and the median."""
        return f"Remaining(low={self.low}, median={self.median})"


def first_times(within: FloatArray, times: FloatArray, probability: float) -> FloatArray:
    """Return inf{x : F(x) ≥ p} of distribution functions that are linear between times; (B,).

    It is 0 where F(0) ≥ p and ∞ where F stays below p.

    Args:
        within: (B, X) F at the times, not decreasing.
        times: (X,).
        probability: p.
    """
    reached = within >= probability - 1e-12
    x = reached.argmax(1)
    row, before = np.arange(len(x)), np.maximum(x - 1, 0)
    rise = within[row, x] - within[row, before]
    share = np.divide(probability - within[row, before], rise, out=np.ones(len(x)), where=rise > 0)
    found = times[before] + share.clip(0, 1) * (times[x] - times[before])
    return np.where(reached.any(1), found, np.inf)


def promised(positions: FloatArray, confidence: float) -> float:
    """Return the position that a fresh path holds with this confidence, by n others.

    The ⌊α(n + 1)⌋-th smallest of the positions that n exchangeable paths hold (split conformal
    prediction, α = 1 − confidence); 0, the bound that says nothing, if there are too few.
    """
    rank = math.floor((1 - confidence) * (len(positions) + 1) + 1e-9)
    return 0.0 if rank < 1 else float(np.sort(positions)[rank - 1])


def _places(values: FloatArray, knots: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return between which knots values lie, and how far from the lower one in shares of 1."""
    i = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    return i, np.clip((values - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)


def _place(value: float, knots: Sequence[float]) -> tuple[int, float]:
    i = min(max(bisect_right(knots, value) - 1, 0), len(knots) - 2)
    return i, min(max((value - knots[i]) / (knots[i + 1] - knots[i]), 0.0), 1.0)
