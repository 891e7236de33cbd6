"""Model-based IQS, with SMOTE and CS-SMOTE: Q in a learnt world."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call

from lit_ios.batches import TrainBatch
from lit_ios.checks import check_choice
from lit_ios.functional import (
    DynamicsError,
    DynamicsLoss,
    dynamics_loss,
    margin,
    recovered_gains,
    soft_value,
)
from lit_ios.modules.base import Part
from lit_ios.modules.iqs import IQS
from lit_ios.modules.outputs import PathOutput
from lit_ios.modules.views import PredictedView
from lit_ios.networks import Activation, Normalisation, StoppingNetwork


class ModelBasedIQS(IQS):
    """IQS whose objective takes V at the successor predicted by a dynamics head (E5).

    Args:
        dynamics_error: error of the predicted successor; `gaussian` also learns its variance.
        value_aware: add the squared error of the value at the predicted successor.
        **kwargs: see IQS.
    """

    parts: ClassVar[tuple[Part, ...]] = ("dynamics", "q")

    def __init__(
        self,
        *,
        dynamics_error: DynamicsError = "mse",
        value_aware: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice("dynamics_error", dynamics_error, DynamicsError)
        # set first: the network built by the base class depends on them
        self.dynamics_error, self.value_aware = dynamics_error, value_aware
        super().__init__(**kwargs)

    def build_network(
        self, hidden: list[int], activation: Activation, normalisation: Normalisation
    ) -> StoppingNetwork:
        """Make the network with a dynamics head."""
        return StoppingNetwork(
            self.input_dim,
            hidden,
            activation,
            normalisation,
            self.members,
            dynamics=True,
            variance=self.dynamics_error == "gaussian",
        )

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps.

        The trunk belongs to Q, whose step sees the summed gradient of a joint update; when the
        parts alternate, the dynamics train it as well.
        """
        if part == "q" or self.updates == "alternating":
            yield from self.network.trunk.parameters()
        head = self.network.q_head if part == "q" else self.network.dynamics_head
        assert head is not None
        yield from head.parameters()

    def view(self, batch: TrainBatch) -> PredictedView:
        """Look at a batch with predicted successors."""
        return PredictedView(self, batch)

    def dynamics_loss(self, view: PredictedView) -> DynamicsLoss:
        """Return the one-step prediction error."""
        predicted, log_variance = view.successor
        values: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.value_aware:
            values = (self._fixed_value(predicted), self._fixed_value(view.next_state))
        return dynamics_loss(
            predicted,
            view.next_state,
            view.batch.action,
            view.weight,
            error=self.dynamics_error,
            log_variance=log_variance,
            predicted_value=values[0],
            observed_value=values[1],
        )

    def _fixed_value(self, state: Tensor) -> Tensor:
        """V(s) with Q's weights held constant, so that only the dynamics learn from it."""
        weights = {name: p.detach() for name, p in self.network.named_parameters()}
        return soft_value(functional_call(self.network, weights, (state,)), self.epsilon)

    def evaluate(
        self, state: Tensor, step: Tensor, first_row: Tensor, gains: bool = False
    ) -> PathOutput:
        """Judge rows; g(s) = Q(s,1) − γ V(ŝ') (E10)."""
        if not gains:
            return super().evaluate(state, step, first_row)
        features = self.network.trunk(state)
        q = self.network.q_head(features)
        predicted, _ = self.network.successor(state, features)
        recovered = recovered_gains(
            q, soft_value(self.network(predicted), self.epsilon), self.gamma
        )
        return PathOutput(q, margin(q), gain=recovered.go)
