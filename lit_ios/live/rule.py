"""What a live path needs to know of its rule, wherever that is computed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lit_ios.carry import LAST, ROWS, START, TIMED, Missing, responsible
from lit_ios.live.forecast import Forecast
from lit_ios.live.observations import Observations
from lit_ios.trajectories import BoolArray, FloatArray

NOT_TIMED = "the path began without a time: give times from its first row on, or none"
WITHOUT_TIME = "the path began with a time: give that of every row"
SOME_ROWS = 5  # after which a path's spacing in time is known


class Judged(Protocol):
    """What a rule says of the next rows of B paths; the margin is NaN where it cannot judge."""

    @property
    def margin(self) -> FloatArray:
        """Q(s, stop) − Q(s, continue); (B,)."""
        ...

    @property
    def probability(self) -> FloatArray:
        """Probability of stopping; (B,)."""
        ...

    @property
    def stop(self) -> BoolArray:
        """Whether to stop; (B,)."""
        ...

    @property
    def carry(self) -> FloatArray:
        """What the paths remember now; (B, W)."""
        ...

    @property
    def distance(self) -> FloatArray:
        """How far the rows are from those of training; up to 1 they are familiar; (B,)."""
        ...

    @property
    def shares(self) -> FloatArray:
        """What each coordinate adds to the distance; (B, F)."""
        ...


Step = Callable[[FloatArray, FloatArray, FloatArray, Missing], Judged]
One = Callable[[FloatArray, float, FloatArray], Any]  # (decision, carry) of one row, or None


@dataclass(frozen=True)
class LiveRule:
    """A rule as live paths use it.

    Args:
        step: judges the next rows of B paths: (columns, time, carry, missing).
        start: carry of a path before its first row.
        observations: the raw columns it takes.
        include_time: whether the elapsed time is part of its state.
        time_step: between rows where no time is given.
        time_unit: of dates.
        fingerprint: of what decides.
        unknown: says what the encoder does not know about a row of finite numbers.
        one: judges one row of one path faster than `step`, or returns None.
        names: of the coordinates that can make a row unfamiliar.
        missing: what is done about missing values where nothing else is said.
        forecast: says how long is left, if that was learnt.
    """

    step: Step
    start: Sequence[float]
    observations: Observations
    include_time: bool
    time_step: float
    time_unit: str
    fingerprint: str
    unknown: Callable[[FloatArray], str | None]
    one: One | None = None
    names: Sequence[str] = ()
    missing: Missing = "error"
    forecast: Forecast | None = None

    def strange(self, shares: FloatArray) -> tuple[str, ...]:
        """Name the coordinates that make an unfamiliar row so; (F,) their shares."""
        return tuple(self.names[i] for i in responsible(np, shares[None])[0] if i >= 0)


def why_refused(
    rule: LiveRule, columns: FloatArray, time: float, carry: FloatArray, missing: Missing
) -> str:
    """Say why the next row of a path cannot be judged.

    Args:
        rule: that did not judge it.
        columns: (C,) raw.
        time: NaN if none was given.
        carry: (W,) of the path before the row.
        missing: how missing values were to be treated.
    """
    first, given = carry[ROWS] == 0, not math.isnan(time)
    bad = ~np.isfinite(columns)
    if bad.any() and (first or missing != "last"):
        name = rule.observations.columns[int(np.argmax(bad))]
        if missing == "error":
            return f"column {name!r}: missing or infinite; missing='last' takes the last value"
        where = " in the first row of a path" if missing == "last" else ""
        return (
            f"column {name!r}: missing value{where}, and training had none to say what stands in: "
            "train with missing: impute"
        )
    if not first:
        timed = bool(carry[TIMED])
        if given and not timed:
            return NOT_TIMED
        if timed and not given and rule.include_time:
            return WITHOUT_TIME
        if given and not time > carry[LAST]:
            return f"time must increase: {time:g} after {carry[LAST]:g}"
    reason = None if bad.any() else rule.unknown(columns)
    return reason or "the rule gives no finite margin for these numbers"


def spacing(carry: FloatArray) -> float | None:
    """Return how far apart rows are, once it is known of one of the paths.

    Args:
        carry: (B, W) of paths whose rows come with times.
    """
    known = carry[carry[:, ROWS] == SOME_ROWS + 2]
    if not len(known):
        return None
    return float(np.median((known[:, LAST] - known[:, START]) / (known[:, ROWS] - 1)))


def odd_spacing(step: float, usual: float) -> str | None:
    """Say so if rows are less than half or more than twice as far apart as in training."""
    if usual / 2 <= step <= usual * 2:
        return None
    return (
        f"rows are {step:g} apart in time, those of training were {usual:g}: the rule was not "
        "made for this"
    )


def warn_of_spacing(carry: FloatArray, usual: float) -> None:
    """Warn of live rows that are spaced unlike those of training; see `spacing`."""
    if (step := spacing(carry)) is not None:
        warn_if_unusual(step, usual)


def warn_if_unusual(step: float, usual: float) -> None:
    """Warn of rows that are spaced unlike those of training."""
    if words := odd_spacing(step, usual):
        warnings.warn(words, stacklevel=4)
