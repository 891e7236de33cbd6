"""A live path, one row at a time: the same margins as for the whole path, at constant cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lit_ios.checks import UserError, check_choice
from lit_ios.policy.live import (
    NOT_TIMED,
    SOME_ROWS,
    TIMED,
    Missing,
    Rule,
    as_time,
    mended,
    restoring,
    warn_of_spacing,
)
from lit_ios.trajectories import FloatArray


class Decision(NamedTuple):
    """What the policy says of the newest row of a live path."""

    stop: bool
    margin: float
    probability: float
    t: int  # number of the row in its path, from 0
    time: float  # since the path began, in the data's unit


class Stream:
    """One live path.

    Args:
        rule: of the policy.
        saved: what `state` returned, to go on from there.
        missing: a missing value (NaN or None) is refused, or the last known one carried on.
    """

    def __init__(
        self, rule: Rule, saved: Mapping[str, Any] | None = None, missing: Missing = "refuse"
    ) -> None:
        check_choice("missing", missing, Missing)
        self._rule, self._missing = rule, missing
        self.t = -1
        self._start = self._time = 0.0
        self._timed = False  # whether the first row came with a time
        self._y: FloatArray = np.zeros((1, rule.engine.y_dim))
        self._recent: list[FloatArray] = []  # newest features first, lags + 1 of them
        self.stopped_at: int | None = None
        if saved is not None:
            with restoring(saved, rule):
                self._rule = rule._replace(threshold=float(saved["threshold"]))
                self.t, self.stopped_at = saved["t"], saved["stopped_at"]
                self._start, self._time = saved["start"], saved["time"]
                self._timed = bool(saved["timed"])
                self._y = np.array([saved["y"]], dtype=np.float64).reshape(1, rule.engine.y_dim)
                width = len(rule.inputs.feature_names)
                self._recent = [
                    np.array(row, dtype=np.float64).reshape(width) for row in saved["recent"]
                ]
                if not isinstance(self.t, int) or (self.t < 0) != (not self._recent):
                    raise ValueError(f"t is {self.t!r}")

    def step(self, observation: Any, time: Any | None = None) -> Decision:
        """Take the next row; say whether to stop.

        Args:
            observation: features by name, or an array in the policy's order; raw units.
            time: of the row, in the data's unit or a date; by default a usual step after the last.
        """
        rule = self._rule
        features = rule.inputs.row(observation)
        if not np.isfinite(features).all():
            last = self._recent[0] if self._recent else None
            features = mended(features, last, rule.inputs, self._missing)
        now = self._now(time)
        recent = [features, *self._recent[: rule.lags]]
        recent += [recent[-1]] * (rule.lags + 1 - len(recent))
        first = self.t < 0
        elapsed = 0.0 if first else now - self._start
        parts = [*recent, np.array([elapsed])] if rule.include_time else recent
        state = np.concatenate(parts)[None]
        margins, y = rule.engine.judge(state, self.t + 1, self._y)
        if first:
            self._start, self._timed = now, time is not None
        self.t, self._time, self._y, self._recent = self.t + 1, now, y, recent
        margin = float(margins[0])
        stop = margin >= rule.threshold
        if stop and self.stopped_at is None:
            self.stopped_at = self.t
        return Decision(stop, margin, _sigmoid(margin / rule.epsilon), self.t, elapsed)

    def _now(self, time: Any | None) -> float:
        if time is None:
            if self._timed and self._rule.include_time:
                raise UserError(TIMED)
            return 0.0 if self.t < 0 else self._time + self._rule.time_step
        now = as_time(time, self._rule.time_unit)
        if self.t >= 0 and not self._timed:
            raise UserError(NOT_TIMED)
        if self.t >= 0 and now <= self._time:
            raise UserError(f"time must increase: {now:g} after {self._time:g}")
        if self.t == SOME_ROWS:
            warn_of_spacing((now - self._start) / (self.t + 1), self._rule.time_step)
        return now

    @property
    def threshold(self) -> float:
        """Margin from which on this path is stopped: the policy's when the path began."""
        return self._rule.threshold

    def copy(self) -> Stream:
        """Return a stream that goes on from here by itself."""
        return Stream(self._rule, self.state(), self._missing)

    def state(self) -> dict[str, Any]:
        """Return all there is to know of the path so far, as plain JSON."""
        return {
            "policy": self._rule.fingerprint,
            "threshold": self.threshold,
            "t": self.t,
            "start": self._start,
            "time": self._time,
            "timed": self._timed,
            "stopped_at": self.stopped_at,
            "y": self._y[0].tolist(),
            "recent": [row.tolist() for row in self._recent],
        }


def _sigmoid(x: float) -> float:
    return 0.5 + 0.5 * math.tanh(0.5 * x)
