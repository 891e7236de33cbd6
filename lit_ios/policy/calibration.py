"""Thresholds chosen on paths the model was not trained on, and what they do there."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.carry import LARGEST
from lit_ios.checks import UserError, quoted
from lit_ios.functional.outcomes import Outcome, alarm_counts, balance_counts, outcome
from lit_ios.promises import Balanced, Cost, FalseAlarms, MissRate, Promise, Sweep
from lit_ios.promises.binomial import interval
from lit_ios.promises.choice import Choice, choose

Choose = Callable[[Tensor, PathBatch], Tensor | float]  # margins of all rows, paths → threshold
NOT_NUMBER = float("nan")


class Estimate(NamedTuple):
    """A number with its 95 % interval over paths."""

    value: float
    low: float
    high: float


class Group(NamedTuple):
    """What a threshold does on the paths of one group."""

    name: str
    events: int
    missed: int
    censored: int
    false_alarms: int
    promised: bool  # whether it is large enough for the promises to be kept within it
    decisive: bool  # whether it is the least favourable one


class Calibration(NamedTuple):
    """What was promised of a threshold, and what it does on the calibration paths.

    These paths chose it, so that fresh ones may fare worse; the promises are about those.
    """

    threshold: float
    promises: tuple[dict[str, Any], ...]  # class, arguments, words; risk of one in the mean
    paths: int
    events: int  # of them stopped
    censored: int
    event_miss_rate: Estimate | None  # None without events
    false_alarm_rate: Estimate | None  # share of censored paths that are stopped; None without any
    alarms_per_time: Estimate | None  # first stops where the expert went on; None without any time
    stopped_at_first_row: Estimate  # share of all paths
    time_to_event: Estimate  # mean over caught paths; NaN if nothing is caught
    balanced_accuracy: float  # NaN without events
    lead: float = 0.0  # required between stop and event
    groups: tuple[Group, ...] = ()
    date: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """What is promised, for people."""
        return tuple(promise["words"] for promise in self.promises)

    def level(self, promise: str) -> float | None:
        """Return the level promised by `MissRate` or `FalseAlarms`; None if it is not."""
        found = [each["level"] for each in self.promises if each["promise"] == promise]
        return min(found, default=None)

    def plain(self) -> dict[str, Any]:
        """Return plain values, as checkpoints and exported files keep them."""
        known = self._asdict() | {name: _without_nan(getattr(self, name)) for name in _ESTIMATES}
        known["threshold"] = min(max(self.threshold, -LARGEST), LARGEST)  # JSON has no ∞
        known["balanced_accuracy"] = _or_none(self.balanced_accuracy)
        known["promises"] = list(self.promises)
        return known | {"groups": [group._asdict() for group in self.groups]}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Calibration:
        """Return what `plain` was made of; raises ValueError or LookupError if it is not that."""
        if not all(map(_is_promise, values["promises"])):
            raise ValueError("promises")
        known = dict(values) | {"promises": tuple(values["promises"])}
        threshold = float(values["threshold"])
        known["threshold"] = threshold * math.inf if abs(threshold) >= LARGEST else threshold
        known["balanced_accuracy"] = _number(values["balanced_accuracy"])
        known["groups"] = tuple(Group(**group) for group in values["groups"])
        for name in _ESTIMATES:
            known[name] = None if values[name] is None else Estimate(*map(_number, values[name]))
        return cls(**known)


_ESTIMATES = (
    "event_miss_rate", "false_alarm_rate", "alarms_per_time", "stopped_at_first_row",
    "time_to_event",
)  # fmt: skip


def _without_nan(estimate: Estimate | None) -> list[float | None] | None:
    """Return plain values that JSON has, too."""
    return None if estimate is None else [_or_none(x) for x in estimate]


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _is_promise(made: Any) -> bool:
    """Say whether this is what is kept of a promise."""
    if not isinstance(made, Mapping) or not isinstance(made.get("words"), str):
        return False
    levels = {"MissRate", "FalseAlarms"}
    return made["promise"] not in levels or isinstance(made.get("level"), float | int)


def _number(value: float | None) -> float:
    return NOT_NUMBER if value is None else float(value)


def short_forms(
    max_event_miss_rate: float | None,
    max_false_alarm_rate: float | None,
    confidence: float | None,
    miss_cost: float | None,
    time_cost: float | None,
    alarm_cost: float | None,
) -> list[Promise]:
    """Return the promises that keywords stand for."""
    made: list[Promise] = []
    for kind, name, level in (
        (MissRate, "max_event_miss_rate", max_event_miss_rate),
        (FalseAlarms, "max_false_alarm_rate", max_false_alarm_rate),
    ):
        if level is not None:
            try:
                made.append(kind(level, confidence))
            except UserError as error:
                raise UserError(str(error).replace("level", name)) from None
    if confidence is not None and not made:
        raise UserError("confidence goes with max_event_miss_rate or max_false_alarm_rate")
    if (miss_cost is None) != (time_cost is None):
        raise UserError("miss_cost and time_cost are needed together")
    if alarm_cost is not None and miss_cost is None:
        raise UserError("alarm_cost goes with miss_cost and time_cost")
    if miss_cost is not None and time_cost is not None:
        made.append(Cost(miss_cost, time_cost, alarm_cost or 0.0))
    return made


def calibrate(
    margin: Tensor,
    batch: PathBatch,
    promises: Sequence[Promise] = (),
    by: Choose | None = None,
    groups: Mapping[str, Tensor] | None = None,
) -> Calibration:
    """Choose the threshold that keeps these promises on these paths.

    Args:
        margin: (N,) of all rows.
        batch: these rows belong to.
        promises: to keep; none for the highest balanced accuracy.
        by: a function that returns the threshold, instead of promises.
        groups: (P,) bool which paths belong to each.
    """
    promises = promises if promises or by is not None else (Balanced(),)
    if not batch.stopped.any() and not all(p.prefers == "low" for p in promises):
        raise UserError("no calibration path was stopped: there is nothing to miss")
    if len(margin) == batch.stopped.sum():
        raise UserError("every calibration path has a single row: there is nothing to continue")
    sweep = Sweep(margin, batch)
    if by is not None:
        chosen = Choice(_by_function(by, margin, batch))
        made: tuple[dict[str, Any], ...] = ({"promise": None, "words": _name(by)},)
    else:
        chosen = choose(sweep, promises, groups)
        made = tuple(_recorded(promise, None if groups else sweep) for promise in promises)
    measured = measured_at(margin, batch, chosen.threshold)
    found = tuple(
        _group(name, sweep.among(which), chosen) for name, which in (groups or {}).items()
    )
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Calibration(chosen.threshold, made, **measured, lead=batch.lead, groups=found, date=date)


def _recorded(promise: Promise, sweep: Sweep | None) -> dict[str, Any]:
    """Return a promise as checkpoints keep it: with its words, and how often it is exceeded."""
    known = promise.plain() | {"words": promise.words}
    risk = None if sweep is None else promise.risk(sweep)
    return known if risk is None else known | {"risk": risk}


def _by_function(by: Choose, margin: Tensor, batch: PathBatch) -> float:
    given = by(margin, batch)
    try:
        threshold = float(given)
    except (TypeError, ValueError, RuntimeError):
        threshold = NOT_NUMBER
    if math.isnan(threshold):
        raise UserError(f"choose: {_name(by)} must return one number, got {quoted(given)}")
    return threshold


def _name(by: Choose) -> str:
    return getattr(by, "__name__", type(by).__name__)


def measured_at(margin: Tensor, batch: PathBatch, threshold: float) -> dict[str, Any]:
    """Return what a threshold does on paths, with intervals, under the names of a Calibration."""
    result = outcome(margin, batch, threshold)
    counts, alarms = balance_counts(result, batch), alarm_counts(result, batch)
    events, paths = int(batch.stopped.sum()), len(batch.stopped)
    caught = int(counts.caught)
    stopped = int(alarms.false_alarms)
    at_once = int((result.stop_step == 0).sum())
    accuracy = (counts.caught / counts.events + counts.continued / counts.continue_rows) / 2
    return {
        "paths": paths,
        "events": events,
        "censored": paths - events,
        "event_miss_rate": share(events - caught, events),
        "false_alarm_rate": share(stopped, paths - events),
        "alarms_per_time": _rate(int(alarms.alarms), float(alarms.observed_time)),
        "stopped_at_first_row": share(at_once, paths),
        "time_to_event": _mean_time(result, batch),
        "balanced_accuracy": float(accuracy),
    }


def share(k: int, n: int) -> Estimate | None:
    """Return k of n with its exact (Clopper–Pearson) interval; None of nothing."""
    return Estimate(k / n, *interval(k, n)) if n else None


def _rate(k: int, time: float) -> Estimate | None:
    """Return k events in some time, per unit of it, with the exact interval of Poisson's law.

    A path alarms once at the most, so that the interval is rather too wide.
    """
    from scipy.special import gammaincinv

    if time <= 0:
        return None
    low = float(gammaincinv(k, 0.025)) if k else 0.0
    return Estimate(k / time, low / time, float(gammaincinv(k + 1, 0.975)) / time)


def _mean_time(result: Outcome, batch: PathBatch) -> Estimate:
    """Return the mean time between stop and event of caught paths, with Student's interval."""
    from scipy.special import stdtrit

    times = result.time_left[result.caught & batch.stopped].double()
    n = len(times)
    mean = float(times.mean()) if n else NOT_NUMBER
    if n < 2:
        return Estimate(mean, NOT_NUMBER, NOT_NUMBER)
    reach = float(times.std()) / math.sqrt(n) * float(stdtrit(n - 1, 0.975))
    return Estimate(mean, mean - reach, mean + reach)


def _group(name: str, sweep: Sweep, chosen: Choice) -> Group:
    """Count what a threshold does on the paths of a group."""
    at = int((sweep.threshold >= chosen.threshold).sum()) - 1  # the lowest margin that reaches it
    return Group(
        name, sweep.events, round(float(sweep.missed[at])), sweep.censored,
        round(float(sweep.false_alarms[at])), name not in chosen.too_small, name == chosen.decisive,
    )  # fmt: skip
