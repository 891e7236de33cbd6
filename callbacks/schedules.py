"""Values that change from epoch to epoch, as pure functions of the epoch.

They need no state of their own: a resumed run computes the same values.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback


class ExponentialSchedule(Callback):
    """Sets a buffer of the model to initial · decay^epoch before each epoch and logs it.

    Args:
        buffer: the model's buffer, e.g. `rule.epsilon`; its last word is the name it is logged by.
        initial: value at epoch 0.
        decay: factor from epoch to epoch, in (0, 1].
    """

    def __init__(self, buffer: str, initial: float, decay: float) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"decay must lie in (0, 1], got {decay}")
        self.buffer, self.initial, self.decay = buffer, initial, decay

    def value(self, epoch: int) -> float:
        """Return the value during `epoch`."""
        return self.initial * self.decay**epoch

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set the buffer."""
        pl_module.get_buffer(self.buffer).fill_(self.value(trainer.current_epoch))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log the value."""
        name = f"schedule/{self.buffer.rpartition('.')[2]}"
        pl_module.log_once({name: torch.tensor(self.value(trainer.current_epoch))})


class EpsilonDecay(ExponentialSchedule):
    """Lowers the temperature ε from the model's `epsilon`.

    Args:
        decay: factor from epoch to epoch.
    """

    def __init__(self, decay: float = 0.9999) -> None:
        super().__init__("rule.epsilon", 1.0, decay)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start from the temperature the model was made with."""
        self.initial = float(pl_module.hparams["epsilon"])


class ConfidenceDecay(ExponentialSchedule):
    """Lowers the confidence in synthetic rows: SMOTE with it is CS-SMOTE (E4).

    Args:
        initial: confidence in the first epoch, in [0, 1].
        decay: factor from epoch to epoch.
    """

    def __init__(self, initial: float = 0.99, decay: float = 0.95) -> None:
        if not 0 <= initial <= 1:
            raise ValueError(f"initial must lie in [0, 1], got {initial}")
        super().__init__("confidence", initial, decay)
