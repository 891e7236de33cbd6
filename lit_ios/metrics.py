"""Metrics M1–M7 as torchmetrics: states add across batches and processes.

M1–M5 and M7 take the margin of every row of whole paths and the paths themselves, and what the
first stops came to if that is known already (`result`: several metrics then share it); M6 takes
decisions on a grid and the truth there. A class that is absent gives NaN and one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.utilities import dim_zero_cat

from lit_ios.batches import PathBatch, event_times
from lit_ios.checks import UserError
from lit_ios.functional import stops
from lit_ios.functional.cross_fitting import cross_fitted, halves
from lit_ios.functional.frontier import (
    Frontier,
    best_balance,
    first_reached,
    frontier,
    frontier_area,
    records,
)
from lit_ios.functional.outcomes import Outcome, alarm_counts, balance_counts, outcome
from lit_ios.imports import import_class


class MissingClassWarning(UserWarning):
    """A metric has no row or path of a class it needs."""


class _CountingMetric(Metric):
    """Counts events; ratios of counts are its results."""

    full_state_update = False

    def _count(self, *names: str) -> None:
        for name in names:
            self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")

    def _share(self, count: Tensor, of: Tensor, what: str) -> Tensor:
        """Return count / of, or NaN with a warning if there is nothing to count."""
        if of == 0 and not getattr(self, "_warned", False):
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} is NaN: there are no {what}",
                MissingClassWarning,
                stacklevel=3,
            )
        return count / of  # 0/0 is NaN


def _outcome(
    known: Outcome | None, margin: Tensor, paths: PathBatch, threshold: Tensor | float
) -> Outcome:
    """Return what the first stops came to; several metrics share what is known of it."""
    return outcome(margin, paths, threshold) if known is None else known


class BalancedAccuracy(_CountingMetric):
    """M1: ½(TPR + TNR), a row being predicted *stop* iff t ≥ τ̂."""

    higher_is_better = True
    caught: Tensor
    events: Tensor
    continued: Tensor
    continue_rows: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("caught", "events", "continued", "continue_rows")

    def update(
        self,
        margin: Tensor,
        paths: PathBatch,
        threshold: Tensor | float = 0.0,
        result: Outcome | None = None,
    ) -> None:
        """Count expert stops reached in time and continue rows passed."""
        counts = balance_counts(_outcome(result, margin, paths, threshold), paths)
        self.caught += counts.caught
        self.events += counts.events
        self.continued += counts.continued
        self.continue_rows += counts.continue_rows

    def compute(self) -> Tensor:
        """Return the balanced accuracy."""
        tpr = self._share(self.caught, self.events, "stopped paths")
        tnr = self._share(self.continued, self.continue_rows, "continue rows")
        return (tpr + tnr) / 2


class RegionBalancedAccuracy(_CountingMetric):
    """M2: ½(TPR + TNR), every row judged by itself (E8)."""

    higher_is_better = True
    true_stop: Tensor
    stop_rows: Tensor
    true_continue: Tensor
    continue_rows: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("true_stop", "stop_rows", "true_continue", "continue_rows")

    def update(self, margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> None:
        """Count rows on which the policy does what the expert did."""
        stop = stops(margin, threshold)
        expert_stop = torch.zeros_like(stop)
        expert_stop[paths.last_row] = paths.stopped
        self.true_stop += (stop & expert_stop).sum()
        self.stop_rows += expert_stop.sum()
        self.true_continue += (~stop & ~expert_stop).sum()
        self.continue_rows += (~expert_stop).sum()

    def compute(self) -> Tensor:
        """Return the balanced accuracy over rows."""
        tpr = self._share(self.true_stop, self.stop_rows, "stop rows")
        tnr = self._share(self.true_continue, self.continue_rows, "continue rows")
        return (tpr + tnr) / 2


class EventMissRate(_CountingMetric):
    """M3: share of stopped paths with τ̂ > τ."""

    higher_is_better = False
    missed: Tensor
    events: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("missed", "events")

    def update(
        self,
        margin: Tensor,
        paths: PathBatch,
        threshold: Tensor | float = 0.0,
        result: Outcome | None = None,
    ) -> None:
        """Count missed events."""
        caught = _outcome(result, margin, paths, threshold).caught
        self.missed += (~caught & paths.stopped).sum()
        self.events += paths.stopped.sum()

    def compute(self) -> Tensor:
        """Return the rate."""
        return self._share(self.missed, self.events, "stopped paths")


class FalseAlarmRate(_CountingMetric):
    """M7: share of censored paths that are stopped."""

    higher_is_better = False
    false_alarms: Tensor
    censored: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("false_alarms", "censored")

    def update(
        self,
        margin: Tensor,
        paths: PathBatch,
        threshold: Tensor | float = 0.0,
        result: Outcome | None = None,
    ) -> None:
        """Count censored paths that are stopped."""
        counts = alarm_counts(_outcome(result, margin, paths, threshold), paths)
        self.false_alarms += counts.false_alarms
        self.censored += counts.censored

    def compute(self) -> Tensor:
        """Return the rate."""
        return self._share(self.false_alarms, self.censored, "censored paths")


class StoppedAtOnce(_CountingMetric):
    """Share of paths that the policy stops at their first row: it says nothing of them."""

    higher_is_better = False
    at_once: Tensor
    paths: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("at_once", "paths")

    def update(self, margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> None:
        """Count first rows that are stopped."""
        self.at_once += stops(margin[paths.step == 0], threshold).sum()
        self.paths += len(paths.stopped)

    def compute(self) -> Tensor:
        """Return the share."""
        return self._share(self.at_once, self.paths, "paths")


class PathCount(_CountingMetric):
    """How many paths were judged.

    Args:
        stopped: count those the expert stopped only.
        **kwargs: see torchmetrics.Metric.
    """

    paths: Tensor

    def __init__(self, stopped: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stopped = stopped
        self._count("paths")

    def update(self, margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> None:
        """Count paths."""
        self.paths += paths.stopped.sum() if self.stopped else len(paths.stopped)

    def compute(self) -> Tensor:
        """Return the number."""
        return self.paths.float()  # as Lightning logs it


class AlarmsPerTime(_CountingMetric):
    """M7: first stops where the expert went on, per unit of observed time.

    Args:
        window: stops of stopped paths within this time of the expert's are no alarms, nor does
            that time count.
        **kwargs: see torchmetrics.Metric.
    """

    higher_is_better = False
    alarms: Tensor
    observed_time: Tensor

    def __init__(self, window: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = window
        self._count("alarms")
        zero = torch.tensor(0.0, dtype=torch.float64)
        self.add_state("observed_time", zero, dist_reduce_fx="sum")

    def update(
        self,
        margin: Tensor,
        paths: PathBatch,
        threshold: Tensor | float = 0.0,
        result: Outcome | None = None,
    ) -> None:
        """Count alarms, and add up the time in which they could fall."""
        counts = alarm_counts(_outcome(result, margin, paths, threshold), paths, self.window)
        self.alarms += counts.alarms
        self.observed_time += counts.observed_time

    def compute(self) -> Tensor:
        """Return alarms per unit of time; NaN if no time was observed."""
        rate = self._share(self.alarms, self.observed_time, "paths observed for any time")
        return (rate if self.observed_time > 0 else rate * torch.nan).float()


class TimeToEvent(_CountingMetric):
    """M4: τ − τ̂ over caught paths, in the data's time unit.

    A censored path whose event is known to come later counts as caught if the policy stops it;
    if not, nothing is missed yet.

    Args:
        quantile: 0.5 gives the median, 0.25 and 0.75 the quartiles; None the mean, and "error" its
            standard error.
        **kwargs: see torchmetrics.Metric.
    """

    higher_is_better = False
    time_left: list[Tensor]
    events: Tensor

    def __init__(self, quantile: float | Literal["error"] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.quantile = quantile
        self.add_state("time_left", [], dist_reduce_fx="cat")
        self._count("events")

    def update(
        self,
        margin: Tensor,
        paths: PathBatch,
        threshold: Tensor | float = 0.0,
        result: Outcome | None = None,
    ) -> None:
        """Keep the time left on each caught path."""
        result = _outcome(result, margin, paths, threshold)
        self.time_left.append(result.time_left[result.time_left.isfinite()].double())
        self.events += event_times(paths).isfinite().sum()

    def compute(self) -> Tensor:
        """Return mean or quantile; NaN if nothing was caught."""
        known = self._share(self.events, self.events, "stopped paths")
        if known != 1:
            return known
        times = dim_zero_cat(self.time_left)
        if len(times) == 0:
            return known * torch.nan
        if self.quantile is None:
            result = times.mean()
        elif self.quantile == "error":
            spread = times.std() if len(times) > 1 else times.new_tensor(torch.nan)
            result = spread * len(times) ** -0.5
        else:
            result = times.quantile(self.quantile)
        return result.float()


class EventFrontier(_CountingMetric):
    """M5: event-miss rate against mean time to event as the threshold b takes every value."""

    values: list[Tensor]
    caught: list[Tensor]
    time_left: list[Tensor]
    events: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("values", "caught", "time_left"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self._count("events")

    def update(self, margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> None:
        """Keep the margins at which some path's first stop changes."""
        found = records(margin, paths)
        self.values.append(found.value)
        self.caught.append(found.caught)
        self.time_left.append(found.time_left)
        self.events += paths.stopped.sum()

    def curve(self) -> Frontier:
        """Return the whole frontier."""
        value, caught, time_left = map(dim_zero_cat, (self.values, self.caught, self.time_left))
        return frontier(value, caught, time_left, self.events)

    def compute(self) -> Tensor:
        """Return the area under the frontier: the mean time to event, averaged over all EMR."""
        known = self._share(self.events, self.events, "stopped paths")
        return frontier_area(self.curve()) if known == 1 else known


