"""Goals: what the best of all thresholds is best at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lit_ios.batches import event_times, last_in_time
from lit_ios.checks import check_number
from lit_ios.promises.base import Promise
from lit_ios.promises.sweep import Sweep


@dataclass(frozen=True)
class Cost(Promise):
    """The least cost on the calibration paths.

    >>> from lit_ios.promises import Cost
    >>> Cost(miss=100, time=1, alarm=20).words
    'least cost: 100 for a missed event, 1 for a unit of time lost, 20 for a false alarm'

    Args:
        miss: of a missed event, or one that is stopped later than the required lead before it.
        time: of a unit of time between a stop and the event, or the end of a censored path.
        alarm: of a censored path that is stopped.
    """

    miss: float
    time: float
    alarm: float = 0.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_number("miss", self.miss, above=0)
        check_number("time", self.time, at_least=0)
        check_number("alarm", self.alarm, at_least=0)

    def price(self, sweep: Sweep, error: float | None) -> Tensor:
        """Return the cost of all paths at each threshold."""
        paths = sweep.paths
        stopped = paths.stopped[paths.path]
        ends = torch.where(paths.stopped, event_times(paths), paths.time[paths.last_row].double())
        lost = self.time * (ends[paths.path] - paths.time.double())
        late = torch.where(sweep.in_time, lost, self.miss)
        at_row = torch.where(stopped, late, self.alarm + lost)
        return sweep.total(at_row, self.miss * paths.stopped)

    @property
    def words(self) -> str:
        """What it is best at."""
        parts = [f"{self.miss:g} for a missed event", f"{self.time:g} for a unit of time lost"]
        parts += [f"{self.alarm:g} for a false alarm"] if self.alarm else []
        return f"least cost: {', '.join(parts)}"


@dataclass(frozen=True)
class Balanced(Promise):
    """The highest balanced accuracy (M1) on the calibration paths.

    >>> from lit_ios.promises import Balanced
    >>> Balanced().words
    'highest balanced accuracy'
    """

    def price(self, sweep: Sweep, error: float | None) -> Tensor:
        """Return 1 − M1 at each threshold."""
        paths = sweep.paths
        steps = last_in_time(paths).clamp(min=0)
        rows = torch.where(paths.stopped, steps, steps + 1).double()  # (P,) continue rows
        passed = torch.minimum(paths.step.double(), rows[paths.path])
        caught = (sweep.in_time & paths.stopped[paths.path]).double()
        total = (rows * sweep.weight).sum().clamp(min=1)
        events = max(sweep.events, 1)
        return 1 - sweep.total(caught / events + passed / total, rows / total) / 2

    @property
    def words(self) -> str:
        """What it is best at."""
        return "highest balanced accuracy"
