"""The learnt world: what comes after a state (E5)."""

from __future__ import annotations

from torch import Tensor, nn

from lit_ios.rule.layers import linear

LOG_VARIANCE_RANGE = (-10.0, 5.0)


class Dynamics(nn.Module):
    """ŝ′ = s + f(s), f linear in the head's features.

    Args:
        width: number of features.
        dim: coordinates that are predicted.
        members: number of networks.
        variance: whether a log-variance is predicted as well.
    """

    def __init__(self, width: int, dim: int, members: int = 1, variance: bool = False) -> None:
        super().__init__()
        self.variance = variance
        self.change = linear(width, dim * (2 if variance else 1), members)

    def forward(self, state: Tensor, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return ŝ′ and, if modelled, its log-variance; (…, B, dim) each."""
        change = self.change(features)
        if not self.variance:
            return state + change, None
        mean, log_variance = change.chunk(2, dim=-1)
        return state + mean, log_variance.clamp(*LOG_VARIANCE_RANGE)
