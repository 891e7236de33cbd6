"""The trade-off between missed events and lost time, exactly, for every threshold: M5."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times
from lit_ios.checks import UserError

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
    maximum = _running_maximum(margin, paths)
    before = maximum.roll(1)
    record = (paths.step == 0) | (maximum > before)
    record &= paths.stopped[paths.path]
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


def cheapest_margin(margin: Tensor, paths: PathBatch, miss_cost: float, time_cost: float) -> Tensor:
    """Return the threshold b of the least cost, exactly, with one sort.

    A missed event costs `miss_cost`; a unit of time between a stop and the event, or the end of a
    censored path, costs `time_cost`.
    """
    everyone = torch.ones_like(paths.stopped)
    ends = torch.where(paths.stopped, event_times(paths), paths.time[paths.last_row].double())
    found = records(margin, paths._replace(stopped=everyone, event_time=ends))
    caught = found.caught * paths.stopped[found.path]
    value, order = found.value.sort(descending=True)
    saved = (miss_cost * caught[order] - time_cost * found.time_left[order]).cumsum(0)
    saved[:-1][value[1:] == value[:-1]] = -torch.inf  # equal margins are crossed together
    best = int(saved.argmax())
    return below(value, best) if saved[best] > 0 else value.new_tensor(torch.inf)


def highest_margins(margin: Tensor, paths: PathBatch) -> Tensor:
    """Return the largest margin of each stopped path: it is caught iff that reaches b; (E,)."""
    highest = torch.full((len(paths.stopped),), -torch.inf, dtype=margin.dtype)
    highest = highest.scatter_reduce(0, paths.path, margin, "amax")
    return highest[paths.stopped]


def conformal_margin(highest: Tensor, level: float) -> Tensor:
    """Return the highest threshold b whose expected event-miss rate is at most `level`.

    Conformal risk control over n calibration paths: (n R(b) + 1)/(n + 1) ≤ α, R being the share
    of them that b misses. The mean miss rate on paths exchangeable with them is then at most α.

    Args:
        highest: (n,) the largest margin of each calibration path.
        level: α in (0, 1).
    """
    n = len(highest)
    allowed = math.floor(level * (n + 1) - 1 + 1e-9)  # of n may be missed
    if allowed < 0:
        raise UserError(
            f"an event-miss rate of {level:g} can be guaranteed with at least "
            f"{events_needed(level)} calibration paths that were stopped; there are {n}"
        )
    exact = highest.sort().values[min(allowed, n - 1)]
    return exact - ROUNDING * exact.abs().clamp(min=1)  # to be reached in single precision too


def events_needed(level: float) -> int:
    """Return how many stopped calibration paths a guaranteed level needs: n + 1 ≥ 1/α."""
    return math.ceil(1 / level - 1e-9) - 1


def balanced_margin(margin: Tensor, paths: PathBatch) -> Tensor:
    """Return the threshold b of the highest balanced accuracy (M1), exactly, with one sort.

    A row is stopped at or before iff the running maximum of its path reaches b, so M1 is the
    balanced accuracy of that maximum. Of all b that do equally well, the one in the middle between
    two margins is taken; ∞ if no threshold is better than never to stop.
    """
    return best_balance(*first_reached(margin, paths))


def first_reached(margin: Tensor, paths: PathBatch) -> tuple[Tensor, Tensor]:
    """Return the threshold up to which each row is stopped at or before, and where experts did."""
    stop = torch.zeros_like(margin, dtype=torch.bool)
    stop[paths.last_row[paths.stopped]] = True
    return _running_maximum(margin, paths), stop


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
    smaller = value[value < value[at]]
    if len(smaller):
        return (value[at] + smaller[0]) / 2
    return value[at] - ROUNDING * value[at].abs().clamp(min=1)


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
