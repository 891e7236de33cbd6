"""Many settings of one architecture, trained as members of one model in one pass.

Learning rates, ε and γ of members may differ: each is a vector over the members. S settings of K
members each are S·K members, setting by setting. They begin with the weights that a setting alone
begins with, see the same batches and are judged apart, so that each ends as it would alone, but for
rounding. A step of many members costs less than as many steps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.checks import UserError
from lit_ios.data_record import DataRecord
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.metrics import BalancedAccuracy, BalancedThreshold, CrossFittedScores
from lit_ios.modules import StoppingModule
from lit_ios.modules.optimizers import is_element_wise
from lit_ios.tune.space import SCHEDULED, Knob

OWN = ("learning_rate", "learning_rate_decay", "epsilon", "gamma", SCHEDULED)


class Setting(NamedTuple):
    """What may differ between members."""

    learning_rate: float
    learning_rate_decay: float
    epsilon: float
    gamma: float
    epsilon_decay: float


class Outcome(NamedTuple):
    """What a setting came to."""

    score: float
    epochs: int


class _Judged:
    """A setting's validation, and whether its training would have ended."""

    def __init__(self, patience: EarlyStopping | None) -> None:
        self.patience = patience
        self.choices: list[list[list[float]]] = []
        self.is_over = False
        self._best, self._waited = float("-inf"), 0
        self._threshold, self._halves = BalancedThreshold(), CrossFittedScores()
        self._kept: list[tuple[Tensor, PathBatch]] = []

    def update(self, margin: Tensor, batch: PathBatch) -> None:
        """Keep the margins of a batch."""
        self._threshold.update(margin, batch)
        self._halves.update(margin, batch)
        self._kept.append((margin, batch))

    def end_epoch(self) -> None:
        """Choose and measure as `RuleEvaluation` does, and stop as EarlyStopping does."""
        self.choices.append(self._halves.compute().tolist())
        accuracy, threshold = BalancedAccuracy(), self._threshold.compute()
        for margin, batch in self._kept:
            accuracy.update(margin, batch, threshold)
        self._threshold.reset()
        self._halves.reset()
        self._kept.clear()
        if self.patience is None:
            return
        value = float(accuracy.compute())
        if value > self._best + abs(self.patience.min_delta):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        self.is_over = self._waited >= self.patience.patience


