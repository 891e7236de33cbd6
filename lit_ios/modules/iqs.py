"""IQS, IQS-SMOTE and IQS-CS-SMOTE: inverse soft-Q learning for stopping."""

from __future__ import annotations

from typing import Any

from lit_ios.checks import check_choice, check_number
from lit_ios.functional import Divergence, IQLoss, ValueTerm, iq_loss
from lit_ios.modules.base import StoppingModule
from lit_ios.modules.views import View


class IQS(StoppingModule):
    """Recovers Q by the IQ objective E3 on observed transitions.

    Args:
        divergence: φ of the objective.
        alpha: weight of the χ² term r²/(4α); null means 0.5 for chi2 and no term for the others.
        value_term: form of the value term, E3′.
        stop_target: fixed target of the stop's value, as LS-IQ has for absorbing states; null for
            none.
        **kwargs: see StoppingModule.
    """

    def __init__(
        self,
        *,
        divergence: Divergence = "chi2",
        alpha: float | None = None,
        value_term: ValueTerm = "expert",
        stop_target: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stop_target = stop_target
        check_choice("divergence", divergence, Divergence)
        check_choice("value_term", value_term, ValueTerm)
        check_number("alpha", 1.0 if alpha is None else alpha, above=0)
        self.divergence, self.alpha, self.value_term = divergence, alpha, value_term

    def q_loss(self, view: View) -> IQLoss:
        """Return the IQ objective with V at the view's successors."""
        batch = view.batch
        return iq_loss(
            view.q,
            view.next_value,
            batch.action,
            batch.step,
            batch.synthetic,
            view.weight,
            epsilon=self.rule.epsilon,
            gamma=self.rule.gamma,
            divergence=self.divergence,
            alpha=self.alpha,
            value_term=self.value_term,
            value=view.value,
            stop_target=self.stop_target,
        )
