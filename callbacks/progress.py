"""One progress bar for the whole run, a step per epoch."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar
from tqdm.auto import tqdm


class EpochProgressBar(ProgressBar):
    """Counts epochs and shows one validation metric beside its best value.

    Args:
        metric: key of the metric shown.
        label: in front of the bar.
    """

    def __init__(self, metric: str = "val/balanced_accuracy", label: str = "training") -> None:
        super().__init__()
        self.metric, self.label = metric, label
        self._bar: tqdm[Any] | None = None
        self._best = float("-inf")
        self._enabled = True

    def disable(self) -> None:
        """Called by Lightning on all processes but the first."""
        self._enabled = False

    def enable(self) -> None:
        """Undo `disable`."""
        self._enabled = True

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the bar."""
        total = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
        self._bar = tqdm(
            total=total,
            initial=trainer.current_epoch,
            desc=self.label,
            unit="epoch",
            disable=not self._enabled,
            dynamic_ncols=True,
            mininterval=0.5,
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Advance it."""
        if self._bar is None:
            return
        value = trainer.callback_metrics.get(self.metric)
        if value is not None:
            self._best = max(self._best, float(value))
            name = self.metric.rpartition("/")[2].replace("_", " ")
            text = f"{name} {float(value):.3f}, best {self._best:.3f}"
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Close it."""
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Close it."""
        self._close()

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print above the bar."""
        tqdm.write(" ".join(str(arg) for arg in args))

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
