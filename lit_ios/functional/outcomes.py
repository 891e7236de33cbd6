"""What a stopping rule did on paths whose events are known: the counts behind M1–M4."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times
from lit_ios.functional.stopping import stopping_time, stops


class Outcome(NamedTuple):
    """What the policy's first stop did on each path; (P,) each."""

    stop_step: Tensor  # τ̂ (E9), NEVER if none
    caught: Tensor  # bool: τ̂ ≤ τ; of use on stopped paths
    time_left: Tensor  # from τ̂ to the event in the data's unit; NaN if not caught or unknown


class BalanceCounts(NamedTuple):
    """Expert stops reached in time and continue rows passed (M1)."""

    caught: Tensor
    events: Tensor
    continued: Tensor
    continue_rows: Tensor


class Measured(NamedTuple):
    """M1, M3 and M4 of some paths; NaN where they are not defined."""

    balanced_accuracy: float
    event_miss_rate: float
    time_to_event: float  # mean


def outcome(margin: Tensor, paths: PathBatch, threshold: Tensor | float = 0.0) -> Outcome:
    """Follow each path to its first margin at or above the threshold."""
    stop = stops(margin, threshold)
    stop_step = stopping_time(stop, paths.step, paths.path, len(paths.stopped))
    first_row = paths.first_row[paths.last_row]
    caught = stop_step <= paths.step[paths.last_row]
    stop_row = torch.where(caught, first_row + stop_step, paths.last_row)
    time_left = torch.where(caught, event_times(paths) - paths.time[stop_row], torch.nan)
    return Outcome(stop_step, caught, time_left)


def balance_counts(result: Outcome, paths: PathBatch) -> BalanceCounts:
    """Count what M1 is made of: a row is predicted *stop* iff t ≥ τ̂."""
    steps = paths.step[paths.last_row]  # = number of continue rows of a stopped path
    rows = torch.where(paths.stopped, steps, steps + 1)
    return BalanceCounts(
        caught=(result.caught & paths.stopped).sum(),
        events=paths.stopped.sum(),
        continued=torch.minimum(result.stop_step, rows).sum(),
        continue_rows=rows.sum(),
    )


def measure(margin: Tensor, paths: PathBatch, threshold: float) -> Measured:
    """Return M1, M3 and the mean of M4 of these paths at a threshold."""
    # of stopped paths alone, as the frontier is
    paths = paths._replace(event_time=event_times(paths).where(paths.stopped, torch.nan))
    result = outcome(margin, paths, threshold)
    counts = balance_counts(result, paths)
    caught = counts.caught / counts.events
    continued = counts.continued / counts.continue_rows
    left = result.time_left[result.time_left.isfinite()]
    return Measured(float((caught + continued) / 2), float(1 - caught), float(left.mean()))
