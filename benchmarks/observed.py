"""Runs through train.py's own path, timed and compared from within."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

import train
from benchmarks import machine
from benchmarks.raw import RawLoop

ROOT = Path(__file__).resolve().parent.parent


class Observer(Callback):
    """Times the steps of each epoch.

    Args:
        raw: after each epoch also run one of the hand-written loop, timed as well.
    """

    def __init__(self, raw: bool = False) -> None:
        self.epochs: list[float] = []  # seconds from the start of an epoch to its last batch
        self.cpu_epochs: list[float] = []  # the same, of the processor
        self.whole_epochs: list[float] = []  # the processor's, with what follows the last batch
        self._begun: float | None = None
        self.raw_epochs: list[float] | None = [] if raw else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Copy the fresh weights."""
        self.raw = RawLoop(pl_module, trainer.datamodule.train_batches())
        self.fit_start = machine.clock()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock."""
        self._end_epoch()
        self.start, self.cpu_start = machine.clock(), time.process_time()

    def _end_epoch(self) -> None:
        now = time.process_time()
        if self._begun is not None:
            self.whole_epochs.append(now - self._begun)
        self._begun = now

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        """Read the clock after the last batch."""
        if not trainer.is_last_batch:
            return
        self.epochs.append(machine.clock() - self.start)
        self.cpu_epochs.append(time.process_time() - self.cpu_start)
        if self.raw_epochs is not None:
            start = machine.clock()
            epsilon, confidence = pl_module.rule.epsilon, pl_module.confidence
            self.raw.epoch(trainer.current_epoch, epsilon, confidence)
            self.raw_epochs.append(machine.clock() - start)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Copy the trained weights."""
        self._end_epoch()
        self.seconds = machine.clock() - self.fit_start
        self.weights = {n: p.detach().clone() for n, p in pl_module.named_parameters()}


def run_train(
    variant: str, epochs: int, *options: str, data: str = "CP1", raw: bool = False
) -> Observer:
    """Train by train.py's own path, without figures."""
    observer = Observer(raw)
    files = (f"configs/data/{data}.yaml", "benchmarks/quiet.yaml", f"configs/model/{variant}.yaml")
    original = pl.Trainer.fit

    def fit(trainer: Any, *args: Any, **kwargs: Any) -> None:
        trainer.callbacks.append(observer)
        original(trainer, *args, **kwargs)

    with tempfile.TemporaryDirectory() as folder, quiet(), patch.object(pl.Trainer, "fit", fit):
        words = ["fit", *(f"--config={ROOT / name}" for name in files), f"--runs_dir={folder}"]
        words += [f"--trainer.accelerator={machine.accelerator()}"]
        train.main([*words, f"--trainer.max_epochs={epochs}", *options])
    return observer


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Print and warn nothing."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
