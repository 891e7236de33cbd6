"""Where a run's results go."""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as pl


def run_folder(trainer: pl.Trainer) -> Path | None:
    """Return the logger's folder, made if need be; None without a logger.

    Unlike `trainer.log_dir` it does not wait for the other processes.
    """
    name = getattr(trainer.logger, "log_dir", None)
    if name is None:
        return None
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
