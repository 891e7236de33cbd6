"""What a run came to: metrics.json, hyper-parameters in TensorBoard, a table on the screen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from scipy.special import stdtrit

from callbacks.hyperparameters import log_hyperparameters
from callbacks.run_folder import run_folder
from callbacks.trackers import run_settings
from callbacks.words import Judged, few_paths, next_steps, time_label, verdict
from lit_ios.checkpoints import read_checkpoint
from lit_ios.data_record import TableColumns
from lit_ios.files import write_json
from lit_ios.promises.binomial import interval

_SHOWN = {  # times are labelled with their unit
    "balanced_accuracy": "balanced accuracy",
    "region_balanced_accuracy": "region balanced accuracy",
    "event_miss_rate": "event-miss rate",
    "false_alarm_rate": "false alarms: share of censored paths",
    "alarms_per_time": "false and early alarms per unit of time",
    "stopped_at_first_row": "stopped at once: share of all paths",
    "time_to_event_mean": "time to event, mean",
    "time_to_event_median": "time to event, median",
    "grid_balanced_accuracy": "balanced accuracy against the true region",
    "grid_iou": "overlap with the true region (IoU)",
}
_CAPTIONS = {
    "frontier": "missed events against time lost, for every threshold",
    "margins": "how the rule judges six test paths",
    "memory": "what the rule remembers, beside what is hidden from it",
}
_UNDEFINED = {
    "false_alarm_rate": "  (none was censored)",
    "time_to_event_mean": "  (nothing was caught)",
    "time_to_event_median": "  (nothing was caught)",
}


class RunSummary(Callback):
    """After testing or validating, writes metrics.json and prints the main metrics."""

    @rank_zero_only
    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Sum up the test."""
        self._sum_up(trainer, pl_module, "test")

    @rank_zero_only
    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Sum up a validation that was asked for, not the ones during training."""
        if trainer.state.fn == "validate":
            self._sum_up(trainer, pl_module, "val")

    def _sum_up(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        logged = sorted(trainer.callback_metrics.items())
        metrics = {name: float(value) for name, value in logged if name.startswith(f"{stage}/")}
        between = _intervals(metrics, stage)
        print(_table(metrics, stage, time_label(_time_columns(trainer)), between))
        print(_sentences(trainer, pl_module, metrics, stage))
        folder = run_folder(trainer)
        if folder is None:
            return
        known: dict[str, Any] = _best_epoch(trainer) | metrics
        ends = _ends(between, stage)
        known |= ends
        write_json(folder / "metrics.json", known)
        for logger in trainer.loggers:
            logger.log_metrics(ends, step=trainer.global_step)
        if isinstance(trainer.logger, TensorBoardLogger):
            settings = dict(pl_module.hparams_initial) | run_settings(trainer, pl_module)
            log_hyperparameters(trainer.logger, settings, metrics)
        print(_places(folder))
        table = _time_columns(trainer)
        print(next_steps(_with_checkpoint(trainer, folder), own_table=bool(table and table.path)))


def _judged(metrics: dict[str, float], stage: str) -> Judged | None:
    """Return how many paths all processes judged; None if the module counts none."""
    paths, stopped = (metrics.get(f"{stage}/{name}") for name in ("paths", "stopped_paths"))
    if paths is None or stopped is None:
        return None
    return Judged(int(paths), int(stopped), {"test": "test", "val": "validation"}[stage])


def _intervals(metrics: dict[str, float], stage: str) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals over paths: exact ones of shares, Student's of the mean time."""
    judged = _judged(metrics, stage)
    if judged is None:
        return {}
    counts = {
        "event_miss_rate": judged.stopped,
        "false_alarm_rate": judged.paths - judged.stopped,
        "stopped_at_first_row": judged.paths,
    }
    values = {name: metrics.get(f"{stage}/{name}", math.nan) for name in (*counts, *_TIME)}
    found = {
        name: interval(round(values[name] * n), n)
        for name, n in counts.items()
        if math.isfinite(values[name])
    }
    mean, error = (values[name] for name in _TIME)
    missed = values["event_miss_rate"]
    caught = round((1 - missed) * judged.stopped) if judged.stopped else 0
    if caught > 1 and math.isfinite(error):
        reach = error * float(stdtrit(caught - 1, 0.975))
        found["time_to_event_mean"] = (mean - reach, mean + reach)
    return found


_TIME = ("time_to_event_mean", "time_to_event_error")


def _ends(between: dict[str, tuple[float, float]], stage: str) -> dict[str, float]:
    """Return the ends of intervals under names of their own."""
    return {
        f"{stage}/{name}_{end}": value
        for name, both in between.items()
        for end, value in zip(("low", "high"), both, strict=True)
    }


