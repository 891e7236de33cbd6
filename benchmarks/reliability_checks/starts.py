"""Runs that begin at the same instant: each has a folder of its own."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.reliability_checks.children import end, start
from benchmarks.reliability_checks.outcome import Outcome
from callbacks.run_folder import EpochLogger


def simultaneous_starts(trials: int, seed: int) -> Outcome:
    """Let processes ask for a run folder at the same instant."""
    with tempfile.TemporaryDirectory() as name:
        folder, instant = Path(name), time.time() + 0.5 + 0.01 * trials
        children = [start(_claim(folder, instant), folder / f"{n}.txt") for n in range(trials)]
        codes = [end(child) for child in children]
        claimed = [(folder / f"{n}.txt").read_text().strip() for n in range(trials)]
    shared = trials - len(set(claimed))
    failed = sum(code != 0 for code in codes)
    return Outcome(trials, shared + failed, f"{shared} shared a folder" if shared else "")


def _claim(folder: Path, instant: float) -> object:
    def work() -> None:
        logger = EpochLogger(folder / "runs", "data/variant")
        time.sleep(max(0.0, instant - time.time()))
        print(logger.log_dir)

    return work
