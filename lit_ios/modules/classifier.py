"""Classifier and Classifier-SMOTE: the baseline."""

from __future__ import annotations

from typing import Any

from lit_ios.batches import TrainBatch
from lit_ios.functional import ClassifierLoss, cross_entropy_loss
from lit_ios.modules.base import StoppingModule
from lit_ios.modules.views import StateView, View


class Classifier(StoppingModule):
    """Predicts the expert's action from the state by cross-entropy; no Bellman equation.

    Q(s, ·) are the logits; `epsilon` is their temperature.

    Args:
        epsilon: temperature of the soft policy at the first epoch.
        **kwargs: see StoppingModule.
    """

    def __init__(self, *, epsilon: float = 1.0, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def view(self, batch: TrainBatch) -> View:
        """Look at a batch without its successors."""
        return StateView(self.rule, batch, self.confidence)

    def q_loss(self, view: View) -> ClassifierLoss:
        """Return the cross-entropy of the policy."""
        return cross_entropy_loss(view.q, view.batch.action, view.weight, self.rule.epsilon)
