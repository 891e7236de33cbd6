"""Processes killed at any moment: nothing is lost, and the run goes on to the bit."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reliability_checks.children import end, fit, resume, start
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios.checkpoints import read_checkpoint, write_checkpoint
from lit_ios.checks import UserError

OTHER_DISK = Path("/dev/shm")


def kills(trials: int, seed: int) -> Outcome:
    """Kill −9 a training at a random moment; the checkpoint must be whole and go on to the bit."""
    return count("kills", range(seed, seed + trials), lambda one: _killed(one, None))


def kills_other_disk(trials: int, seed: int) -> Outcome:
    """Do the same with the temporary folder on another file system."""
    if not OTHER_DISK.is_dir():
        return Outcome(0, 0, f"left out: there is no {OTHER_DISK}")
    seeds = range(seed, seed + trials)
    return count("kills_other_disk", seeds, lambda one: _killed(one, OTHER_DISK))


def terminations(trials: int, seed: int) -> Outcome:
    """Send SIGTERM at a random moment: exit code 143, a sentence how to go on, and to the bit."""
    return count("terminations", range(seed, seed + trials), _terminated)


def kills_while_saving(trials: int, seed: int) -> Outcome:
    """Kill −9 a process that does nothing but save: the file is always one of those written."""
    return count("kills_while_saving", range(seed, seed + trials), _killed_while_saving)


@cache
def reference() -> tuple[dict[str, Any], float]:
    """Return the last checkpoint of the uninterrupted run, and how many seconds it took."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.perf_counter()
        code = end(start(fit(folder), folder / "said.txt"))
        if code:
            raise RuntimeError((folder / "said.txt").read_text())
        seconds = time.perf_counter() - began
        return read_checkpoint(_last(folder)), seconds


def _last(folder: Path) -> Path:
    found = sorted(folder.glob("*/*/version_*/checkpoints/last.ckpt"))
    return found[-1] if found else folder / "none"


def _killed(seed: int, temporary: Path | None) -> str | None:
    wanted, seconds = reference()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = start(fit(folder), folder / "said.txt", temporary)
        time.sleep(rng.uniform(0.1, 1.0) * seconds)
        os.kill(child, signal.SIGKILL)
        end(child)
        return _goes_on(folder, wanted, temporary)


def _goes_on(folder: Path, wanted: dict[str, Any], temporary: Path | None) -> str | None:
    """Say what is wrong with a run that was ended, or with what becomes of it."""
    for file in folder.rglob("*.ckpt"):
        try:
            read_checkpoint(file)
        except UserError as error:
            return f"{file.name} is lost: {error}"
    last = _last(folder)
    work = resume(last) if last.is_file() else fit(folder)
    code = end(start(work, folder / "again.txt", temporary))
    if code:
        return f"going on ended with {code}: {(folder / 'again.txt').read_text()[-300:]}"
    last = _last(folder)  # of a new run if the first was killed before it had saved
    found = read_checkpoint(last)
    for name, values in wanted["state_dict"].items():
        if not torch.equal(found["state_dict"][name], values):
            return f"{name} differs from the uninterrupted run's"
    left = [file.name for file in last.parents[1].rglob("*.tmp")]
    return f"{left[0]} is left over" if left else None


def _terminated(seed: int) -> str | None:
    wanted, seconds = reference()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = start(fit(folder), folder / "said.txt")
        while not _last(folder).is_file():
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.5) * seconds)
        began = time.perf_counter()
        os.kill(child, signal.SIGTERM)
        code, took = end(child), time.perf_counter() - began
        said = (folder / "said.txt").read_text()
        if code == 0:  # it was done
            return None
        if code not in (143, -signal.SIGTERM):  # the latter between training and test
            return f"ended with {code}: {said[-300:]}"
        if code == 143 and "in epoch" in said and "--ckpt_path" not in said:
            return f"does not say how to go on: {said[-300:]}"
        if took > 10:
            return f"took {took:.1f} s to end"
        return _goes_on(folder, wanted, None)


def _killed_while_saving(seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "last.ckpt"
        about = {"format": "lit-ios checkpoint", "version": 1, "rule": {}}
        content = {"lit_ios": about, "state_dict": {}}
        write_checkpoint(content | {"number": torch.full((20_000,), -1)}, file)

        def save() -> None:
            for number in range(10_000):
                write_checkpoint(content | {"number": torch.full((20_000,), number)}, file)

        child = start(save, folder / "said.txt", OTHER_DISK if seed % 2 else None)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        end(child)
        try:
            found = read_checkpoint(file)["number"]
        except UserError as error:
            return str(error)
        if (found != found[0]).any():
            return "two checkpoints in one file"
        write_checkpoint(content, file)
        left = [half.name for half in folder.iterdir() if half.suffix == ".tmp"]
        return f"{left[0]} is left over" if left else None