class StackedLearning(StoppingModule):
    """Trains settings side by side; mixed into the class of a model by `stack`."""

    settings: list[Setting]
    judged: list[_Judged]
    _scale: list[Tensor]  # of each part's steps, weight by weight

    def prepare(self, data: Any) -> DataRecord:
        """Let every setting see what it would see alone."""
        times = len(self.settings)
        record: DataRecord = data.prepare_for(
            self.members // times, self.bootstrap, self.needs_paths, times
        )
        return record

    def _each(self, values: Iterable[float]) -> Tensor:
        """Return a number of each setting for each of its members; (S·K,)."""
        own = torch.tensor(list(values), dtype=torch.double, device=self.device)
        return own.repeat_interleave(self.members // len(self.settings))

    def on_train_start(self) -> None:
        """Let γ be each member's own."""
        super().on_train_start()
        gamma = self._each(one.gamma for one in self.settings)[:, None]
        dtype = self.rule.epsilon.dtype
        self.rule.gamma = gamma.to(dtype)  # type: ignore[assignment]
        for memory in self.rule.memory.pieces:
            if hasattr(memory, "gamma"):
                memory.gamma = gamma.to(dtype)

    def on_train_epoch_start(self) -> None:
        """Set the schedules of ε and the learning rates."""
        epoch = self.current_epoch
        epsilon = self._each(one.epsilon * one.epsilon_decay**epoch for one in self.settings)
        self.rule.epsilon = epsilon[:, None].to(self.rule.epsilon.dtype)
        rates = self._each(
            one.learning_rate * one.learning_rate_decay**epoch / self.learning_rate
            for one in self.settings
        )
        self._scale = self._flat.spread(rates.to(self._flat.gradient.dtype))

    def _update(
        self,
        loss: Tensor,
        parts: Iterable[int],
        optimizers: list[Any],
        backward: Callable[[Tensor], Any],
    ) -> None:
        """Step at the common rate, then shorten each member's step to its own.

        A step of these optimizers is proportional to the rate, and their state knows none.
        """
        parts = list(parts)
        pieces = [self._flat.pieces[part].detach() for part in parts]
        before = [piece.clone() for piece in pieces]
        super()._update(loss, parts, optimizers, backward)
        for part, piece, old in zip(parts, pieces, before, strict=True):
            torch.lerp(old, piece, self._scale[part], out=piece)

    def validation_step(self, batch: PathBatch, batch_idx: int) -> None:
        """Judge by each setting's own members."""
        q = self.rule.values(*self.rule.remember(batch))
        margins = q[..., 0] - q[..., 1]
        margins = margins.view(len(self.settings), -1, margins.shape[-1])  # (S, K, M)
        for judged, own in zip(self.judged, margins, strict=True):
            if not judged.is_over:
                judged.update(self.rule.combined(own, batch.judges, batch), batch)

    def on_validation_epoch_end(self) -> None:
        """Count the epoch for those that still learn."""
        for judged in self.judged:
            if not judged.is_over:
                judged.end_epoch()
        self.trainer.should_stop = all(judged.is_over for judged in self.judged)

    def outcomes(self) -> list[Outcome]:
        """Return what the settings came to."""
        return [Outcome(honest_score(one.choices), len(one.choices)) for one in self.judged]


def stack(
    model: StoppingModule, settings: list[Setting], patience: EarlyStopping | None
) -> StackedLearning:
    """Return a model that trains settings side by side, from the weights of one.

    Args:
        model: of one setting, as it begins.
        settings: at least one.
        patience: when training ends, alone; None for the last epoch.
    """
    kind = type(f"Stacked{type(model).__name__}", (StackedLearning, type(model)), {})
    known = {name: value for name, value in model.hparams.items() if not name.startswith("_")}
    arguments: dict[str, Any] = copy.deepcopy(known)
    rate = max(one.learning_rate for one in settings)
    stacked: StackedLearning = kind(
        **arguments
        | {
            "members": model.members * len(settings),
            "gamma": min(one.gamma for one in settings),
            "learning_rate": rate,
            "learning_rate_decay": 1.0,
        }
    )
    stacked.settings = settings
    stacked.judged = [_Judged(patience) for _ in settings]
    weights, own = model.rule.state_dict(), stacked.rule.state_dict()
    for name, values in weights.items():
        if own[name].shape != values.shape:
            weights[name] = values.repeat(len(settings), *[1] * (values.ndim - 1))
    stacked.rule.load_state_dict(weights)
    return stacked


def check_stackable(model: StoppingModule, data: Any, callbacks: Iterable[Any]) -> None:
    """Refuse models whose members cannot differ in these settings, or that draw numbers."""
    refused = (
        (not all(is_element_wise(spec) for spec in model._optimizers),
         "an optimizer that treats weights together"),
        (any("lr" in spec["init_args"] for spec in model._optimizers),
         "an optimizer with a learning rate of its own"),
        (bool(getattr(model.hparams, "dynamics_ensemble", False)), "dynamics_ensemble"),
        (bool(getattr(model.hparams, "successor_samples", 0)), "successor_samples"),
        (model.members < 2 or data.folds is None, "a model without folds"),
    )  # fmt: skip
    for found, what in refused:
        if found:
            raise UserError(f"--stacked cannot train {what}: leave it out, or --stacked")
    for callback in callbacks:
        if isinstance(callback, EarlyStopping) and (
            callback.monitor != "val/balanced_accuracy" or callback.mode != "max"
        ):
            raise UserError("--stacked takes EarlyStopping of val/balanced_accuracy alone")


def check_knobs(knobs: Iterable[Knob]) -> None:
    """Refuse settings in which members cannot differ."""
    for knob in knobs:
        if knob.key.rpartition(".")[2] not in OWN:
            raise UserError(
                f"--stacked trains settings side by side that differ in {', '.join(OWN)}: leave "
                f"{knob.name} out of the space, or --stacked"
            )
