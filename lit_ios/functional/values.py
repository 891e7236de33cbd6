"""Soft values, policy and recovered reward: E1, E2."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def soft_value(q: Tensor, epsilon: Tensor | float) -> Tensor:
    """Return the soft value of each state.

    E1: V(s) = ε log Σ_a exp(Q(s,a)/ε); tends to max_a Q(s,a) as ε → 0.

    Args:
        q: (…, 2) values of stopping (a = 0) and continuing (a = 1).
        epsilon: temperature ε > 0.
    """
    stop, go = q.unbind(-1)
    # linear above 40, where log(1 + eˣ) is x to the last bit of a double
    return go + epsilon * softplus((stop - go) / epsilon, threshold=40)


def log_policy(q: Tensor, epsilon: Tensor | float) -> Tensor:
    """Return the log-probabilities of both actions; (…, 2).

    E1: log π(a|s) = (Q(s,a) − V(s))/ε.

    Args:
        q: (…, 2).
        epsilon: temperature, or one of each member; (K, 1).
    """
    if isinstance(epsilon, Tensor) and epsilon.ndim:
        epsilon = epsilon[..., None]
    return (q / epsilon).log_softmax(-1)


def stop_probability(margin: Tensor, epsilon: Tensor | float) -> Tensor:
    """Return the probability of stopping from the margin.

    E1: π(0|s) = σ(m(s)/ε) with m(s) = Q(s,0) − Q(s,1).
    """
    return (margin / epsilon).sigmoid()


def action_value(q: Tensor, action: Tensor) -> Tensor:
    """Pick Q(s, a) of the action taken: (…, 2), (…) of 0 and 1 → (…)."""
    stop, go = q.unbind(-1)
    return torch.where(action > 0, go, stop)


def discount(gamma: float, step: Tensor, dtype: torch.dtype) -> Tensor:
    """Return γ^t; the power of an integer tensor would be float32 whatever is needed."""
    return torch.pow(gamma, step.to(dtype))


def alive(values: Tensor, action: Tensor) -> Tensor:
    """Return a·x, with 0 on stop rows whatever x holds there, NaN included."""
    return values.masked_fill(action <= 0, 0.0)


def recovered_reward(q_taken: Tensor, action: Tensor, next_value: Tensor, gamma: float) -> Tensor:
    """Return the reward that explains Q, by the inverse Bellman operator.

    E2: r(s,a) = Q(s,a) − γ a V(s'). The factor a makes the cemetery worth nothing, whatever
    `next_value` holds for a stop row.

    Args:
        q_taken: (B,) Q(s, a) of the action taken.
        action: (B,) 0 stop, 1 continue.
        next_value: (B,) V(s'), observed or predicted.
        gamma: discount factor.
    """
    return q_taken - gamma * alive(next_value, action)


def sum_along_paths(values: Tensor, first_row: Tensor) -> Tensor:
    """Add up values along each path, in one pass over all rows.

    Double precision, since the sums of the paths before are subtracted.

    Args:
        values: (…, N) of whole paths, one below the other.
        first_row: (N,) index of the first row of each row's path.
    """
    values = values.double()
    running = values.cumsum(-1)
    return running - (running - values)[..., first_row]
