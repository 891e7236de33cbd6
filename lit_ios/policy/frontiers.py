"""The trade-off between missed events and lost time, with what paths drawn anew would change."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.functional.frontier import (
    ROUNDING,
    at_levels,
    frontier,
    frontier_bands,
    records,
)
from lit_ios.functional.outcomes import measure
from lit_ios.trajectories import FloatArray

MOST_LEVELS = 500


class OperatingPoint(NamedTuple):
    """What one threshold does."""

    event_miss_rate: float
    time_to_event: float
    false_alarm_rate: float  # NaN without censored paths


class FrontierCurve(NamedTuple):
    """Missed events against time to event for every threshold; (K,) where not said otherwise."""

    event_miss_rate: FloatArray  # falling
    time_to_event: FloatArray  # at the highest threshold that misses no more
    threshold: FloatArray
    band_rate: FloatArray  # (L,) all event-miss rates there can be, or many of them; rising
    low: FloatArray  # (L,) bootstrap band of the time to event at these, over paths
    high: FloatArray
    chosen: OperatingPoint  # of the policy's threshold
    false_alarm_rate: FloatArray  # share of censored paths that are stopped (M7); NaN without any


def frontier_curve(
    margin: Tensor, batch: PathBatch, threshold: float, draws: int = 200, seed: int = 0
) -> FrontierCurve:
    """Return the frontier of known margins, with a bootstrap band over paths."""
    found = records(margin, batch)
    curve = frontier(found.value, found.caught, found.time_left, batch.stopped.sum())
    rate = curve.event_miss_rate
    first = torch.ones_like(rate, dtype=torch.bool)
    first[1:] = rate[1:] < rate[:-1]  # the highest threshold that reaches this rate
    first[0] = False  # never to stop has no time to event
    levels = rate[first]
    events = int(batch.stopped.sum())
    band_rate = torch.arange(events, dtype=torch.double) / events
    if events > MOST_LEVELS:
        band_rate = band_rate[torch.linspace(0, events - 1, MOST_LEVELS).long()]
    low, high = frontier_bands(found, batch.stopped, band_rate, draws, seed)
    measured = measure(margin, batch, threshold)
    thresholds = _between(curve.threshold)[first]
    return FrontierCurve(
        event_miss_rate=levels.numpy(),
        time_to_event=at_levels(curve, levels).numpy(),
        threshold=thresholds.numpy(),
        band_rate=band_rate.numpy(),
        low=low.numpy(),
        high=high.numpy(),
        chosen=OperatingPoint(
            measured.event_miss_rate, measured.time_to_event, measured.false_alarm_rate
        ),
        false_alarm_rate=_false_alarms(margin, batch, thresholds).numpy(),
    )


def _false_alarms(margin: Tensor, batch: PathBatch, threshold: Tensor) -> Tensor:
    """Return the share of censored paths that each threshold stops; NaN without any; (K,)."""
    lowest = torch.full((len(batch.stopped),), -torch.inf, dtype=torch.double)
    highest = lowest.scatter_reduce(0, batch.path, margin.double(), "amax")[~batch.stopped]
    stopped = len(highest) - torch.searchsorted(highest.sort().values, threshold)
    return stopped / len(highest) if len(highest) else torch.full_like(threshold, torch.nan)


def _between(threshold: Tensor) -> Tensor:
    """Return thresholds halfway to the next lower one: rounding then does not decide."""
    last = threshold[-1:] - ROUNDING * threshold[-1:].abs().clamp(min=1)
    return torch.cat([(threshold[:-1] + threshold[1:]) / 2, last])
