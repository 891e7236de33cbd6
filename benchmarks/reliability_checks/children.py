"""Trainings in forked processes, which start at once since everything is imported already."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import train

SMALL = (
    "fit", "--data", "CP1", "--model", "model_based_iqs", "--no-baseline", "--no-report",
    "--data.init_args.paths=30", "--data.init_args.test_paths=8", "--trainer.max_epochs=6",
    "--data.init_args.batch_size=16", "--data.init_args.batches_per_call=2",
    "--model.init_args.hidden=[8]", "--model.init_args.dynamics_error=gaussian",
    "--model.init_args.successor_samples=2",  # draws random numbers in training
    "--trainer.enable_progress_bar=false",
)  # fmt: skip


def start(work: Callable[[], object], said: Path, temporary: Path | None = None) -> int:
    """Do something in a child process; return its number.

    Args:
        work: what the child does; it ends with the exit code of what that raises.
        said: file of what it prints.
        temporary: its folder of temporary files; None for the usual one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    _import_everything()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        where = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(where, 1)
        os.dup2(where, 2)
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        if temporary is not None:
            os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


@cache
def _import_everything() -> None:
    """Train for an epoch, so that no child has to import what that takes."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        fit(Path(name), "--trainer.max_epochs=1")()


def end(child: int) -> int:
    """Wait for a child; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fit(folder: Path, *options: str) -> Callable[[], object]:
    """Return what trains a small model in a folder of runs."""

    def work() -> object:
        with without_figures():
            return train.main([*SMALL, f"--runs_dir={folder}", *options])

    return work


def resume(last: Path) -> Callable[[], object]:
    """Return what goes on with a run."""

    def work() -> object:
        options = [word for word in SMALL[1:] if word.startswith("--trainer")]
        with without_figures():
            return train.main(
                ["fit", f"--ckpt_path={last}", "--no-baseline", "--no-report", *options]
            )

    return work


def without_figures() -> AbstractContextManager[Any]:
    """Draw no figures after the test: they take longer than the training."""
    from callbacks import StoppingFigures

    return patch.object(StoppingFigures, "on_test_end", lambda *_: None)
