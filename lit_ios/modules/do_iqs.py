"""DO-IQS and DO-IQS-LB: the state is augmented by the cumulative gain."""

from __future__ import annotations

from typing import Any, ClassVar

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError, check_choice
from lit_ios.data_record import DataRecord
from lit_ios.functional import GainLoss, GainTarget, gain_loss, gain_target
from lit_ios.imports import class_path
from lit_ios.modules.learning import Part
from lit_ios.modules.model_based import ModelBasedIQS
from lit_ios.modules.views import GainView
from lit_ios.rule import GainMemory


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

    def rule_settings(self) -> dict[str, Any]:
        """Let the rule remember the gains so far."""
        networks = self.network_settings | {"gamma": self.hparams["gamma"]}
        memory = {"class_path": class_path(GainMemory), "init_args": networks}
        return super().rule_settings() | {"memory": memory}

    def view(self, batch: TrainBatch) -> GainView:
        """Look at a batch with augmented states."""
        return GainView(self.rule, batch, self.confidence)

    def take_over(self, record: DataRecord) -> None:
        """Refuse synthetic rows: they have no history to add up."""
        super().take_over(record)
        if record.synthetic:
            raise UserError(
                "DO-IQS cannot use SMOTE rows, which belong to no path: set "
                "data.init_args.oversampling to bootstrap or none"
            )

    def gain_loss(self, view: GainView) -> GainLoss:
        """Return the error of the gain network."""
        batch = view.batch
        target = gain_target(
            view.q[..., 1],
            view.next_value,
            view.previous_y,
            batch.step,
            self.rule.gamma,
            self.gain_target,
        )
        return gain_loss(view.gain, target.detach(), batch.action, view.weight)