class BalancedThreshold(_CountingMetric):
    """The threshold b of the highest balanced accuracy (M1) on all paths seen."""

    maximum: list[Tensor]
    stop: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("maximum", "stop"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, margin: Tensor, paths: PathBatch) -> None:
        """Keep the running maxima of the margins."""
        found = first_reached(margin, paths)
        self.maximum.append(found.maximum)
        self.stop.append(found.stop)

    def compute(self) -> Tensor:
        """Return the threshold; ∞ if none is better than never to stop."""
        return best_balance(dim_zero_cat(self.maximum), dim_zero_cat(self.stop))


class CrossFittedScores(_CountingMetric):
    """M1 at thresholds that are chosen on one half of the paths, there and on the other half."""

    maximum: list[Tensor]
    stop: list[Tensor]
    side: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("maximum", "stop", "side"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self._dealt = {True: 0, False: 0}  # stopped and censored paths so far

    def update(self, margin: Tensor, paths: PathBatch) -> None:
        """Keep the running maxima of the margins, and which halves their paths belong to."""
        found = first_reached(margin, paths)
        self.maximum.append(found.maximum)
        self.stop.append(found.stop)
        number = torch.zeros_like(paths.number)
        for kind in (True, False):  # stops are dealt out evenly, whatever lies between them
            like = paths.stopped == kind
            number[like] = self._dealt[kind] + torch.arange(int(like.sum()), device=number.device)
            self._dealt[kind] += int(like.sum())
        self.side.append(halves(number)[found.path])

    def reset(self) -> None:
        """Begin anew."""
        super().reset()
        self._dealt = {True: 0, False: 0}

    def compute(self) -> Tensor:
        """Return the scores of `cross_fitted`."""
        return cross_fitted(*map(dim_zero_cat, (self.maximum, self.stop, self.side)))


class UnfamiliarPaths(_CountingMetric):
    """Share of paths that have a row unlike those of training.

    `update` takes `responsible` of all rows' Decisions, and their paths.
    """

    strange: Tensor
    paths: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("strange", "paths")

    def update(self, responsible: Tensor, paths: PathBatch) -> None:
        """Count paths and those with an unfamiliar row."""
        met = torch.zeros_like(paths.stopped)
        met[paths.path[responsible[:, 0] >= 0]] = True
        self.strange += met.sum()
        self.paths += len(paths.stopped)

    def compute(self) -> Tensor:
        """Return the share."""
        return self._share(self.strange, self.paths, "paths")


class _GridMetric(_CountingMetric):
    """Counts of a 2 × 2 table on grid points."""

    higher_is_better = True
    both: Tensor
    only_predicted: Tensor
    only_true: Tensor
    neither: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("both", "only_predicted", "only_true", "neither")

    def update(self, predicted: Tensor, truth: Tensor) -> None:
        """Count grid points; (N,) bool each, True inside the stopping region."""
        self.both += (predicted & truth).sum()
        self.only_predicted += (predicted & ~truth).sum()
        self.only_true += (~predicted & truth).sum()
        self.neither += (~predicted & ~truth).sum()


class GridBalancedAccuracy(_GridMetric):
    """M6: balanced accuracy of the recovered region against the true one."""

    def compute(self) -> Tensor:
        """Return the balanced accuracy over grid points."""
        tpr = self._share(self.both, self.both + self.only_true, "points in the true region")
        outside = self.neither + self.only_predicted
        tnr = self._share(self.neither, outside, "points outside the true region")
        return (tpr + tnr) / 2


class GridIoU(_GridMetric):
    """M6: intersection over union of the recovered and the true region."""

    def compute(self) -> Tensor:
        """Return |both| / |either|."""
        union = self.both + self.only_predicted + self.only_true
        return self._share(self.both, union, "points in either region")


def path_metrics(
    prefix: str, frontier: bool = False, own: Mapping[str, str] | None = None, **kwargs: Any
) -> MetricCollection:
    """Return M1–M4, M7, stops at once and what is counted; with `frontier`, M5 too.

    Args:
        prefix: of the names, which are those of the log keys.
        frontier: whether M5 is among them.
        own: class paths of a user's own metrics by name; `update` takes (margin, paths, threshold).
        **kwargs: see torchmetrics.Metric.
    """
    metrics: dict[str, Metric] = {
        "paths": PathCount(**kwargs),
        "stopped_paths": PathCount(stopped=True, **kwargs),
        "balanced_accuracy": BalancedAccuracy(**kwargs),
        "region_balanced_accuracy": RegionBalancedAccuracy(**kwargs),
        "event_miss_rate": EventMissRate(**kwargs),
        "false_alarm_rate": FalseAlarmRate(**kwargs),
        "stopped_at_first_row": StoppedAtOnce(**kwargs),
        "alarms_per_time": AlarmsPerTime(**kwargs),
        "time_to_event_mean": TimeToEvent(**kwargs),
        "time_to_event_error": TimeToEvent("error", **kwargs),
        "time_to_event_median": TimeToEvent(0.5, **kwargs),
        "time_to_event_q25": TimeToEvent(0.25, **kwargs),
        "time_to_event_q75": TimeToEvent(0.75, **kwargs),
    }
    times = [name for name in metrics if name.startswith("time_to_event")]
    groups = [[name] for name in metrics if name not in times] + [times]
    if frontier:
        metrics["frontier_area"] = EventFrontier(**kwargs)
        groups.append(["frontier_area"])
    for name, path in (own or {}).items():
        if name in metrics:
            raise UserError(f"metrics: there is a metric {name!r} already")
        metrics[name] = import_class(path, Metric)(**kwargs)  # type: ignore[type-abstract]
        groups.append([name])
    return MetricCollection(metrics, prefix=prefix, compute_groups=groups)  # type: ignore[arg-type]