def _table(
    metrics: dict[str, float], stage: str, unit: str, between: dict[str, tuple[float, float]]
) -> str:
    labels = {key: label + (unit if "time" in key else "") for key, label in _SHOWN.items()}
    shown = {key: metrics[f"{stage}/{key}"] for key in labels if f"{stage}/{key}" in metrics}
    width = max(len(labels[key]) for key in shown)
    without_stops = math.isnan(shown.get("event_miss_rate", 0.0))
    lines = []
    for key, value in shown.items():
        text = _number(value)
        if key in between:
            text += "  [{:.4g}, {:.4g}]".format(*between[key])
        if math.isnan(value):
            text = "       –" + ("" if without_stops else _UNDEFINED.get(key, ""))
        lines.append(f"  {labels[key]:<{width}}  {text}")
    if without_stops:
        lines.append("  –: not defined, since none of these paths was stopped by the expert")
    title = {"test": "Test paths", "val": "Validation paths"}[stage]
    return "\n".join(["", f"{title}:", *lines, ""])


def _number(value: float) -> str:
    """Return a number in four digits; small ones, such as rates per day, in as many that count."""
    if 0 < abs(value) < 0.01:
        return f"{value:8.3g}"
    return f"{value:8.4f}" if abs(value) < 1000 else f"{value:8.1f}"


def _time_columns(trainer: pl.Trainer) -> TableColumns | None:
    """Return where the times of the data come from."""
    table = getattr(getattr(trainer, "datamodule", None), "table", None)
    return table if isinstance(table, TableColumns) else None


def _sentences(
    trainer: pl.Trainer, pl_module: pl.LightningModule, metrics: dict[str, float], stage: str
) -> str:
    """Return what the metrics mean."""
    judged = _judged(metrics, stage)
    if judged is None:
        return ""
    values = {name.removeprefix(f"{stage}/"): value for name, value in metrics.items()}
    said = [verdict(values, judged, _time_columns(trainer))]
    few = few_paths(_training_stops(trainer, pl_module), judged)
    return "\n".join([*said, *([few] if few else []), ""])


def _training_stops(trainer: pl.Trainer, pl_module: pl.LightningModule) -> int | None:
    """Return how many stopped paths there were to train on; None where this process cannot say."""
    record = getattr(pl_module, "record", None)
    if record is not None:
        return int(record.stops)
    splits = getattr(getattr(trainer, "datamodule", None), "splits", None)
    if splits is None or trainer.world_size > 1:  # a share of the paths only
        return None
    return int(splits.train.stopped.sum())


def _places(folder: Path) -> str:
    lines = [f"  run folder   {folder}"]
    figures = sorted((folder / "figures").glob("*.png"))
    width = max((len(figure.name) for figure in figures), default=0)
    for figure in figures:
        lines.append(f"  figure       {figure.parent}/{figure.name:<{width}}  {_caption(figure)}")
    runs = folder.parents[2] if len(folder.parents) > 2 else folder
    lines.append(f"  curves       tensorboard --logdir {runs}")
    return "\n".join(lines)


def _caption(figure: Path) -> str:
    return f" ({_CAPTIONS[figure.stem]})" if figure.stem in _CAPTIONS else ""


def _with_checkpoint(trainer: pl.Trainer, folder: Path) -> Path:
    """Return the folder, or that of the run that was measured if it has a checkpoint instead."""
    if (folder / "checkpoints").is_dir() or trainer.ckpt_path is None:
        return folder
    measured = Path(trainer.ckpt_path)
    return measured.parents[1] if measured.stem == "best" else measured


def _best_epoch(trainer: pl.Trainer) -> dict[str, Any]:
    """Return which epoch was kept after training, of how many, its validation score and kind."""
    checkpoints = trainer.checkpoint_callback
    score = getattr(checkpoints, "best_model_score", None)
    if checkpoints is None or score is None:
        return {}
    best = Path(checkpoints.best_model_path)  # type: ignore[attr-defined]
    if trainer.ckpt_path is not None:  # the run may have been moved since
        best = Path(trainer.ckpt_path).with_name(best.name)
    known = {"val/balanced_accuracy": float(score), "epochs": trainer.max_epochs}
    if not best.is_file():
        return known | {"best_epoch": math.nan}
    kept = read_checkpoint(best)
    steps = (kept.get("progress") or {}).get("steps", "eager")
    return known | {"best_epoch": kept["epoch"], "compiled_steps": steps != "eager"}
