"""What a stopping rule did on paths whose events are known: the counts behind M1–M4, M7 and M8."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times, last_in_time, rows_at
from lit_ios.functional.stopping import stopping_time, stops


class Outcome(NamedTuple):
    """What the policy's first stop did on each path; (P,) each."""

    stop_step: Tensor  # τ̂ (E9), NEVER if none
    caught: Tensor  # bool: τ̂ ≤ τ − L (M8), of a censored path whether it is stopped
    time_left: Tensor  # from τ̂ to the event in the data's unit; NaN if not caught or unknown


class BalanceCounts(NamedTuple):
    """Expert stops reached in time and continue rows passed (M1)."""

    caught: Tensor
    events: Tensor
    continued: Tensor
    continue_rows: Tensor


class AlarmCounts(NamedTuple):
    """First stops where the expert went on (M7)."""

    false_alarms: Tensor  # censored paths that are stopped
    censored: Tensor
    alarms: Tensor  # first stops on rows where the expert went on, of all paths
    observed_time: Tensor  # in which they could fall, in the data's unit


class Measured(NamedTuple):
    """M1, M3, M4 and M7 of some paths; NaN where they are not defined."""

    balanced_accuracy: float
    event_miss_rate: float
    time_to_event: float  # mean
    false_alarm_rate: float
    censored: int  # paths
    stopped_at_first_row: float  # share of all paths


def outcome(margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> Outcome:
    """Follow each path to its first margin at or above the threshold."""
    stop = stops(margin, threshold)
    stop_step = stopping_time(stop, paths.step, paths.path, len(paths.stopped))
    caught = stop_step <= last_in_time(paths)
    stop_row = rows_at(paths, torch.where(caught, stop_step, paths.step[paths.last_row]))
    time_left = torch.where(caught, event_times(paths) - paths.time[stop_row], torch.nan)
    return Outcome(stop_step, caught, time_left)


def balance_counts(result: Outcome, paths: PathBatch) -> BalanceCounts:
    """Count what M1 is made of: a row is predicted *stop* iff t ≥ τ̂.

    With a required lead, the last row in time counts as the expert's stop.
    """
    steps = last_in_time(paths).clamp(min=0)  # = number of continue rows of a stopped path
    rows = torch.where(paths.stopped, steps, steps + 1)
    return BalanceCounts(
        caught=(result.caught & paths.stopped).sum(),
        events=paths.stopped.sum(),
        continued=torch.minimum(result.stop_step, rows).sum(),
        continue_rows=rows.sum(),
    )


def alarm_counts(result: Outcome, paths: PathBatch, window: float = 0.0) -> AlarmCounts:
    """Count what M7 is made of: first stops earlier than `window` before the expert's.

    On a censored path every stop is an alarm. With `window` 0 alarms are the first stops on
    continue rows. The window is at least the required lead.
    """
    window = max(window, paths.lead)
    first_row = paths.first_row[paths.last_row]
    begin, end = paths.time[first_row].double(), paths.time[paths.last_row].double()
    latest = torch.where(paths.stopped, end - window, end)
    stops = result.stop_step <= paths.step[paths.last_row]
    stop_row = rows_at(paths, result.stop_step.minimum(paths.step[paths.last_row]))
    early = ~paths.stopped | (paths.time[stop_row].double() < latest)
    return AlarmCounts(
        false_alarms=(stops & ~paths.stopped).sum(),
        censored=(~paths.stopped).sum(),
        alarms=(stops & early).sum(),
        observed_time=(latest - begin).clamp(min=0).sum(),
    )


def measure(margin: Tensor, paths: PathBatch, threshold: float) -> Measured:
    """Return M1, M3, the mean of M4 and M7 of these paths at a threshold."""
    # of stopped paths alone, as the frontier is
    paths = paths._replace(event_time=event_times(paths).where(paths.stopped, torch.nan))
    result = outcome(margin, paths, threshold)
    counts = balance_counts(result, paths)
    caught = counts.caught / counts.events
    continued = counts.continued / counts.continue_rows
    left = result.time_left[result.time_left.isfinite()]
    alarms = alarm_counts(result, paths)
    return Measured(
        balanced_accuracy=float((caught + continued) / 2),
        event_miss_rate=float(1 - caught),
        time_to_event=float(left.mean()),
        false_alarm_rate=float(alarms.false_alarms / alarms.censored),
        censored=int(alarms.censored),
        stopped_at_first_row=float((result.stop_step == 0).double().mean()),
    )
