"""What metrics mean, in sentences a newcomer understands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lit_ios.data_record import TableColumns

FEW_STOPS = 20  # below which figures mean little


class Judged(NamedTuple):
    """Paths that a rule was measured on."""

    paths: int
    stopped: int  # of them
    kind: str = "test"  # or validation


def time_label(table: TableColumns | None) -> str:
    """Return the unit of times in brackets: of dates, or the name of a table's time column."""
    return "" if table is None else table.unit


def verdict(metrics: Mapping[str, float], judged: Judged, table: TableColumns | None) -> str:
    """Say what the rule did on the paths, and what to do if it did nothing of use.

    Args:
        metrics: M1, M3, M4 and M7 by their names without a prefix.
        judged: the paths.
        table: where times come from.
    """
    missed = metrics.get("event_miss_rate", math.nan)
    passed = 2 * metrics.get("balanced_accuracy", math.nan) - (1 - missed)  # M1 and M3 give TNR
    begin = f"On {judged.paths} {_seen(judged.kind)}"
    if math.isnan(missed) or math.isnan(passed):
        return _without_stops(metrics, begin)
    if missed == 1 and passed > 1 - 1e-6:
        return (
            f"The rule never stops on these {judged.paths} paths: its threshold is out of reach. "
            "Train longer or on more stopped paths, or choose another threshold with "
            "lit-ios calibrate."
        )
    if missed == 0 and passed < 1e-6:
        return (
            f"The rule stops each of these {judged.paths} paths at its first row: it says nothing. "
            "Train longer, give features that change before the stop, or choose another threshold "
            "with lit-ios calibrate."
        )
    early = _early(metrics.get("time_to_event_mean", math.nan), table)
    sentence = (
        f"{begin}, it stopped in time on {_percent(1 - missed)} of those the expert "
        f"stopped{early}, and let {_percent(passed)} of the rows before pass."
    )
    alarms = metrics.get("false_alarm_rate", math.nan)
    if not math.isnan(alarms):
        sentence += f" It stopped {_percent(alarms)} of the paths that the expert never stopped."
    return sentence


def few_paths(training_stops: int | None, judged: Judged) -> str | None:
    """Say that figures mean little where few paths were stopped; None: not known."""
    parts = []
    if training_stops is not None and training_stops < FEW_STOPS:
        parts.append(f"{training_stops} stopped paths in training")
    if 0 < judged.stopped < FEW_STOPS:
        what = "" if parts else " stopped paths"
        parts.append(f"{judged.stopped}{what} among the {judged.kind} paths")
    if not parts:
        return None
    return f"Only {' and '.join(parts)}: these figures mean little below some {FEW_STOPS}."


def next_steps(folder: Path, *, own_table: bool = True) -> str:
    """Say what to do with a run.

    Args:
        folder: of the run, with its checkpoint.
        own_table: whether it was trained on a table of the user's own.
    """
    if not own_table:
        return (
            "  next         lit-ios fit my.csv --path unit --time cycle --stop failed   (your own "
            "table)\n"
            f"               lit-ios explain {folder} --of 0   (what a decision is made of)"
        )
    return "\n".join(
        [
            f"  next         lit-ios calibrate {folder} --max-event-miss-rate 0.1"
            "   (a threshold with a promise)",
            f"               lit-ios predict {folder} new.csv   (decide on new paths)",
        ]
    )


def _seen(kind: str) -> str:
    return "paths the rule had not seen" if kind == "test" else f"{kind} paths of the rule"


def _without_stops(metrics: Mapping[str, float], begin: str) -> str:
    alarms = metrics.get("false_alarm_rate", math.nan)
    if math.isnan(alarms):
        return f"{begin} there was nothing to judge: they hold no row on which to go on."
    return (
        f"{begin}, none of them stopped by the expert, it stopped {_percent(alarms)}: give "
        "stopped paths too, to see what it misses."
    )


def _early(time: float, table: TableColumns | None) -> str:
    if math.isnan(time):
        return ""
    if abs(time) < 5e-4:
        return ", together with the expert"
    return f", on average {_short(time)}{_unit(table)} early"


def _short(number: float) -> str:
    """Return a number in three digits, without an exponent where it is large."""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def _unit(table: TableColumns | None) -> str:
    if table is not None and table.dates:
        return f" {table.time_unit}"
    return time_label(table) or " units of time"


def _percent(share: float) -> str:
    """Return a share in percent; 100 % and 0 % only where they are exact."""
    value = 100 * share
    if 0.01 < value < 0.5 or 99.5 < value < 99.99:
        return f"{min(max(value, 0.1), 99.9):.1f} %"
    return f"{value:.0f} %"
