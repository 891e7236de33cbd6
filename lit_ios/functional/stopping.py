"""The stop rule and the stopping time it induces: E8, E9."""

from __future__ import annotations

import torch
from torch import Tensor

NEVER = torch.iinfo(torch.int64).max
"""τ̂ of a path the policy does not stop."""


def margin(q: Tensor) -> Tensor:
    """Return by how much stopping beats continuing.

    E8: m(s) = Q(s,0) − Q(s,1); (…, 2) → (…).
    """
    return q[..., 0] - q[..., 1]


def stops(margins: Tensor, threshold: Tensor | float = 0.0) -> Tensor:
    """Say where the policy stops.

    E8: stop iff m ≥ b.
    """
    return margins >= threshold


def stopping_time(stop: Tensor, step: Tensor, path: Tensor, paths: int) -> Tensor:
    """Return the first step at which each path is stopped, `NEVER` if none.

    E9: τ̂ = min{t : m(s_t) ≥ b}.

    Args:
        stop: (N,) decision on each row (E8).
        step: (N,) t within the path.
        path: (N,) which path the row belongs to, 0 … paths − 1.
        paths: number of paths P.
    """
    candidates = torch.where(stop, step, NEVER)
    never = torch.full((paths,), NEVER, dtype=torch.int64, device=stop.device)
    return never.scatter_reduce(0, path, candidates, "amin")


def first_stops(stop: Tensor, step: Tensor, path: Tensor, paths: int) -> Tensor:
    """Mark the row at which each path is stopped first; (N,) bool. See `stopping_time`."""
    return step == stopping_time(stop, step, path, paths)[path]
