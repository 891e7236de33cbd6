"""Model-based IQS, with SMOTE and CS-SMOTE: Q in a learnt world."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.functional import DynamicsError, DynamicsLoss, dynamics_loss
from lit_ios.modules.iqs import IQS
from lit_ios.modules.learning import Part
from lit_ios.modules.views import Futures, PredictedView
from lit_ios.rule import StoppingRule


class ModelBasedIQS(IQS):
    """IQS whose objective takes V at the successor predicted by a dynamics head (E5).

    Args:
        dynamics_error: error of the predicted successor; `gaussian` also learns its variance.
        value_aware: add the squared error of the value at the predicted successor.
        successor_samples: take the mean of V over this many successors drawn from the predicted
            distribution, instead of V at its mean; needs `dynamics_error: gaussian`.
        dynamics_ensemble: let several members share the mean of their predicted successors.
        **kwargs: see IQS.
    """

    parts: ClassVar[tuple[Part, ...]] = ("dynamics", "q")

    def __init__(
        self,
        *,
        dynamics_error: DynamicsError = "mse",
        value_aware: bool = False,
        successor_samples: int = 0,
        dynamics_ensemble: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice("dynamics_error", dynamics_error, DynamicsError)
        check_number("successor_samples", successor_samples, at_least=0)
        if successor_samples and dynamics_error != "gaussian":
            raise UserError("successor_samples needs dynamics_error: gaussian, to draw from")
        if dynamics_ensemble and kwargs.get("members", 1) < 2:
            raise UserError("dynamics_ensemble needs several members: set members")
        self.futures = Futures(successor_samples, dynamics_ensemble)
        # set first: the rule made by the base class depends on them
        self.dynamics_error, self.value_aware = dynamics_error, value_aware
        super().__init__(**kwargs)

    def rule_settings(self) -> dict[str, Any]:
        """Give the rule a model of what comes next."""
        own = {"dynamics": True, "variance": self.dynamics_error == "gaussian"}
        return super().rule_settings() | own

    def setup(self, stage: str) -> None:
        """Refuse to share predictions between members that leave out different paths."""
        super().setup(stage)
        folds = getattr(getattr(self.trainer, "datamodule", None), "folds", None)
        if stage == "fit" and self.futures.ensemble and folds is not None:
            raise UserError(
                "dynamics_ensemble cannot be used with folds: a member would be validated on paths "
                "that trained the dynamics it shares"
            )

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps.

        The head's features belong to Q, whose step sees the summed gradient of a joint update;
        when the parts alternate, the dynamics train them as well.
        """
        if part != "dynamics":
            yield from super().part_parameters(part)
            return
        if self.updates == "alternating":
            yield from self.rule.head.feature_parameters()
        assert self.rule.dynamics is not None
        yield from self.rule.dynamics.parameters()

    def view(self, batch: TrainBatch) -> PredictedView:
        """Look at a batch with predicted successors."""
        return PredictedView(self.rule, batch, self.confidence, self.futures)

    def dynamics_loss(self, view: PredictedView) -> DynamicsLoss:
        """Return the one-step prediction error."""
        predicted, log_variance = view.prediction
        values: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.value_aware:
            values = (self._fixed_value(view, predicted), self._fixed_value(view, view.observed))
        return dynamics_loss(
            predicted,
            view.observed,
            view.batch.action,
            view.weight,
            error=self.dynamics_error,
            log_variance=log_variance,
            predicted_value=values[0],
            observed_value=values[1],
        )

    def _fixed_value(self, view: PredictedView, successor: Tensor) -> Tensor:
        """V at a successor with the weights held constant, so that only the dynamics learn."""
        weights = {f"rule.{name}": p.detach() for name, p in self.rule.named_parameters()}
        given = (successor, view.h.detach(), view.batch.step)
        return functional_call(_ValueAt(self.rule), weights, given)  # type: ignore[no-any-return]


class _ValueAt(nn.Module):
    """V at a successor, as a function of the rule's weights."""

    def __init__(self, rule: StoppingRule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, successor: Tensor, h: Tensor, t: Tensor) -> Tensor:
        return self.rule.value_at(successor, h, t)
