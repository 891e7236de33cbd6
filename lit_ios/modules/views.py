"""One batch under the current weights: quantities computed once, when first asked for.

`joint` updates share one view between the parts; `alternating` updates make a new one after each
optimizer step. With several members, what depends on weights has a first axis for them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError
from lit_ios.functional import confidence_weight, cumulative_gain, soft_value

if TYPE_CHECKING:
    from lit_ios.modules.base import StoppingModule
    from lit_ios.modules.do_iqs import DOIQS


class View:
    """Observed transitions: states and successors as they are in the data."""

    def __init__(self, module: StoppingModule, batch: TrainBatch) -> None:
        self.module, self.batch = module, batch

    @cached_property
    def weight(self) -> Tensor:
        """How much each row counts: its copies, E4, and what each member drew of it."""
        batch, drawn = self.batch, self.module.drawn
        weight = batch.copies * confidence_weight(batch.synthetic, self.module.confidence)
        return weight if drawn is None else weight * drawn[:, batch.path]

    @cached_property
    def state(self) -> Tensor:
        """What Q takes; (B, D)."""
        return self.batch.state

    @cached_property
    def next_state(self) -> Tensor:
        """What was observed next; (B, D)."""
        return self.batch.next_state

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self._q_now_and_next[..., : len(self.state), :]

    @cached_property
    def value(self) -> Tensor:
        """V(s); (B,)."""
        return self._values[..., : len(self.batch.state)]

    @cached_property
    def next_value(self) -> Tensor:
        """V(s'); (B,)."""
        return self._values[..., len(self.batch.state) :]

    @cached_property
    def _q_now_and_next(self) -> Tensor:
        """One pass for both; (2B, 2)."""
        return self.module.network(torch.cat([self.state, self.next_state]))  # type: ignore[no-any-return]

    @cached_property
    def _values(self) -> Tensor:
        """V of both; (2B,)."""
        return soft_value(self._q_now_and_next, self.module.epsilon)


class StateView(View):
    """States alone, for objectives that look at no successor."""

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self.module.network(self.state)  # type: ignore[no-any-return]


class PredictedView(View):
    """Transitions of the learnt world: V is taken at the predicted successor (E5)."""

    @cached_property
    def features(self) -> Tensor:
        """Output of the trunk; (B, H)."""
        return self.module.network.trunk(self.state)  # type: ignore[no-any-return]

    @cached_property
    def q(self) -> Tensor:
        """Q(s, ·); (B, 2)."""
        return self.module.network.q_head(self.features)  # type: ignore[no-any-return]

    @cached_property
    def successor(self) -> tuple[Tensor, Tensor | None]:
        """Predicted successor ŝ' and, if modelled, its log-variance; (B, D)."""
        return self.module.network.successor(self.state, self.features)

    @cached_property
    def _q_now_and_next(self) -> Tensor:
        """Q at s, and at ŝ' held constant; (2B, 2)."""
        following = self.module.network(self.successor[0].detach())
        return torch.cat([self.q, following], dim=-2)


class AugmentedView(PredictedView):
    """States augmented by the cumulative gain: s̃ = (s, y) (E6)."""

    module: DOIQS

    @cached_property
    def gain(self) -> Tensor:
        """g(s); (B,)."""
        return self.module.gain_network(self.batch.state)  # type: ignore[no-any-return]

    @cached_property
    def y(self) -> Tensor:
        """Discounted gains along each path so far; (B,)."""
        if self.batch.first_row is None:
            raise UserError(
                "DO-IQS needs whole paths to add up gains: set data.init_args.batch_by to paths"
            )
        gain = self.gain.detach()
        return cumulative_gain(gain, self.batch.step, self.batch.first_row, self.module.gamma)

    @cached_property
    def state(self) -> Tensor:
        """Augmented state (s, y); (B, D + 1)."""
        return augment(self.batch.state, self.y)

    @cached_property
    def next_state(self) -> Tensor:
        """Augmented successor (s', y'), y' being that of the row below; (B, D + 1)."""
        return augment(self.batch.next_state, self.y.roll(-1, dims=-1))

    @cached_property
    def previous_y(self) -> Tensor:
        """y⁻, zero at a path's first row; (B,)."""
        return torch.where(self.batch.step > 0, self.y.roll(1, dims=-1), 0.0)


def augment(state: Tensor, y: Tensor) -> Tensor:
    """Return s̃ = (s, y); (B, D) and (…, B) → (…, B, D + 1)."""
    return torch.cat([state.expand(*y.shape, -1), y[..., None]], dim=-1)
