"""Metrics M9 of forecasts of the time left, as torchmetrics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lit_ios.batches import PathBatch
from lit_ios.functional.remaining import TimeLeft, bound_holds, brier_score, time_left
from lit_ios.metrics import _CountingMetric


class RemainingBrier(Metric):
    """M9: Brier score of P(τ − t ≤ h) over rows, weighted for censoring (see `brier_score`).

    Args:
        horizon: h, in the data's unit of time.
        **kwargs: see torchmetrics.Metric.
    """

    full_state_update = False
    higher_is_better = False
    within: list[Tensor]
    elapsed: list[Tensor]
    left: list[Tensor]
    seen: list[Tensor]
    ends: list[Tensor]
    ends_seen: list[Tensor]

    def __init__(self, horizon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.horizon = horizon
        for name in ("within", "elapsed", "left", "seen", "ends", "ends_seen"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, within: Tensor, paths: PathBatch) -> None:
        """Keep the probabilities of all rows and what came; (M,)."""
        rows = time_left(paths)
        self.within.append(within.double())
        for name, values in rows._asdict().items():
            getattr(self, name).append(values)
        self.ends.append((rows.elapsed + rows.left)[paths.last_row])
        self.ends_seen.append(rows.seen[paths.last_row])

    def compute(self) -> Tensor:
        """Return the score; NaN if no row can be judged."""
        rows = TimeLeft(*map(dim_zero_cat, (self.elapsed, self.left, self.seen)))
        ends, seen = dim_zero_cat(self.ends), dim_zero_cat(self.ends_seen)
        return brier_score(dim_zero_cat(self.within), rows, self.horizon, ends, seen)


class BoundCoverage(_CountingMetric):
    """M9: share of rows with at least as much time left as a lower bound says.

    Rows whose bound is NaN do not count. The end of observation counts as the event, as for
    the promise: the true share is no smaller.
    """

    higher_is_better = True
    held: Tensor
    rows: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count("held", "rows")

    def update(self, low: Tensor, paths: PathBatch) -> None:
        """Count rows with a bound, and those at which it holds; (M,)."""
        self.held += bound_holds(low, time_left(paths)).sum()
        self.rows += (~torch.isnan(low)).sum()

    def compute(self) -> Tensor:
        """Return the share."""
        return self._share(self.held, self.rows, "rows with a bound")
