"""A live path, one row at a time: the margins of the whole path, at constant cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lit_ios.carry import FIRST_STOP, FURTHEST, HIGHEST, LAST, ROWS, START, THRESHOLD, Missing
from lit_ios.checks import UserError, check_choice
from lit_ios.live.forecast import Remaining
from lit_ios.live.rule import SOME_ROWS, LiveRule, warn_of_spacing, why_refused
from lit_ios.live.saved import checked_carry, restore
from lit_ios.times import as_time
from lit_ios.trajectories import FloatArray


class Decision(NamedTuple):
    """What the rule says of the newest row of a live path."""

    stop: bool
    margin: float
    probability: float  # of stopping; ½ at the threshold
    first_stop: bool  # the first row at which the rule stops
    t: int  # number of the row in its path, from 0
    time: float  # since the path began, in the data's unit
    familiar: bool = True  # whether training had rows like this one
    unfamiliar: tuple[str, ...] = ()  # the features that make it unlike them, the worst first
    remaining: Remaining | None = None  # how long is left, where a forecast was learnt


class Stream:
    """One live path.

    Args:
        rule: that decides.
        saved: what `state` returned, to go on from there.
        missing: whether a missing value (NaN or None) is an `error`, is filled in (`impute`), or
            the last known one is taken (`last`); None for what the rule was trained with.
    """

    def __init__(
        self,
        rule: LiveRule,
        saved: Mapping[str, Any] | None = None,
        missing: Missing | None = None,
    ) -> None:
        missing = missing or rule.missing
        check_choice("missing", missing, Missing)
        self._rule, self._missing = rule, missing
        values = rule.start if saved is None else restore(saved, "carry", rule)
        self._carry = checked_carry(values, rule)  # (W,)

    def step(self, observation: Any, time: Any | None = None) -> Decision:
        """Take the next row; say whether to stop.

        Args:
            observation: raw values by column name, or in the rule's order.
            time: of the row, in the data's unit or a date; by default a usual step after the last.
        """
        rule = self._rule
        columns = rule.observations.row(observation)
        now = math.nan if time is None else as_time(time, rule.time_unit)
        quick = None if rule.one is None else rule.one(columns, now, self._carry)
        decision, self._carry = self._general(columns, now) if quick is None else quick
        if decision.t == SOME_ROWS + 1 and time is not None:
            warn_of_spacing(self._carry[None], rule.time_step)
        if rule.forecast is None:
            return decision
        left = rule.forecast.one(
            decision.margin, decision.time, decision.first_stop, float(self._carry[THRESHOLD])
        )
        return decision._replace(remaining=left)

    def _general(self, columns: FloatArray, now: float) -> tuple[Decision, FloatArray]:
        """Take the next row as one of many paths."""
        rule, before = self._rule, self._carry
        judged = rule.step(columns[None], np.array([now]), before[None], self._missing)
        margin = judged.margin.item()
        if not math.isfinite(margin):
            raise UserError(why_refused(rule, columns, now, before, self._missing))
        carry = judged.carry[0]
        rows, _, start, last, _, first_stop = carry[: FIRST_STOP + 1].tolist()
        t = int(rows) - 1
        stop, probability = judged.stop.item(), judged.probability.item()
        strange = () if judged.distance[0] <= 1 else rule.strange(judged.shares[0])
        return (
            Decision(
                stop, margin, probability, first_stop == t, t, last - start, not strange, strange
            ),
            carry,
        )

    @property
    def t(self) -> int:
        """Number of the newest row, from 0; −1 before the first."""
        return int(self._carry[ROWS]) - 1

    @property
    def elapsed(self) -> float:
        """Time from the first row to the newest."""
        return float(self._carry[LAST] - self._carry[START])

    @property
    def stopped_at(self) -> int | None:
        """Number of the first row at which the rule stopped, if it did."""
        first = int(self._carry[FIRST_STOP])
        return None if first < 0 else first

    @property
    def threshold(self) -> float:
        """Margin at which this path is stopped: the rule's when the path began."""
        return float(self._carry[THRESHOLD])

    @property
    def highest(self) -> float | None:
        """Largest margin so far; None before the first row."""
        return float(self._carry[HIGHEST]) if self._carry[ROWS] else None

    @property
    def furthest(self) -> float:
        """Largest distance so far from the rows of training; up to 1 they are familiar."""
        return float(self._carry[FURTHEST])

    @property
    def carry(self) -> FloatArray:
        """Everything the path remembers, as one row of numbers; (W,)."""
        return np.array(self._carry)

    def copy(self) -> Stream:
        """Return a stream that goes on from here by itself."""
        return Stream(self._rule, self.state(), self._missing)

    def state(self) -> dict[str, Any]:
        """Return all there is to know of the path so far, as plain JSON."""
        return {"rule": self._rule.fingerprint, "carry": self._carry.tolist()}
