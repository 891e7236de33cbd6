"""DO-IQS and DO-IQS-LB: the state is augmented by the cumulative gain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor, nn

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError, check_choice
from lit_ios.functional import (
    GainLoss,
    GainTarget,
    cumulative_gain,
    discount,
    gain_loss,
    gain_target,
    margin,
    next_cumulative_gain,
)
from lit_ios.modules.base import Part
from lit_ios.modules.model_based import ModelBasedIQS
from lit_ios.modules.outputs import PathOutput
from lit_ios.modules.views import AugmentedView, augment
from lit_ios.networks import Activation, GainNetwork, Normalisation, StoppingNetwork


class DOIQS(ModelBasedIQS):
    """Model-based IQS on s̃ = (s, y), y the discounted sum of learnt gains so far (E6, E7).

    Needs batches of whole paths: `data.init_args.batch_by: paths`.

    Args:
        gain_target: what the gain network is trained towards, E7.
        **kwargs: see ModelBasedIQS.
    """

    parts: ClassVar[tuple[Part, ...]] = ("dynamics", "q", "gain")

    def __init__(self, *, gain_target: GainTarget = "literal", **kwargs: Any) -> None:
        check_choice("gain_target", gain_target, GainTarget)
        super().__init__(**kwargs)
        self.gain_target = gain_target

    @property
    def input_dim(self) -> int:
        """Q takes s̃ = (s, y)."""
        return self.state_dim + 1

    def build_network(
        self, hidden: list[int], activation: Activation, normalisation: Normalisation
    ) -> StoppingNetwork:
        """Make the gain network on s, and Q with its dynamics on s̃."""
        self.gain_network = GainNetwork(
            self.state_dim, hidden, activation, normalisation, self.members
        )
        return super().build_network(hidden, activation, normalisation)

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps."""
        if part == "gain":
            yield from self.gain_network.parameters()
        else:
            yield from super().part_parameters(part)

    def view(self, batch: TrainBatch) -> AugmentedView:
        """Look at a batch with augmented states."""
        return AugmentedView(self, batch)

    def on_train_start(self) -> None:
        """Refuse synthetic rows: they have no history to add up."""
        super().on_train_start()
        if getattr(getattr(self.trainer, "datamodule", None), "synthetic_stops", None) is not None:
            raise UserError(
                "DO-IQS cannot use SMOTE rows, which belong to no path: set "
                "data.init_args.oversampling to bootstrap or none"
            )

    def gain_loss(self, view: AugmentedView) -> GainLoss:
        """Return the error of the gain network."""
        batch = view.batch
        target = gain_target(
            view.q[..., 1],
            view.next_value,
            view.previous_y,
            batch.step,
            self.gamma,
            self.gain_target,
        )
        return gain_loss(view.gain, target.detach(), batch.action, view.weight)

    def evaluate(
        self, state: Tensor, step: Tensor, first_row: Tensor, gains: bool = False
    ) -> PathOutput:
        """Judge all rows of whole paths."""
        gain = self.gain_network(state)
        y = cumulative_gain(gain, step, first_row, self.gamma)
        previous_y = y - gain * discount(self.gamma, step, gain.dtype)
        return self._judge(state, gain, y, previous_y)

    def evaluate_rows(self, state: Tensor, step: Tensor, previous_y: Tensor) -> PathOutput:
        """Judge single rows whose history is summed up in y⁻."""
        gain = self.gain_network(state)
        y = next_cumulative_gain(previous_y, gain, step, self.gamma)
        return self._judge(state, gain, y, previous_y)

    def _judge(self, state: Tensor, gain: Tensor, y: Tensor, previous_y: Tensor) -> PathOutput:
        q = self.network(augment(state, y))
        return PathOutput(q, margin(q), gain=gain, previous_y=previous_y)
