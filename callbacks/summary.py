"""What a run came to: metrics.json, hyper-parameters in TensorBoard, a table on the screen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

_SHOWN = {
    "test/balanced_accuracy": "balanced accuracy",
    "test/region_balanced_accuracy": "region balanced accuracy",
    "test/event_miss_rate": "event-miss rate",
    "test/time_to_event_mean": "time to event, mean",
    "test/time_to_event_median": "time to event, median",
    "test/grid_balanced_accuracy": "balanced accuracy against the true region",
    "test/grid_iou": "overlap with the true region (IoU)",
}


class RunSummary(Callback):
    """After testing, writes metrics.json into the run folder and prints the main metrics."""

    @rank_zero_only
    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write and print."""
        metrics = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        metrics = {name: value for name, value in metrics.items() if name.startswith("test/")}
        print(_table(metrics))
        if trainer.log_dir is None:
            return
        folder = Path(trainer.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        finite = {k: (None if math.isnan(v) else v) for k, v in metrics.items()}
        text = json.dumps(finite | _best_epoch(trainer), indent=2) + "\n"
        (folder / "metrics.json").write_text(text)
        _log_hyperparameters(trainer, pl_module, metrics)
        print(_places(folder))


def _table(metrics: dict[str, float]) -> str:
    rows = [(label, f"{metrics[key]:.4f}") for key, label in _SHOWN.items() if key in metrics]
    width = max(len(label) for label, _ in rows)
    lines = [f"  {label:<{width}}  {value:>8}" for label, value in rows]
    return "\n".join(["", "Test paths, best checkpoint:", *lines, ""])


def _places(folder: Path) -> str:
    lines = [f"  run folder   {folder}"]
    figures = sorted((folder / "figures").glob("*.png"))
    lines += [f"  figure       {figure}" for figure in figures]
    lines.append(f"  curves       tensorboard --logdir {folder.parents[2]}")
    return "\n".join(lines)


def _best_epoch(trainer: pl.Trainer) -> dict[str, Any]:
    """Which epoch the checkpoint tested comes from, and its validation score."""
    callback = trainer.checkpoint_callback
    score = getattr(callback, "best_model_score", None)
    if score is None:
        return {}
    return {"val/balanced_accuracy": float(score), "epochs": trainer.current_epoch}


def _log_hyperparameters(
    trainer: pl.Trainer, pl_module: pl.LightningModule, metrics: dict[str, float]
) -> None:
    """Put hyper-parameters beside the final metrics in TensorBoard's HPARAMS tab."""
    if not isinstance(trainer.logger, TensorBoardLogger):
        return
    datamodule = getattr(trainer, "datamodule", None)
    values = dict(pl_module.hparams)
    for name in ("name", "oversampling", "ratio", "batch_size", "batch_by", "seed"):
        if hasattr(datamodule, name):
            values[f"data/{name}"] = getattr(datamodule, name)
    values = {
        k: v if isinstance(v, int | float | str | bool) else str(v) for k, v in values.items()
    }
    trainer.logger.log_hyperparams(values, metrics)
