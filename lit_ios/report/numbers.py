"""The scores of a report: those that stand out, all of them beside the baseline's, several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from lit_ios.plotting import with_unit
from lit_ios.policy.calibration import Estimate
from lit_ios.report.facts import RunFacts

SHARES = {
    "event_miss_rate": ("events missed", "events"),
    "false_alarm_rate": ("false alarms", "censored"),
    "stopped_at_first_row": ("stopped at once", "paths"),
}


class Tile(NamedTuple):
    """A number that stands out."""

    name: str
    value: str
    note: str


class Score(NamedTuple):
    """A number with its interval, the rule's and the baseline's."""

    name: str
    own: str
    own_interval: str
    baseline: str = ""
    baseline_interval: str = ""


def tiles(facts: RunFacts) -> list[Tile]:
    """Return the numbers at the top."""
    found = facts.measured
    made = [Tile("balanced accuracy", f"{found['balanced_accuracy'].value:.3f}", _beside(facts))]
    for name, (label, of) in SHARES.items():
        if (share := found[name]) is not None:
            note = f"of {found[of]}; 95 %: {_percent_range(share)}"
            made.append(Tile(label, f"{share.value:.1%}", note))
    early = found["time_to_event"]
    note = "" if math.isnan(early.low) else f"95 %: {_range(early)}"
    made.append(Tile(with_unit("early by, mean", facts.unit), _plain(early.value), note))
    return made


def scores(facts: RunFacts) -> list[Score]:
    """Return all scores with their intervals, beside those of gradient boosting."""
    found, theirs = facts.measured, facts.baseline
    rows = [("balanced accuracy", found["balanced_accuracy"], "balanced_accuracy", False)]
    rows += [(label, found[name], name, True) for name, (label, _) in SHARES.items()]
    early = with_unit("early by, mean", facts.unit)
    rows.append((early, found["time_to_event"], "time_to_event_mean", False))
    alarms = f"false and early alarms per {facts.unit or 'unit of time'}"
    rows.append((alarms, found["alarms_per_time"], "alarms_per_time", False))
    return [
        Score(label, *_cells(own, percent), *_cells(theirs.get(name), percent))
        for label, own, name, percent in rows
        if own is not None
    ]


def comparison(runs: Mapping[str, RunFacts]) -> dict[str, Any]:
    """Return the table of several runs: head, and cells with their intervals."""
    head = ["run", "balanced accuracy", "events missed", "false alarms", "early by, mean",
            "gradient boosting", "judged on"]  # fmt: skip
    rows = []
    for name, facts in runs.items():
        found = facts.measured
        cells = [
            _cells(found["balanced_accuracy"], False),
            _cells(found["event_miss_rate"], True),
            _cells(found["false_alarm_rate"], True),
            _cells(found["time_to_event"], False, facts.unit),
            _cells(facts.baseline.get("balanced_accuracy"), False),
            (f"{found['paths']} paths", facts.table or "its test paths"),
        ]
        rows.append({"name": name, "cells": cells})
    return {"head": head, "rows": rows}


def _beside(facts: RunFacts) -> str:
    """Return what gradient boosting got on the same paths, if that was measured."""
    theirs, ahead = facts.baseline.get("balanced_accuracy"), facts.ahead
    if theirs is None:
        return f"95 %: {_range(facts.measured['balanced_accuracy'])}"
    text = f"gradient boosting {theirs.value:.3f}"
    if ahead is None:
        return text
    return f"{text}; difference {ahead.value:+.3f}, 95 %: {ahead.low:+.3f} to {ahead.high:+.3f}"


def _cells(estimate: Estimate | None, percent: bool, unit: str = "") -> tuple[str, str]:
    """Return a number and its interval as they are shown."""
    if estimate is None or math.isnan(estimate.value):
        return ("–", "")
    value = f"{estimate.value:.1%}" if percent else _plain(estimate.value)
    value += f" {unit}" if unit else ""
    if math.isnan(estimate.low):
        return (value, "")
    return (value, _percent_range(estimate) if percent else _range(estimate))


def _plain(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _range(estimate: Estimate) -> str:
    return f"{estimate.low:.3g} to {estimate.high:.3g}"


def _percent_range(estimate: Estimate) -> str:
    return f"{estimate.low:.1%} to {estimate.high:.1%}"
