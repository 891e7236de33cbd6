"""The networks: a trunk with Q and dynamics heads, and the gain network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from lit_ios.checks import UserError, check_choice

Activation = Literal["silu", "relu", "tanh", "gelu"]
Normalisation = Literal["none", "layer"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}

LOG_VARIANCE_RANGE = (-10.0, 5.0)


def mlp_trunk(
    inputs: int, hidden: Sequence[int], activation: Activation, normalisation: Normalisation
) -> nn.Sequential:
    """Build linear layers, each followed by normalisation, if any, and activation."""
    check_choice("activation", activation, Activation)
    check_choice("normalisation", normalisation, Normalisation)
    if not hidden or min(hidden) < 1:
        raise UserError(f"hidden must list at least one positive layer size, got {list(hidden)}")
    layers: list[nn.Module] = []
    for width in hidden:
        layers.append(nn.Linear(inputs, width))
        if normalisation == "layer":
            layers.append(nn.LayerNorm(width))
        layers.append(_ACTIVATIONS[activation]())
        inputs = width
    return nn.Sequential(*layers)


class StoppingNetwork(nn.Module):
    """Q(s, ·), and if `dynamics` the successor ŝ' = s + f(s), on one trunk.

    Args:
        state_dim: D.
        hidden: layer sizes of the trunk.
        activation: between layers.
        normalisation: before each activation.
        dynamics: whether there is a dynamics head (E5).
        variance: whether that head also gives a log-variance.
    """

    def __init__(
        self,
        state_dim: int,
        hidden: Sequence[int],
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        *,
        dynamics: bool = False,
        variance: bool = False,
    ) -> None:
        super().__init__()
        self.state_dim = state_dim
        self.trunk = mlp_trunk(state_dim, hidden, activation, normalisation)
        self.q_head = nn.Linear(hidden[-1], 2)
        outputs = state_dim * (2 if variance else 1)
        self.dynamics_head = nn.Linear(hidden[-1], outputs) if dynamics else None

    def forward(self, state: Tensor) -> Tensor:
        """Return Q(s, ·); (B, D) → (B, 2)."""
        return self.q_head(self.trunk(state))  # type: ignore[no-any-return]

    def successor(self, state: Tensor, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return ŝ' and, if the head has one, its log-variance; (B, D) each."""
        assert self.dynamics_head is not None
        change = self.dynamics_head(features)
        if change.shape[-1] == self.state_dim:
            return state + change, None
        mean, log_variance = change.chunk(2, dim=-1)
        return state + mean, log_variance.clamp(*LOG_VARIANCE_RANGE)


class GainNetwork(nn.Module):
    """g_φ(s), linear at its end: gains can be negative."""

    def __init__(
        self,
        state_dim: int,
        hidden: Sequence[int],
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
    ) -> None:
        super().__init__()
        self.trunk = mlp_trunk(state_dim, hidden, activation, normalisation)
        self.head = nn.Linear(hidden[-1], 1)

    def forward(self, state: Tensor) -> Tensor:
        """Return the gain of continuing; (B, D) → (B,)."""
        return self.head(self.trunk(state)).squeeze(-1)  # type: ignore[no-any-return]
