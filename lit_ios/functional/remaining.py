"""The time left at rows of paths, some of which were not followed to their stop (M9)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times

ROUNDING = 1e-9  # relative error of times that are sums
LEAST_FOLLOWED = 0.1  # share of paths still under observation below which nothing is measured


class TimeLeft(NamedTuple):
    """How long each row's path still lasted; (M,) each."""

    elapsed: Tensor  # since the path began
    left: Tensor  # to the event, or to the last row of a path whose event is not known
    seen: Tensor  # bool: to the event


def time_left(paths: PathBatch) -> TimeLeft:
    """Return the time left at every row, in the data's unit."""
    time, event = paths.time.double(), event_times(paths)
    end = torch.where(event.isfinite(), event, time[paths.last_row])
    left = (end[paths.path] - time).clamp(min=0)
    return TimeLeft(time - time[paths.first_row], left, event.isfinite()[paths.path])


def product_limit(left: Tensor, seen: Tensor, weight: Tensor, times: Tensor) -> Tensor:
    """Return weighted product-limit estimates of P(more than x is left); (…, X).

    S(x) = Π_{y ≤ x} (1 − d(y)/r(y)), d(y) the weight of the events at y, r(y) that of rows with at
    least y left: censoring is taken to be independent of the time left among rows that share
    weight.

    Args:
        left: (N,) time left, or followed.
        seen: (N,) bool: whether an event ended it.
        weight: (…, N) of the rows.
        times: (X,) x.
    """
    known, which = left.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    none = weight.new_zeros(*weight.shape[:-1], len(known))
    at_risk = none.index_add(-1, which, weight).flip(-1).cumsum(-1).flip(-1)
    ended = none.index_add(-1, which, weight * seen)
    going_on = (1 - ended / at_risk.clamp(min=torch.finfo(weight.dtype).tiny)).clamp(0, 1)
    survival = going_on.cumprod(-1)
    at = torch.searchsorted(known, times, right=True)
    return torch.cat([torch.ones_like(survival[..., :1]), survival], -1)[..., at]


def followed(ends: Tensor, seen: Tensor, times: Tensor) -> Tensor:
    """Return the product-limit estimate of P(a path is followed for at least x); (…).

    Where an event and the end of observation coincide, the event comes first.

    Args:
        ends: (P,) elapsed time at which the path's event came, or observation ended.
        seen: (P,) bool: the former.
        times: (…) x.
    """
    cut, count = ends[~seen].unique(return_counts=True)  # type: ignore[no-untyped-call]
    longer = len(ends) - torch.searchsorted(ends.sort().values, cut, right=True)
    share = (longer.double() / (longer + count)).cumprod(0)
    share = torch.cat([torch.ones(1, dtype=torch.double, device=share.device), share])
    return share[torch.searchsorted(cut, times - ROUNDING * times.abs().clamp(min=1))]


def brier_score(
    within: Tensor, rows: TimeLeft, horizon: float, ends: Tensor, seen: Tensor
) -> Tensor:
    """Return the Brier score of P(τ − t ≤ h) over rows, weighted for censoring (M9).

    Rows whose path was neither stopped by t + h nor followed until then tell nothing; those that do
    stand in for them by the weight G(t)/G(min(τ, t + h)), G(x) the share of paths that are
    followed for at least x (`followed`). Censoring is taken to be independent of the paths. Rows
    with G(t + h) < 0.1 are left out. NaN if no row is left.

    Args:
        within: (M,) forecast probabilities.
        rows: what came.
        horizon: h.
        ends: (P,) as for `followed`.
        seen: (P,) as for `followed`.
    """
    slack = ROUNDING * max(1.0, abs(horizon))
    came = rows.seen & (rows.left <= horizon + slack)
    known = rows.seen | (rows.left >= horizon - slack)
    known &= followed(ends, seen, rows.elapsed + horizon) >= LEAST_FOLLOWED
    until = rows.elapsed + torch.where(came, rows.left, horizon)
    weight = followed(ends, seen, rows.elapsed) / followed(ends, seen, until)
    weight = torch.where(known, weight, 0.0)
    return (weight * (within - came.double()).square()).sum() / weight.sum()


def bound_holds(low: Tensor, rows: TimeLeft) -> Tensor:
    """Say at which rows at least as much time was left as a lower bound says (M9); (M,) bool.

    The end of observation counts as the event, which comes no earlier.
    """
    return low <= rows.left + ROUNDING * rows.left.clamp(min=1)
