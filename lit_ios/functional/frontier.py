"""The trade-off between missed events and lost time, exactly, for every threshold: M5."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch


class Records(NamedTuple):
    """Margins at which the first stop of some path changes; (R,) each.

    Falling below `value`, the threshold adds `caught` caught paths and `time_left` to the sum of
    their times to event.
    """

    value: Tensor
    caught: Tensor
    time_left: Tensor


class Frontier(NamedTuple):
    """Operating points from the highest threshold to the lowest; (K,) each.

    Every b in (threshold[k+1], threshold[k]] gives point k; point 0 (b = ∞) catches nothing.
    """

    threshold: Tensor
    event_miss_rate: Tensor
    time_to_event: Tensor  # mean over caught paths; NaN while nothing is caught


def records(margin: Tensor, paths: PathBatch) -> Records:
    """Find the running maxima of the margin along stopped paths.

    τ̂(b) is the time of the first running maximum at or above b, so nothing but these matters.
    """
    maximum = _running_maximum(margin, paths)
    before = maximum.roll(1)
    record = (paths.step == 0) | (maximum > before)
    record &= paths.stopped[paths.path]
    rows = record.nonzero().squeeze(-1)
    path, time = paths.path[rows], paths.time[rows].double()
    is_last = torch.ones_like(path, dtype=torch.bool)
    is_last[:-1] = path[1:] != path[:-1]
    event_time = paths.time[paths.last_row][path].double()
    later = torch.where(is_last, event_time, time.roll(-1))
    return Records(maximum[rows].double(), is_last.double(), later - time)


def frontier(value: Tensor, caught: Tensor, time_left: Tensor, events: Tensor) -> Frontier:
    """Sweep the threshold over all records with one sort."""
    value, order = value.sort(descending=True)
    caught_so_far = caught[order].cumsum(0)
    time_so_far = time_left[order].cumsum(0)
    keep = torch.ones_like(value, dtype=torch.bool)
    keep[:-1] = value[1:] != value[:-1]  # equal margins are crossed together
    infinity = value.new_full((1,), torch.inf)
    zero = value.new_zeros(1)
    caught_so_far = torch.cat([zero, caught_so_far[keep]])
    time_so_far = torch.cat([zero, time_so_far[keep]])
    return Frontier(
        threshold=torch.cat([infinity, value[keep]]),
        event_miss_rate=1 - caught_so_far / events,
        time_to_event=time_so_far / caught_so_far,
    )


def frontier_area(curve: Frontier) -> Tensor:
    """Return ∫ min time to event d(EMR) over EMR in [0, 1).

    For each level of missed events the least mean time to event at which no more are missed; its
    average over all levels. NaN without events.
    """
    rate, time = curve.event_miss_rate[1:], curve.time_to_event[1:]
    if len(rate) == 0:
        return torch.tensor(torch.nan)
    first = torch.ones_like(rate, dtype=torch.bool)
    first[1:] = rate[1:] < rate[:-1]  # the highest threshold that reaches this rate
    rate, time = rate[first], time[first]
    time = time.flip(0).cummin(0).values.flip(0)  # a lower threshold may lose less time
    upper = torch.cat([rate.new_ones(1), rate[:-1]])
    # EMR levels in [rate_k, upper_k) are reached by point k
    return (time * (upper - rate)).sum().float()


def balanced_margin(margin: Tensor, paths: PathBatch) -> Tensor:
    """Return the threshold b of the highest balanced accuracy (M1), exactly, with one sort.

    A row is stopped at or before iff the running maximum of its path reaches b, so M1 is the
    balanced accuracy of that maximum. Of all b that do equally well, the one in the middle between
    two margins is taken; ∞ if no threshold is better than never to stop.
    """
    maximum = _running_maximum(margin, paths)
    stop = torch.zeros_like(maximum, dtype=torch.bool)
    stop[paths.last_row[paths.stopped]] = True
    value, order = maximum.double().sort(descending=True)
    caught = stop[order].cumsum(0) / stop.sum()
    wrong = (~stop[order]).cumsum(0) / (~stop).sum()
    score = caught - wrong
    score[:-1][value[1:] == value[:-1]] = -torch.inf  # equal margins are crossed together
    best = int(score.argmax())
    if not score[best] > 0:
        return value.new_tensor(torch.inf)
    below = value[best + 1] if best + 1 < len(value) else value[best]
    return (value[best] + below) / 2


def _running_maximum(margin: Tensor, paths: PathBatch) -> Tensor:
    """Cumulative maximum within each path, as one cumulative maximum over all rows.

    Ranks are shifted by path so that a later path always starts above an earlier one.
    """
    if len(margin) == 0:
        return margin
    levels, rank = torch.unique(margin, return_inverse=True)
    shifted = rank + paths.path * len(levels)
    highest: Tensor = shifted.cummax(0).values - paths.path * len(levels)
    maximum: Tensor = levels[highest]
    return maximum
