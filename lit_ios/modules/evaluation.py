"""How a module is validated, tested and asked: its rule judges whole paths, nothing else does."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import pytorch_lightning as pl
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from lit_ios.batches import PathBatch
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.functional.outcomes import outcome
from lit_ios.metrics import (
    BalancedThreshold,
    CrossFittedScores,
    UnfamiliarPaths,
    path_metrics,
)
from lit_ios.rule import Decisions, StoppingRule
from lit_ios.rule.unjudged import refuse_unjudged

Margin = Literal["zero", "validated"]


class RuleEvaluation(pl.LightningModule):
    """Measures the rule on whole paths, and chooses its threshold where that is asked for.

    Args:
        margin: `validated` chooses the threshold after each epoch on the validation paths, and
            logs how good such a choice of epoch and threshold is on paths that did not make it.
        metrics: class paths of further metrics by the name they are logged by.
    """

    rule: StoppingRule

    def __init__(self, margin: Margin, metrics: dict[str, str] | None = None) -> None:
        super().__init__()
        self.val_metrics = path_metrics("val/", own=metrics)
        self.test_metrics = path_metrics("test/", frontier=True, own=metrics)
        self.test_unfamiliar = UnfamiliarPaths()
        self.val_threshold = BalancedThreshold() if margin == "validated" else None
        self.val_halves = CrossFittedScores() if margin == "validated" else None
        self.choices: list[list[list[float]]] = []  # of each epoch, what halves of the paths chose
        self._val_margins: list[tuple[Tensor, PathBatch]] = []
        self._exact: StoppingRule | None = None

    def forward(self, batch: PathBatch) -> Decisions:
        """Judge all rows of whole paths, each by the members that may judge its path."""
        return self.rule.scan(batch, batch.judges)

    def on_validation_model_zero_grad(self) -> None:
        """Leave gradients alone: every step begins by clearing them."""

    def validation_step(self, batch: PathBatch, batch_idx: int) -> None:
        """Count this batch's paths, or keep their margins until the threshold is chosen."""
        margin = self(batch).margin
        refuse_unjudged(margin, batch, self.rule.encoder, self._path_names())
        if self._chooses_threshold():
            self.val_threshold.update(margin, batch)  # type: ignore[union-attr]
            self.val_halves.update(margin, batch)  # type: ignore[union-attr]
            self._val_margins.append((margin, batch))
        else:
            self._count(self.val_metrics, margin, batch)

    def _count(self, metrics: MetricCollection, margin: Tensor, batch: PathBatch) -> None:
        """Update metrics; what the first stops came to is found out once for all of them."""
        threshold = self.rule.threshold
        metrics.update(margin, batch, threshold, result=outcome(margin, batch, threshold))

    def _chooses_threshold(self) -> bool:
        trainer = self.trainer
        trains = trainer.state.fn == "fit" and not trainer.sanity_checking
        return self.val_threshold is not None and trains

    def on_validation_epoch_end(self) -> None:
        """Log M1–M4 and M7, at a threshold chosen now if that is asked for."""
        chosen = {}
        if self._chooses_threshold():
            assert self.val_threshold is not None
            assert self.val_halves is not None
            self.rule.threshold.copy_(self.val_threshold.compute())
            self.val_threshold.reset()
            for margin, batch in self._val_margins:
                self._count(self.val_metrics, margin, batch)
            self._val_margins.clear()
            self.choices.append(self.val_halves.compute().tolist())
            self.val_halves.reset()
            chosen = {
                "val/threshold": self.rule.threshold.clone(),
                "val/cross_fitted_accuracy": torch.tensor(honest_score(self.choices)),
            }
        self.log_once(self.val_metrics.compute() | chosen)
        self.val_metrics.reset()

    def test_step(self, batch: PathBatch, batch_idx: int) -> None:
        """Count this batch's paths."""
        decided = self._judge(self.rule, batch)
        self._count(self.test_metrics, decided.margin, batch)
        assert decided.responsible is not None
        self.test_unfamiliar.update(decided.responsible, batch)

    def on_test_epoch_end(self) -> None:
        """Log M1–M5 and M7, and how many paths are unlike those of training."""
        strange = {"test/unfamiliar_paths": self.test_unfamiliar.compute()}
        self.log_dict(self.test_metrics.compute() | strange)
        self.test_metrics.reset()
        self.test_unfamiliar.reset()

    def on_predict_start(self) -> None:
        """Predict in double precision, as a deployed policy does."""
        self._exact = copy.deepcopy(self.rule).double().eval()

    def predict_step(self, batch: PathBatch, batch_idx: int) -> tuple[PathBatch, Decisions]:
        """Return the paths and what the rule says of each of their rows."""
        return batch, self._judge(self._exact or self.rule, batch)

    def _judge(self, rule: StoppingRule, batch: PathBatch) -> Decisions:
        """Judge rows in detail, gaps filled as the data ask for; refuse what cannot be judged."""
        data = getattr(self._trainer, "datamodule", None)  # there may be neither
        missing = getattr(data, "filling", None)
        decided = rule.scan(batch, batch.judges, details=True, missing=missing)
        refuse_unjudged(decided.margin, batch, rule.encoder, self._path_names())
        return decided

    def _path_names(self) -> Sequence[str] | None:
        """Return the names of the paths that are judged; None where the loader is not ours."""
        trainer = self._trainer
        if trainer is None:
            return None
        loader = trainer.val_dataloaders
        if trainer.testing or trainer.predicting:
            loader = trainer.test_dataloaders if trainer.testing else trainer.predict_dataloaders
        paths = getattr(loader, "paths", None)
        return None if paths is None else paths.names

    def on_predict_end(self) -> None:
        """Drop the copy."""
        self._exact = None

    def log_once(self, values: dict[str, Tensor]) -> None:
        """Log values that are the same on all processes, once an epoch."""
        if self.trainer.state.fn != "fit" or self.trainer.sanity_checking:
            self.log_dict(values)
            return
        # while training, self.log would take as long as a step for every few of them
        self.trainer.callback_metrics.update(values)
        for logger in self.loggers:
            logger.log_metrics(
                {name: float(value) for name, value in values.items()}
                | {"epoch": self.current_epoch},
                step=self.global_step,
            )
