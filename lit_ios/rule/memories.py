"""What a path's past leaves behind for Q: nothing, sums along the path, or a recurrent network.

A memory keeps some numbers h for every path, zero before its first row. With several members,
whatever depends on weights has a first axis for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lit_ios.checks import UserError, check_number
from lit_ios.functional import (
    cumulative_gain,
    decayed_sum,
    gru_scan,
    gru_step,
    next_cumulative_gain,
)
from lit_ios.imports import Spec, as_spec, class_path
from lit_ios.rule.layers import Activation, Normalisation, by_blocks, linear, mlp_trunk


class Memory(nn.Module):
    """h_t = F(h_{t−1}, s_t), h_{−1} = 0 (E12).

    Stepping through a path with `advance` must give what `scan` gives for all of its rows;
    `lit_ios.testing.check_memory` checks that.
    """

    width: int  # numbers kept for each path and member
    predicted: int = 0  # how many of them the dynamics predict; the others advance with ŝ′
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

    def scan_and_gain(
        self, state: Tensor, t: Tensor, first_row: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return what `scan` and `gain` do, without computing anything twice."""
        return self.scan(state, t, first_row), self.gain(state)

    def successor(self, h: Tensor, state: Tensor, t: Tensor, predicted: Tensor) -> Tensor:
        """Return h′ at a predicted next row; (…, B, C).

        Args:
            h: (…, B, C) before that row.
            state: (…, B, S) ŝ′.
            t: (B,) number of that row.
            predicted: (…, B, `predicted`) what the dynamics say of it.
        """
        return predicted if self.predicted else self.advance(h, state, t)

    @property
    def pieces(self) -> Sequence[Memory]:
        """The memories it is made of."""
        return (self,)

    def parameters_of(self, part: str) -> Iterable[nn.Parameter]:
        """Return what the optimizer of a part steps."""
        for piece in self.pieces:
            if piece.part == part:
                yield from piece.parameters()


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

    predicted = 1
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

    def scan_and_gain(self, state: Tensor, t: Tensor, first_row: Tensor) -> tuple[Tensor, Tensor]:
        """Return y and g(s)."""
        gain = self.gain(state)
        return self.add_up(gain, t, first_row), gain

    def add_up(self, gain: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Return y of gains that are known; (…, N) → (…, N, 1)."""
        return cumulative_gain(gain, t, first_row, self.gamma)[..., None]


class AccumulateMemory(Memory):
    """h^k_t = λ_k h^k_{t−1} + c_k g_k(s_t), g one network for all k (E12).

    c_k = max(1 − λ_k, 0.02) keeps h of the order of g. What adds up for good (λ = 1) is there
    beside averages over the last 30, 5 and 2 rows.

    Args:
        state_dim: S.
        decays: λ of each number that is kept, in [0, 1].
        hidden: layer sizes of g, which is linear at its end.
        activation: between layers.
        normalisation: before each activation.
        members: number of networks.
    """

    decay: Tensor
    share: Tensor
    label = "what has added up"

    def __init__(
        self,
        state_dim: int,
        decays: Sequence[float] = (1.0, 0.97, 0.8, 0.5),
        hidden: Sequence[int] = (64,),
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        members: int = 1,
    ) -> None:
        if not decays:
            raise UserError("decays must list at least one number")
        for decay in decays:
            check_number("decays", decay, at_least=0, at_most=1)
        super().__init__(len(decays), members)
        self.trunk = mlp_trunk(state_dim, hidden, activation, normalisation, members)
        self.head = linear(hidden[-1], len(decays), members)
        values = torch.tensor(list(decays), dtype=torch.double)
        self.register_buffer("decay", values, persistent=False)
        self.register_buffer("share", (1 - values).clamp_min(0.02), persistent=False)

    def gains(self, state: Tensor) -> Tensor:
        """Return c_k g_k(s); (…, B, C)."""
        gains = by_blocks(lambda rows: self.head(self.trunk(rows)), state)
        return gains * self.share.to(gains.dtype)

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Let what is there decay, and add one row."""
        return h * self.decay.to(h.dtype) + self.gains(state).to(h.dtype)

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Add up along each path."""
        return decayed_sum(self.gains(state), self.decay, first_row)


class GRUMemory(Memory):
    """Gated recurrent units, one layer (E12).

    Args:
        state_dim: S.
        units: numbers that are kept.
        members: number of networks.
    """

    label = "what is remembered"

    def __init__(self, state_dim: int, units: int = 16, members: int = 1) -> None:
        check_number("units", units, above=0)
        super().__init__(units, members)
        self.driven = linear(state_dim, 3 * units, members)
        self.recurrent = linear(units, 3 * units, members)

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Take one row."""
        before = h.to(state.dtype)
        return gru_step(before, self.driven(state), self.recurrent(before)).to(h.dtype)

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Take all rows, the paths side by side."""
        driven = by_blocks(self.driven, state)
        weight: Any = self.recurrent.weight
        bias: Any = self.recurrent.bias
        if self.members > 1:
            return gru_scan(driven, weight, bias, t, first_row)
        return gru_scan(driven[None], weight.mT[None], bias[None, None], t, first_row)[0]


class JoinedMemory(Memory):
    """Several memories side by side; those that the dynamics predict come first.

    Args:
        memories: at least two.
    """

    label = "what is remembered"

    def __init__(self, memories: Sequence[Memory]) -> None:
        super().__init__(sum(memory.width for memory in memories), memories[0].members)
        foretold = [memory.predicted > 0 for memory in memories]
        if foretold != sorted(foretold, reverse=True):
            raise UserError("memories that the dynamics predict must come before the others")
        self.memories = nn.ModuleList(memories)
        self.predicted = sum(memory.predicted for memory in memories)
        self._widths = [memory.width for memory in memories]

    @property
    def pieces(self) -> Sequence[Memory]:
        """The memories."""
        return list(self.memories)  # type: ignore[arg-type]

    def advance(self, h: Tensor, state: Tensor, t: Tensor) -> Tensor:
        """Take one row."""
        own = torch.split(h, self._widths, -1)
        return torch.cat(
            [m.advance(part, state, t) for m, part in zip(self.pieces, own, strict=True)], -1
        )

    def scan(self, state: Tensor, t: Tensor, first_row: Tensor) -> Tensor:
        """Take all rows of whole paths."""
        return torch.cat([memory.scan(state, t, first_row) for memory in self.pieces], -1)

    def gain(self, state: Tensor) -> Tensor | None:
        """Return g(s) of the memory that models it."""
        gains = (memory.gain(state) for memory in self.pieces)
        return next((gain for gain in gains if gain is not None), None)

    def scan_and_gain(
        self, state: Tensor, t: Tensor, first_row: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return what all remember, and g(s) of the memory that models it."""
        found = [memory.scan_and_gain(state, t, first_row) for memory in self.pieces]
        gain = next((gain for _, gain in found if gain is not None), None)
        return torch.cat([h for h, _ in found], -1), gain

    def successor(self, h: Tensor, state: Tensor, t: Tensor, predicted: Tensor) -> Tensor:
        """Return h′: what is predicted, and the others advanced."""
        own = torch.split(h, self._widths, -1)
        parts, used = [], 0
        for memory, part in zip(self.pieces, own, strict=True):
            piece = predicted[..., used : used + memory.predicted]
            parts.append(memory.successor(part, state, t, piece))
            used += memory.predicted
        return torch.cat(parts, -1)


NAMED: dict[str, type[Memory]] = {"accumulate": AccumulateMemory, "gru": GRUMemory}


def memory_spec(given: str | Spec | None) -> Spec | None:
    """Return class and arguments of a memory given by name or class path; None for none."""
    if given is None or given == "none":
        return None
    if isinstance(given, str) and "." not in given:
        if given not in NAMED:
            raise UserError(
                f"memory must be none, {', '.join(NAMED)} or a class path, got {given!r}"
            )
        return {"class_path": class_path(NAMED[given]), "init_args": {}}
    return as_spec("memory", given)
