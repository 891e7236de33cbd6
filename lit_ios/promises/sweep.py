"""What every threshold does on paths whose events are known."""

from __future__ import annotations

import copy
from functools import cached_property

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, last_in_time
from lit_ios.functional.frontier import running_maximum


class Sweep:
    """Counts at every threshold there is to choose from, from never stopping to stopping at once.

    Point k stands for all b in (threshold[k + 1], threshold[k]]: they stop the same rows. Point 0,
    b = ∞, stops nothing.

    Args:
        margin: (N,) of all rows.
        paths: these rows belong to, with the required lead (M8).
    """

    def __init__(self, margin: Tensor, paths: PathBatch) -> None:
        self.margin, self.paths = margin.double(), paths
        self.weight = torch.ones(len(paths.stopped), dtype=torch.double)  # (P,) how often it counts
        maximum = running_maximum(self.margin, paths)
        record = (paths.step == 0) | (maximum > maximum.roll(1))
        self._rows = record.nonzero().squeeze(-1)  # where some path's first stop can be
        self._values, self._order = maximum[self._rows].sort(descending=True, stable=True)
        infinity = self.margin.new_full((1,), torch.inf)
        self.threshold = torch.cat([infinity, torch.unique(maximum).flip(0)])  # (K,) falling

    def among(self, which: Tensor) -> Sweep:
        """Return the same thresholds on some of the paths; (P,) bool."""
        return self._weighted(self.weight * which)

    def repeated(self, times: float) -> Sweep:
        """Return the same thresholds as if there were so many times as many paths."""
        return self._weighted(self.weight * times)

    def _weighted(self, weight: Tensor) -> Sweep:
        other = copy.copy(self)
        for name in ("events", "censored", "missed", "false_alarms"):  # of other paths
            other.__dict__.pop(name, None)
        other.weight = weight
        return other

    @cached_property
    def events(self) -> int:
        """Number of stopped paths."""
        return round(float(self.weight[self.paths.stopped].sum()))

    @cached_property
    def censored(self) -> int:
        """Number of censored paths."""
        return round(float(self.weight[~self.paths.stopped].sum()))

    @cached_property
    def missed(self) -> Tensor:
        """Stopped paths that each threshold does not stop in time; (K,)."""
        highest = self.highest(self.in_time)[self.paths.stopped]
        return self.events - self.reached(highest, self.weight[self.paths.stopped])

    @cached_property
    def false_alarms(self) -> Tensor:
        """Censored paths that each threshold stops; (K,)."""
        highest = self.highest(torch.ones_like(self.in_time))[~self.paths.stopped]
        return self.reached(highest, self.weight[~self.paths.stopped])

    @cached_property
    def in_time(self) -> Tensor:
        """Rows at which a stop still catches the event (M8); all of a censored path; (N,) bool."""
        return self.paths.step <= last_in_time(self.paths)[self.paths.path]

    def highest(self, rows: Tensor) -> Tensor:
        """Return the largest margin among these rows of each path, −∞ without any; (P,).

        A path is stopped at one of its first rows up to some row iff that reaches b.
        """
        margin = torch.where(rows, self.margin, -torch.inf)
        lowest = torch.full((len(self.paths.stopped),), -torch.inf, dtype=torch.double)
        return lowest.scatter_reduce(0, self.paths.path, margin, "amax")

    def reached(self, highest: Tensor, of: Tensor) -> Tensor:
        """Add up `of` over the paths whose largest margin reaches each threshold; (…, E) → (…, K).

        Args:
            highest: (E,) largest margins.
            of: (…, E) what each path counts for.
        """
        value, order = highest.sort(descending=True)
        total = torch.nn.functional.pad(of[..., order].cumsum(-1), (1, 0))
        count = torch.searchsorted(-value, -self.threshold, right=True)
        return total[..., count]

    def total(self, stopped: Tensor, never: Tensor) -> Tensor:
        """Add up a number that depends on where each path is stopped first, at each threshold.

        Args:
            stopped: (N,) what a path counts for if its first stop is at this row.
            never: (P,) what it counts for if it is not stopped.

        Returns:
            (K,)
        """
        path = self.paths.path[self._rows]
        value = stopped.double()[self._rows]
        last = torch.ones_like(path, dtype=torch.bool)
        last[:-1] = path[1:] != path[:-1]
        # as b falls, the first stop moves from one record back to the one before it
        before = torch.where(last, never.double()[path], value.roll(-1))
        change = ((value - before) * self.weight[path])[self._order]
        count = torch.searchsorted(-self._values, -self.threshold, right=True)
        so_far = torch.nn.functional.pad(change.cumsum(0), (1, 0))
        return (never.double() * self.weight).sum() + so_far[count]
