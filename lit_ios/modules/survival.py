"""Optimal time to intervention: the hazard of each row by recurrent survival analysis."""

from __future__ import annotations

from typing import Any

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError, check_number
from lit_ios.functional import SurvivalLoss, margin, survival_loss
from lit_ios.modules.base import StoppingModule
from lit_ios.modules.views import StateView, View


class RecurrentSurvival(StoppingModule):
    """Learns the hazard of a stop at each row, and stops where it is high enough.

    A rival of the paper's methods (Damera Venkata and Bhattacharyya, 2022) rather than one of them:
    the hazard σ(m/ε) comes from a recurrent network trained by survival analysis, and the policy
    stops once it exceeds a threshold. `margin: validated` chooses that, and the frontier shows all.

    Args:
        share: weight of the likelihood of the event's time; the rest weighs the probability of
            an event by then.
        memory: what the hazard depends on beside the state.
        epsilon: temperature at the first epoch.
        **kwargs: see StoppingModule.
    """

    def __init__(
        self,
        *,
        share: float = 0.5,
        memory: str | dict[str, Any] | None = "gru",
        epsilon: float = 1.0,
        **kwargs: Any,
    ) -> None:
        check_number("share", share, above=0, at_most=1)
        super().__init__(memory=memory, epsilon=epsilon, **kwargs)
        self.share = share

    @property
    def needs_paths(self) -> bool:
        """Whether batches must be of whole paths: survival is a matter of all rows."""
        return True

    def setup(self, stage: str) -> None:
        """Refuse rows drawn again: every path counts once, by all of its rows."""
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and getattr(data, "oversampling", "none") != "none":
            raise UserError(
                f"{type(self).__name__} takes each path whole and once: set "
                "data.init_args.oversampling to none"
            )

    def view(self, batch: TrainBatch) -> View:
        """Look at a batch without its successors."""
        return StateView(self.rule, batch, self.confidence)

    def q_loss(self, view: View) -> SurvivalLoss:
        """Return the survival loss; paths count as often as the member sees them."""
        batch = view.batch
        weight = 1 - batch.synthetic
        return survival_loss(
            margin(view.q),
            batch.action,
            batch.step,
            view.first_row,
            weight if batch.seen is None else weight * batch.seen,
            epsilon=self.rule.epsilon,
            share=self.share,
        )
