"""What a path's past leaves behind for Q: nothing, or DO-IQS's cumulative gain.

A memory keeps some numbers h for every path, zero before its first row. With several members,
whatever depends on weights has a first axis for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from lit_ios.functional import cumulative_gain, next_cumulative_gain
from lit_ios.rule.layers import Activation, Normalisation, by_blocks, linear, mlp_trunk


class Memory(nn.Module):
    """h_t = F(h_{t−1}, s_t), h_{−1} = 0 (E12).

    Stepping through a path with `advance` must give what `scan` gives for all of its rows;
    `lit_ios.testing.check_memory` checks that.
    """

    width: int  # numbers kept for each path and member
    predicted: ClassVar[bool] = False  # whether the dynamics predict h′, or it advances with ŝ′
    part: ClassVar[str] = "q"  # whose loss and optimizer train it
    label: ClassVar[str] = "what is remembered"  # in explanations

    def __init__(self, width: int, members: int = 1) -> None:
        super().__init__()
        self.width, self.members = width, members

    def init(self, count: int) -> Tensor:
        """Return what B new paths remember; (…, B, C) zeros."""
        shape = (count, self.width) if self.members == 1 else (self.members, count, self.width)
        return torch.zeros(shape, dtype=torch.double)

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Take one row of B paths.

        Args:
            h: (…, B, C) before the row.
            state: (B, S) standardised, or (K, B, S) where members differ in it.
            t: (B,) number of the row in its path, from 0.
        """
        raise NotImplementedError

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Take all rows of whole paths, one below the other; (N, S) → (…, N, C).

        Args:
            state: (N, S) standardised.
            t: (N,) number of the row in its path.
            first_row: (N,) where each row's path begins.
        """
        raise NotImplementedError

    def gain(self, state: Tensor) -> Tensor | None:
        """Return the gain of continuing, g(s), where the memory models it; (…, B)."""
        return None


class NoMemory(Memory):
    """Remembers nothing: decisions depend on the state alone."""

    def __init__(self) -> None:
        super().__init__(0)

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Return nothing."""
        return state[..., :0]

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Return nothing."""
        return state[..., :0]


class GainMemory(Memory):
    """DO-IQS's y_t = Σ_{k≤t} γ^k g(s_k), g a network of its own (E6).

    Args:
        state_dim: S.
        gamma: discount.
        hidden: layer sizes of g, which is linear at its end: gains can be negative.
        activation: between layers.
        normalisation: before each activation.
        members: number of networks.
    """

    predicted = True
    part = "gain"
    label = "gains so far"

    def __init__(
        self,
        state_dim: int,
        gamma: float,
        hidden: Sequence[int] = (64, 64),
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        members: int = 1,
    ) -> None:
        super().__init__(1, members)
        self.gamma = gamma
        self.trunk = mlp_trunk(state_dim, hidden, activation, normalisation, members)
        self.head = linear(hidden[-1], 1, members)

    def gain(self, state: Tensor) -> Tensor:
        """Return g(s); (…, B)."""
        return by_blocks(lambda rows: self.head(self.trunk(rows)), state).squeeze(-1)

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Add the gain of one row."""
        gain = self.gain(state).to(h.dtype)
        return next_cumulative_gain(h[..., 0], gain, t, self.gamma)[..., None]

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Add up the gains along each path."""
        return self.add_up(self.gain(state), t, first_row)

    def add_up(self, gain: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Return y of gains that are known; (…, N) → (…, N, 1)."""
        return cumulative_gain(gain, t, first_row, self.gamma)[..., None]
