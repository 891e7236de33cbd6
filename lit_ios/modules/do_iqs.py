"""DO-IQS and DO-IQS-LB: the state is augmented by the cumulative gain."""

from __future__ import annotations

import math
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

SMALLEST = 1e-16  # γ^t whose inverse can still be squared in single precision


class DOIQS(ModelBasedIQS):
    """Model-based IQS on s̃ = (s, y), y the discounted sum of learnt gains so far (E6, E7).

    Args:
        gain_target: what the gain network is trained towards, E7.
        gain_gradient: whether Q's loss also trains the gain network, through y (E12).
        **kwargs: see ModelBasedIQS.
    """

    parts: ClassVar[tuple[Part, ...]] = ("dynamics", "q", "gain")

    def __init__(
        self, *, gain_target: GainTarget = "literal", gain_gradient: bool = False, **kwargs: Any
    ) -> None:
        check_choice("gain_target", gain_target, GainTarget)
        super().__init__(**kwargs)
        self.gain_target, self.gain_gradient = gain_target, gain_gradient

    def rule_settings(self) -> dict[str, Any]:
        """Let the rule remember the gains so far, beside what it is told to remember."""
        networks = self.network_settings | {"gamma": self.hparams["gamma"]}
        gains = {"class_path": class_path(GainMemory), "init_args": networks}
        memory = gains if self.memory_spec is None else [gains, self.memory_spec]
        return super().rule_settings() | {"memory": memory}

    def take_over(self, record: DataRecord) -> None:
        """Refuse paths so long that the scaled target has no number."""
        super().take_over(record)
        longest, gamma = record.longest, self.rule.gamma
        if self.gain_target == "scaled" and longest and gamma ** (longest - 1) < SMALLEST:
            rows = int(math.log(SMALLEST) / math.log(gamma)) + 1
            raise UserError(
                f"gain_target: scaled divides by γ^t, which is too small for paths of more than "
                f"{rows} rows at γ = {gamma:g}; the longest has {longest}: set gain_target: "
                "literal, or gamma closer to 1"
            )

    def view(self, batch: TrainBatch) -> GainView:
        """Look at a batch with augmented states."""
        return GainView(self.rule, batch, self.confidence, self.futures, self.gain_gradient)

    def gain_loss(self, view: GainView) -> GainLoss:
        """Return the error of the gain network.

        Where Q's loss trains it too and the parts alternate, its step sees the sum of both: a joint
        update adds them up by itself.
        """
        batch = view.batch
        target = gain_target(
            view.q[..., 1],
            view.next_value,
            view.previous_y,
            batch.step,
            self.rule.gamma,
            self.gain_target,
        )
        loss = gain_loss(view.gain, target.detach(), batch.action, view.weight)
        if self.gain_gradient and self.updates == "alternating":
            loss = loss._replace(total=loss.total + self.q_total(view, {}))
        return loss
