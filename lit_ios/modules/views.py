"""One batch under the current weights: quantities computed once, when first asked for.

`joint` updates share one view between the parts; `alternating` updates make a new one after each
optimizer step. With several members, what depends on weights has a first axis for them.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError
from lit_ios.functional import confidence_weight, soft_value
from lit_ios.rule import GainMemory, StoppingRule, join


class View:
    """Observed transitions: states and successors as they are in the data.

    Args:
        rule: that is being learnt.
        batch: of transitions.
        confidence: in synthetic rows (E4).
    """

    def __init__(self, rule: StoppingRule, batch: TrainBatch, confidence: Tensor) -> None:
        self.rule, self.batch, self.confidence = rule, batch, confidence

    @cached_property
    def weight(self) -> Tensor:
        """How much each row counts: its copies, and E4; (B,) or (K, B)."""
        return self.batch.copies * confidence_weight(self.batch.synthetic, self.confidence)

    @cached_property
    def first_row(self) -> Tensor:
        """Where each row's path begins, for what adds up along paths; (B,)."""
        if self.batch.first_row is None:
            raise UserError(
                "this needs batches of whole paths: set data.init_args.batch_by to auto or paths"
            )
        return self.batch.first_row

    @cached_property
    def h(self) -> Tensor:
        """What the path remembers at each row; (…, B, C)."""
        batch = self.batch
        if self.rule.memory.width == 0:
            return batch.state[:, :0]
        return self.rule.memory.scan(batch.state, batch.step, self.first_row)

    @cached_property
    def next_h(self) -> Tensor:
        """What it remembers at the row after, which is the one below; (…, B, C)."""
        return self.h.roll(-1, dims=-2)

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self._q_now_and_next[..., : self.batch.state.shape[0], :]

    @cached_property
    def value(self) -> Tensor:
        """V(s); (B,)."""
        return self._values[..., : self.batch.state.shape[0]]

    @cached_property
    def next_value(self) -> Tensor:
        """V(s'); (B,)."""
        return self._values[..., self.batch.state.shape[0] :]

    @cached_property
    def _q_now_and_next(self) -> Tensor:
        """One pass for both; (2B, 2). Of whole paths, the row below is the successor."""
        if self.batch.first_row is not None:
            q = self.rule.values(self.batch.state, self.h)
            return torch.cat([q, q.roll(-1, dims=-2)], dim=-2)
        state = torch.cat([self.batch.state, self.batch.next_state])
        return self.rule.values(state, torch.cat([self.h, self.next_h], dim=-2))

    @cached_property
    def _values(self) -> Tensor:
        """V of both; (2B,)."""
        return soft_value(self._q_now_and_next, self.rule.epsilon)


class StateView(View):
    """States alone, for objectives that look at no successor."""

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self.rule.values(self.batch.state, self.h)


class Futures(NamedTuple):
    """How V is taken at the successors that the dynamics predict."""

    samples: int = 0  # drawn from the predicted distribution; 0: its mean
    ensemble: bool = False  # whether members share the mean of their predictions


class PredictedView(View):
    """Transitions of the learnt world: V is taken at the predicted successor (E5).

    Args:
        rule: that is being learnt.
        batch: of transitions.
        confidence: in synthetic rows (E4).
        futures: how V is taken there.
    """

    def __init__(
        self,
        rule: StoppingRule,
        batch: TrainBatch,
        confidence: Tensor,
        futures: Futures = Futures(),  # noqa: B008 (plain values)
    ) -> None:
        super().__init__(rule, batch, confidence)
        self.futures = futures

    @cached_property
    def features(self) -> Tensor:
        """What Q and the dynamics are linear in; (B, H)."""
        return self.rule.head.features(self.batch.state, self.h)

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self.rule.head.values(self.features)

    @cached_property
    def prediction(self) -> tuple[Tensor, Tensor | None]:
        """Predicted successor and, if modelled, its log-variance; (B, D).

        What is remembered is held constant: the dynamics do not train it.
        """
        state, h = self.batch.state, self.h
        if not h.requires_grad:
            return self.rule.predict(state, h, self.features)
        h = h.detach()
        return self.rule.predict(state, h, self.rule.head.features(state, h))

    @cached_property
    def observed(self) -> Tensor:
        """What was observed where the prediction is; (B, D)."""
        known = self.next_h[..., : self.rule.memory.predicted]
        return join(self.batch.next_state, known.detach())

    @cached_property
    def _q_now_and_next(self) -> Tensor:
        """Q at s, and at ŝ' held constant; (2B, 2)."""
        return torch.cat([self.q, self._q_at(self.successor)], dim=-2)

    @cached_property
    def successor(self) -> Tensor:
        """ŝ' and what is predicted of h', held constant; (B, D)."""
        predicted = self.prediction[0].detach()
        if not self.futures.ensemble:
            return predicted
        shared, own = predicted.tensor_split([self.rule.state_dim], dim=-1)
        return torch.cat([shared.mean(0).expand_as(shared), own], dim=-1)

    @cached_property
    def next_value(self) -> Tensor:
        """V(ŝ'), or its mean over successors that are drawn; (B,)."""
        if not self.futures.samples:
            return self._values[..., self.batch.state.shape[0] :]
        log_variance = self.prediction[1]
        assert log_variance is not None
        deviation = (0.5 * log_variance.detach()).exp()
        values = [
            soft_value(
                self._q_at(self.successor + deviation * torch.randn_like(deviation)),
                self.rule.epsilon,
            )
            for _ in range(self.futures.samples)
        ]
        return torch.stack(values).mean(0)

    def _q_at(self, successor: Tensor) -> Tensor:
        return self.rule.values(*self.rule.split(successor, self.h, self.batch.step))


class GainView(PredictedView):
    """States augmented by the cumulative gain (E6).

    Args:
        rule: that is being learnt.
        batch: of transitions.
        confidence: in synthetic rows (E4).
        futures: how V is taken at predicted successors.
        gradient: whether a gradient flows through the cumulative gain into the gain network.
    """

    def __init__(
        self,
        rule: StoppingRule,
        batch: TrainBatch,
        confidence: Tensor,
        futures: Futures = Futures(),  # noqa: B008 (plain values)
        gradient: bool = False,
    ) -> None:
        super().__init__(rule, batch, confidence, futures)
        self.gradient = gradient

    @property
    def memory(self) -> GainMemory:
        """The memory that adds up gains."""
        memory = self.rule.memory.pieces[0]
        assert isinstance(memory, GainMemory)
        return memory

    @cached_property
    def gain(self) -> Tensor:
        """g(s); (B,)."""
        return self.memory.gain(self.batch.state)

    @cached_property
    def h(self) -> Tensor:
        """Discounted gains along each path so far, and what else is remembered; (…, B, C)."""
        state, step = self.batch.state, self.batch.step
        gain = self.gain if self.gradient else self.gain.detach()
        y = self.memory.add_up(gain, step, self.first_row)
        others = self.rule.memory.pieces[1:]
        return torch.cat([y, *(m.scan(state, step, self.first_row) for m in others)], -1)

    @cached_property
    def previous_y(self) -> Tensor:
        """y⁻, zero at a path's first row; (…, B)."""
        return torch.where(self.batch.step > 0, self.h[..., 0].roll(1, dims=-1), 0.0)
