"""Thresholds chosen on paths the model was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.checks import UserError, check_number
from lit_ios.functional.frontier import (
    balanced_margin,
    cheapest_margin,
    conformal_margin,
    highest_margins,
)
from lit_ios.functional.outcomes import measure

Choose = Callable[[Tensor, PathBatch], Tensor | float]  # margins of all rows, paths → threshold


class Goal(NamedTuple):
    """What a threshold is to achieve; by default the highest balanced accuracy."""

    max_event_miss_rate: float | None = None
    miss_cost: float | None = None
    time_cost: float | None = None
    choose: Choose | None = None

    @property
    def rule(self) -> str:
        """By what the threshold is chosen."""
        if self.choose is not None:
            return getattr(self.choose, "__name__", type(self.choose).__name__)
        if self.max_event_miss_rate is not None:
            return "event_miss_rate"
        return "balanced_accuracy" if self.miss_cost is None else "cost"

    def check(self) -> None:
        """Refuse goals that contradict each other or cannot be reached."""
        if (self.miss_cost is None) != (self.time_cost is None):
            raise UserError("miss_cost and time_cost are needed together")
        given = (self.max_event_miss_rate, self.miss_cost, self.choose)
        if sum(value is not None for value in given) > 1:
            raise UserError("choose by max_event_miss_rate, by costs or by a function, not by two")
        if self.max_event_miss_rate is not None:
            check_number("max_event_miss_rate", self.max_event_miss_rate, above=0, at_most=0.999)
        for name in ("miss_cost", "time_cost"):
            value = getattr(self, name)
            check_number(name, 1.0 if value is None else value, above=0)


class Calibration(NamedTuple):
    """How a threshold was chosen, and what it does on the calibration paths."""

    threshold: float
    rule: str  # balanced_accuracy, cost, event_miss_rate, or the name of a user's function
    paths: int
    events: int  # of them stopped
    event_miss_rate: float
    time_to_event: float  # mean; NaN if nothing is caught
    balanced_accuracy: float
    false_alarm_rate: float | None  # share of censored paths that are stopped; None without any
    censored: int  # paths
    stopped_at_first_row: float  # share of all paths
    level: float | None = None  # of the event-miss rate, guaranteed in the mean over fresh paths


def calibrate(margin: Tensor, batch: PathBatch, goal: Goal) -> Calibration:
    """Choose the threshold that reaches a goal on these paths."""
    if not batch.stopped.any():
        raise UserError("no calibration path was stopped: there is nothing to miss")
    if len(margin) == batch.stopped.sum():
        raise UserError("every calibration path has a single row: there is nothing to continue")
    if goal.choose is not None:
        threshold = torch.as_tensor(goal.choose(margin, batch), dtype=torch.float64)
        if threshold.ndim or threshold.isnan():
            raise UserError(f"{goal.rule} must return one number, got {threshold}")
    elif goal.max_event_miss_rate is not None:
        threshold = conformal_margin(highest_margins(margin, batch), goal.max_event_miss_rate)
    elif goal.miss_cost is not None and goal.time_cost is not None:
        threshold = cheapest_margin(margin, batch, goal.miss_cost, goal.time_cost)
    else:
        threshold = balanced_margin(margin, batch)
    measured = measure(margin, batch, float(threshold))
    return Calibration(
        threshold=float(threshold),
        rule=goal.rule,
        paths=len(batch.stopped),
        events=int(batch.stopped.sum()),
        event_miss_rate=measured.event_miss_rate,
        time_to_event=measured.time_to_event,
        balanced_accuracy=measured.balanced_accuracy,
        false_alarm_rate=measured.false_alarm_rate if measured.censored else None,
        censored=measured.censored,
        stopped_at_first_row=measured.stopped_at_first_row,
        level=goal.max_event_miss_rate,
    )
