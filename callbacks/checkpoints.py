"""Checkpoints of a run, which may have been moved or be called by another name since."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from lit_ios.checks import UserError, check_number


class RunCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, which also knows its best epoch again in a moved folder.

    Lightning compares the spelling of folders: a resumed run whose folder is spelled otherwise
    would forget the best score, and overwrite the best epoch with a worse one.

    Args:
        every_seconds: an epoch that ends sooner after the last save is not saved: a process that
            is killed loses this time and an epoch at the most. The first epoch, the last one and
            one in which the run is interrupted are saved in any case. 0 saves every epoch.
        **kwargs: see ModelCheckpoint.
    """

    def __init__(self, *, every_seconds: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_number("every_seconds", every_seconds, at_least=0)
        if every_seconds and self.monitor is not None:
            raise UserError(
                f"every_seconds is for checkpoints of the last epoch: with monitor {self.monitor} "
                "the best epoch could be left out"
            )
        self.every_seconds = every_seconds
        self.save_next = False  # whatever the time is
        self.saved_epoch: int | None = None
        self._saved_at = float("-inf")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with a checkpoint of the first epoch."""
        super().on_train_start(trainer, pl_module)
        self.save_next, self.saved_epoch, self._saved_at = False, None, float("-inf")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the epoch, if that is due."""
        if self.every_seconds and not self._due(trainer):
            return
        super().on_train_epoch_end(trainer, pl_module)
        self.save_next, self.saved_epoch = False, trainer.current_epoch
        self._saved_at = time.monotonic()

    def _due(self, trainer: pl.Trainer) -> bool:
        """Say whether an epoch that ends now is saved; processes do what the first one does."""
        epochs, steps = trainer.max_epochs or -1, trainer.max_steps
        ends = 0 < epochs <= trainer.current_epoch + 1 or 0 < steps <= trainer.global_step
        waited = time.monotonic() - self._saved_at >= self.every_seconds
        due = ends or trainer.should_stop or self.save_next or waited
        return due if trainer.world_size == 1 else bool(trainer.strategy.broadcast(due))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state with paths as they are spelled now, none outside of the folder.

        Lightning removes the checkpoints that the state names, also `folder/../../other`.
        """
        if self.dirpath is not None:
            state_dict = self._moved(state_dict, str(self.dirpath))
        super().load_state_dict(state_dict)

    @staticmethod
    def _moved(state: dict[str, Any], folder: str) -> dict[str, Any]:
        def here(path: str) -> str:
            return os.path.join(folder, Path(path).name) if path else path  # spelled as it is

        there = Path(here(state["best_model_path"]) or "nowhere").is_file()
        if not there and state.get("dirpath") != folder:
            return state  # these are the checkpoints of another run: only the best one is taken
        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        moved = {name: here(state[name]) for name in paths}
        best = {here(path): score for path, score in state["best_k_models"].items()}
        return state | moved | {"dirpath": folder, "best_k_models": best}
