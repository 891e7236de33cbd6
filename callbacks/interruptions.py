"""A run that must end early: it saves, says how to go on, and ends as schedulers expect.

    SIGTERM           143   a scheduler takes the machine back
    Ctrl-C            130
    time is up         75   EX_TEMPFAIL: not done, try again
    requeue signal     75   of SLURM, 90 s before its time limit, say: the job is put back in line

Signals are noted when they arrive and honoured at the end of the batch that is being trained on,
where the whole state of training is at hand. Several processes agree on it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint

from callbacks.checkpoints import RunCheckpoint
from lit_ios.files import WriteError

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
TIME_IS_UP = 1000  # where the number of a signal stands


class Interrupted(SystemExit):
    """Ends the program: the run is not done."""


class Interruptions(Callback):
    """Ends training after the batch in which a signal comes or the time is up.

    The state of training is written to `last.ckpt`, in the middle of an epoch, too: a run that goes
    on from there ends with the same weights, to the bit.

    Args:
        max_time: of training in this process, DD:HH:MM:SS or arguments of timedelta; None for no
            limit.
        how: returns the command that goes on with a run from its last checkpoint; empty if somebody
            else says it.
        requeue: puts the job back in line when `requeue_signal` comes; None if there is none.
        requeue_signal: that a scheduler sends before it ends the job.
    """

    def __init__(
        self,
        max_time: str | timedelta | dict[str, int] | None = None,
        how: Callable[[Path], str] = lambda last: f"fit --ckpt_path {last}",
        requeue: Callable[[], None] | None = None,
        requeue_signal: int = getattr(signal, "SIGUSR1", 0),
    ) -> None:
        self.limit = None if max_time is None else _seconds(max_time)
        self.how, self.requeue, self.requeue_signal = how, requeue, requeue_signal
        self.received = 0  # number of the signal, or TIME_IS_UP
        self.went_well = False  # for an epoch, or to the end of what is done without training
        self._began, self._began_epoch = 0.0, False
        self._before: dict[int, Any] = {}

    # What is waited for --------------------------------------------------------------------------

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen, instead of Lightning: its way ends with code 0, and nothing is saved."""
        self._began, self.received = time.monotonic(), 0
        self._listen(self._note)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End here after a signal: a test would take time that there is not."""
        self._stop_listening()
        self.limit, self.went_well = None, True  # training is done
        if self._agreed(trainer):
            self._end(trainer, save=False)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Nothing needs saving from here on."""
        self.went_well = True
        self._listen(self._end_at_once)

    on_predict_start = on_test_start

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Know that there was something to validate."""
        self.went_well = True

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen no more."""
        self._stop_listening()

    on_predict_end = on_test_end

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Know that the epoch before was trained in this process; end if it was to be the last."""
        self.went_well |= self._began_epoch
        if self._agreed(trainer) and self._began_epoch and _epoch_is_saved(trainer):
            self._end(trainer, save=False)  # what it came to is in last.ckpt
        self._began_epoch = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        """Save and end, if that is due; after an epoch's last batch its end is waited for.

        A run that goes on from there would skip a part of what Lightning does between two epochs.
        """
        if self._agreed(trainer) and not (trainer.is_last_batch and _saves_epochs(trainer)):
            self._end(trainer, save=True)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let this epoch be saved if it is the last: checkpoints are written after this."""
        if self._agreed(trainer):
            for callback in _timed(trainer):
                callback.save_next = True

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Say how to go on also where something else ends the run."""
        self._stop_listening()
        if isinstance(exception, KeyboardInterrupt | OSError | WriteError) and trainer.training:
            what = "interrupted" if isinstance(exception, KeyboardInterrupt) else "ended"
            self._say(trainer, what)

    # What is done --------------------------------------------------------------------------------

    def _agreed(self, trainer: pl.Trainer) -> bool:
        """Say whether to end; all processes do if one must."""
        if self.limit is not None and not self.received:
            over = time.monotonic() - self._began >= self.limit
            self.received = TIME_IS_UP if over else 0
        if trainer.world_size > 1:
            known = torch.tensor(self.received, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(known, op=torch.distributed.ReduceOp.MAX)
            self.received = int(known)
        return self.received != 0

    def _end(self, trainer: pl.Trainer, save: bool) -> None:
        last = last_checkpoint(trainer)
        if save and last is not None:
            trainer.save_checkpoint(last)
        queued = self.received == self.requeue_signal and self.requeue is not None
        if queued and trainer.is_global_zero:
            assert self.requeue is not None
            self.requeue()
        self._say(trainer, _reason(self.received))
        raise Interrupted(exit_code(self.received))

    def _say(self, trainer: pl.Trainer, why: str) -> None:
        last = last_checkpoint(trainer)
        if not trainer.is_global_zero:
            return
        command = self.how(last) if last is not None and last.is_file() else ""
        go_on = f": go on with  {command}" if command else ""
        print(f"\n{why} in epoch {trainer.current_epoch}{go_on}", flush=True)

    # Signals -------------------------------------------------------------------------------------

    def _listen(self, handler: Callable[[int, FrameType | None], None]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._stop_listening()
        for number in (signal.SIGTERM, signal.SIGINT, self.requeue_signal):
            if number != self.requeue_signal or self.requeue is not None:
                self._before[number] = signal.signal(number, handler)

    def _stop_listening(self) -> None:
        for number, handler in self._before.items():
            if handler is not None and threading.current_thread() is threading.main_thread():
                signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt  # twice: at once
        self.received = number

    def _end_at_once(self, number: int, frame: FrameType | None) -> None:
        raise Interrupted(exit_code(number))


def exit_code(number: int) -> int:
    """Return what the program ends with after a signal, or when its time is up."""
    return 128 + number if number in (signal.SIGTERM, signal.SIGINT) else TRY_AGAIN


def last_checkpoint(trainer: pl.Trainer) -> Path | None:
    """Return the file that a run goes on from: last.ckpt beside its other checkpoints."""
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is not None:
            return Path(callback.dirpath) / "last.ckpt"
    return None


def _timed(trainer: pl.Trainer) -> list[RunCheckpoint]:
    """Return the checkpoints that are not saved after each epoch."""
    found = trainer.checkpoint_callbacks
    return [one for one in found if isinstance(one, RunCheckpoint) and one.every_seconds]


def _epoch_is_saved(trainer: pl.Trainer) -> bool:
    """Say whether checkpoints hold all epochs: the signal may have come after the last was due."""
    return all(callback.saved_epoch == trainer.current_epoch - 1 for callback in _timed(trainer))


def _saves_epochs(trainer: pl.Trainer) -> bool:
    """Say whether last.ckpt is written at the end of an epoch in which the run must end."""
    return any(
        isinstance(c, ModelCheckpoint)
        and (c.filename == "last" or c.save_last)
        and c._every_n_epochs == 1
        for c in trainer.checkpoint_callbacks
    )


def _reason(number: int) -> str:
    if number == TIME_IS_UP:
        return "the time is up"
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def _seconds(limit: str | timedelta | dict[str, int]) -> float:
    """Return a length of time as Lightning's trainer takes it, in seconds."""
    from pytorch_lightning.callbacks import Timer

    remaining = Timer(limit).time_remaining()
    assert remaining is not None
    return remaining
