"""The trade-off between missed events and lost time, exactly, for every threshold: M5."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times, last_in_time

ROUNDING = 1e-6  # by which margins in single precision, as exported policies have, may differ


class Records(NamedTuple):
    """Margins at which the first stop of some path changes; (R,) each.

    Falling below `value`, the threshold adds `caught` caught paths and `time_left` to the sum of
    their times to event.
    """

    value: Tensor
    caught: Tensor
    time_left: Tensor
    path: Tensor  # whose first stop it is


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
    maximum = running_maximum(margin, paths)
    before = maximum.roll(1)
    record = (paths.step == 0) | (maximum > before)
    record &= paths.stopped[paths.path] & (paths.step <= last_in_time(paths)[paths.path])
    rows = record.nonzero().squeeze(-1)
    path, time = paths.path[rows], paths.time[rows].double()
    is_last = torch.ones_like(path, dtype=torch.bool)
    is_last[:-1] = path[1:] != path[:-1]
    event_time = event_times(paths)[path]
    later = torch.where(is_last, event_time, time.roll(-1))
    return Records(maximum[rows].double(), is_last.double(), later - time, path)


def frontier(value: Tensor, caught: Tensor, time_left: Tensor, events: Tensor) -> Frontier:
    """Sweep the threshold over all records with one sort."""
    value, order = value.sort(descending=True)
    return _sweep(value, caught[order], time_left[order], events)


def _sweep(value: Tensor, caught: Tensor, time_left: Tensor, events: Tensor) -> Frontier:
    """Lower the threshold through records in falling order."""
    caught_so_far, time_so_far = caught.cumsum(0), time_left.cumsum(0)
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


def at_levels(curve: Frontier, levels: Tensor) -> Tensor:
    """Return the time to event at the highest threshold that misses no more than each level."""
    rate, time = curve.event_miss_rate.flip(0), curve.time_to_event.flip(0)  # rates now increase
    last = torch.searchsorted(rate, levels + 1e-9, right=True) - 1
    return torch.where(last >= 0, time[last.clamp(min=0)], torch.nan)


def frontier_bands(
    found: Records, stopped: Tensor, levels: Tensor, draws: int, seed: int, coverage: float = 0.9
) -> tuple[Tensor, Tensor]:
    """Return the range of the time to event at each level of missed events, by the bootstrap.

    Stopped paths are drawn with replacement, whole; one sort serves all draws.

    Args:
        found: records of the margins.
        stopped: (P,) bool, which paths are drawn.
        levels: (L,) event-miss rates.
        draws: number of bootstrap samples.
        seed: of the draws.
        coverage: share of the samples between the two bounds.
    """
    value, order = found.value.sort(descending=True)
    caught, time_left = found.caught[order], found.time_left[order]
    path, which = found.path[order], stopped.nonzero().squeeze(-1)
    generator = torch.Generator().manual_seed(seed)
    times = []
    for _ in range(draws):
        drawn = which[torch.randint(len(which), (len(which),), generator=generator)]
        copies = torch.bincount(drawn, minlength=len(stopped)).double()[path]
        curve = _sweep(value, caught * copies, time_left * copies, stopped.sum())
        times.append(at_levels(curve, levels))
    bounds = torch.tensor([0.5 - coverage / 2, 0.5 + coverage / 2], dtype=torch.double)
    low, high = torch.stack(times).nanquantile(bounds, dim=0)
    return low, high


def balanced_margin(margin: Tensor, paths: PathBatch) -> Tensor:
    """Return the threshold b of the highest balanced accuracy (M1), exactly, with one sort.

    A row is stopped at or before iff the running maximum of its path reaches b, so M1 is the
    balanced accuracy of that maximum. Of all b that do equally well, the one in the middle between
    two margins is taken; ∞ if no threshold is better than never to stop.
    """
    found = first_reached(margin, paths)
    return best_balance(found.maximum, found.stop)


class Reached(NamedTuple):
    """Rows that M1 counts; (R,) each."""

    maximum: Tensor  # threshold up to which the row is stopped at or before
    stop: Tensor  # bool: where the expert stopped, or with a lead (M8) should have
    path: Tensor


def first_reached(margin: Tensor, paths: PathBatch) -> Reached:
    """Return the running maxima of the margin on all rows that M1 counts.

    With a required lead, the last row in time is the expert's stop, and later ones do not count;
    an event that no row comes early enough for is a stop that no threshold reaches.
    """
    last = last_in_time(paths)
    stop = paths.stopped[paths.path] & (paths.step == last[paths.path])
    found = Reached(running_maximum(margin, paths), stop, paths.path)
    if paths.lead == 0:
        return found
    kept = paths.step <= last[paths.path]
    lost = (paths.stopped & (last < 0)).nonzero().squeeze(-1)
    never = margin.new_full((len(lost),), -torch.inf)
    return Reached(
        torch.cat([found.maximum[kept], never]),
        torch.cat([stop[kept], torch.ones_like(lost, dtype=torch.bool)]),
        torch.cat([paths.path[kept], lost]),
    )


def best_balance(maximum: Tensor, stop: Tensor) -> Tensor:
    """Return the threshold that tells expert stops from other rows best; see `balanced_margin`."""
    value, order = maximum.double().sort(descending=True)
    caught = stop[order].cumsum(0).double() / stop.sum()
    wrong = (~stop[order]).cumsum(0).double() / (~stop).sum()
    score = caught - wrong
    score[:-1][value[1:] == value[:-1]] = -torch.inf  # equal margins are crossed together
    best = int(score.argmax())
    if not score[best] > 0:
        return value.new_tensor(torch.inf)
    return below(value, best)


def below(value: Tensor, at: int) -> Tensor:
    """Return a threshold that value[at] reaches and no smaller one does, of values that fall.

    It lies well below the value itself, so that rounding does not decide.
    """
    smaller = value[(value < value[at]) & value.isfinite()]
    if len(smaller):
        return (value[at] + smaller[0]) / 2
    return value[at] - ROUNDING * value[at].abs().clamp(min=1)


def running_maximum(margin: Tensor, paths: PathBatch) -> Tensor:
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
