"""Cumulative gain, its training target and the gains shown to a user: E6, E7, E10."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lit_ios.functional.values import discount, sum_along_paths

GainTarget = Literal["literal", "residual", "scaled"]


class RecoveredGains(NamedTuple):
    """Gains that explain the policy; not unique, unlike its region."""

    stop: Tensor
    go: Tensor


def cumulative_gain(gain: Tensor, step: Tensor, first_row: Tensor, gamma: float) -> Tensor:
    """Add up the discounted gains along each path, in one pass over all rows.

    E6: y_t = Σ_{k≤t} γ^k g(s_k).

    Args:
        gain: (…, N) g(s) of whole paths, one below the other.
        step: (N,) t = 0, 1, … within each path.
        first_row: (N,) index of the first row of each row's path.
        gamma: discount.
    """
    discounted = gain.double() * discount(gamma, step, torch.double)
    return sum_along_paths(discounted, first_row).to(gain.dtype)


def next_cumulative_gain(y: Tensor, gain: Tensor, step: Tensor, gamma: float) -> Tensor:
    """Advance a live path by one row: y_t = y_{t−1} + γ^t g(s_t) (E6)."""
    return y + gain * discount(gamma, step, gain.dtype)


def gain_target(
    q_continue: Tensor,
    next_value: Tensor,
    previous_y: Tensor,
    step: Tensor,
    gamma: float,
    kind: GainTarget = "literal",
) -> Tensor:
    """Return what the gain network is trained towards.

    E7: `literal` Q(s̃,1) − γ V(ŝ̃') − y⁻; `residual` without y⁻; `scaled` (… − y⁻)/γ^t.

    Args:
        q_continue: (B,) Q(s̃, 1).
        next_value: (B,) V(ŝ̃').
        previous_y: (B,) y⁻_t = y_{t−1}, 0 at t = 0.
        step: (B,) t.
        gamma: discount.
        kind: which target.
    """
    residual = q_continue - gamma * next_value
    if kind == "literal":
        return residual - previous_y
    if kind == "residual":
        return residual
    if kind == "scaled":
        return (residual - previous_y) / discount(gamma, step, residual.dtype)
    raise ValueError(f"kind must be literal, residual or scaled, got {kind!r}")


def recovered_gains(q: Tensor, next_value: Tensor, gamma: float) -> RecoveredGains:
    """Return G(s) = Q(s,0) and g(s) = Q(s,1) − γ V(ŝ') (E10)."""
    return RecoveredGains(stop=q[..., 0], go=q[..., 1] - gamma * next_value)
