"""Where a run's results go."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.cli import SaveConfigCallback
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from tensorboard.compat.proto.summary_pb2 import Summary

from callbacks.trackers import run_settings
from lit_ios.files import claim_version, remove_leftovers, write_text

CURVES = {  # the tab CUSTOM SCALARS of TensorBoard: charts, each of the tags that match
    "learning": {
        "balanced accuracy": ["Multiline", ["val/balanced_accuracy", "val/cross_fitted_accuracy"]],
        "missed events and false alarms": [
            "Multiline", ["val/event_miss_rate", "val/false_alarm_rate"],
        ],
        "losses of the parts": ["Multiline", ["train/.*/total"]],
        "terms of the losses": ["Multiline", ["train/.*/(?!total).*"]],
        "schedules": ["Multiline", ["schedule/.*"]],
    },
}  # fmt: skip


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


class EpochLogger(TensorBoardLogger):
    """TensorBoard curves over epochs instead of batches, in a folder that is this run's alone."""

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """Write scalars at the epoch Lightning sends along, in one record: each takes its time."""
        values = dict(metrics)
        epoch = values.pop("epoch", step)
        self._write(
            [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()],
            None if epoch is None else int(epoch),
        )

    @rank_zero_only
    def log_figure(self, tag: str, png: bytes, epoch: int) -> None:
        """Show a figure that is drawn already."""
        width, height = struct.unpack(">II", png[16:24])  # where a PNG file says so
        image = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
        self._write([Summary.Value(tag=tag, image=image)], epoch)

    def _write(self, values: list[Any], epoch: int | None) -> None:
        self.experiment._get_file_writer().add_summary(Summary(value=values), epoch)

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Bring the curves to the disk, too: a run that goes on from there does not repeat them."""
        self.save()

    def _get_next_version(self) -> int:
        """Claim the next folder by making it; other processes are told of it."""
        if getattr(rank_zero_only, "rank", 0) != 0:
            return super()._get_next_version()
        return int(claim_version(self.root_dir).name.removeprefix("version_"))

    def finalize(self, status: str) -> None:
        """Close the curves; say that they cannot be written unless worse has happened."""
        with contextlib.suppress(OSError) if status == "failed" else contextlib.nullcontext():
            super().finalize(status)


class SettingsWriter(SaveConfigCallback):
    """Opens the run folder: all processes know it, and config.yaml is written whole.

    Args:
        began: called with the folder of the runs and that of this run.
        **kwargs: see SaveConfigCallback.
    """

    def __init__(self, *args: Any, began: Callable[[str, Path], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.began = began

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Open the folder, once."""
        if self.already_saved:
            return
        self.already_saved = True
        name = trainer.log_dir  # of the first process, on all of them
        if name is None:
            return
        folder = Path(name)
        if isinstance(trainer.logger, EpochLogger):
            trainer.logger._version = folder.name
        for logger in trainer.loggers[1:]:
            logger.log_hyperparams(run_settings(trainer, pl_module))
        if trainer.is_global_zero:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            write_text(
                folder / self.config_filename, self.parser.dump(self.config, skip_none=False)
            )
            self.began(self.config.runs_dir, folder)
            if stage == "fit" and isinstance(trainer.logger, EpochLogger):
                trainer.logger.experiment.add_custom_scalars(CURVES)


def _say_once(args: threading.ExceptHookArgs, otherwise: Any = threading.excepthook) -> None:
    """Leave out the traceback of a full disk in TensorBoard's thread: the next call raises it."""
    if not (isinstance(args.exc_value, OSError) and "AsyncWriter" in type(args.thread).__name__):
        otherwise(args)


threading.excepthook = _say_once
