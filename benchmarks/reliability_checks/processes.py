"""Training in two processes that is ended from outside: it goes on to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.reliability_checks.children import SMALL
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios.checkpoints import read_checkpoint

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 60.0  # seconds from the signal to the end, on a busy machine
TWO = (*SMALL, "--trainer.devices=2", "--trainer.max_epochs=30")


def two_processes(trials: int, seed: int) -> Outcome:
    """End a training in two processes by SIGTERM, by Ctrl-C, and by killing one of them."""
    ways = [_terminated, _interrupted, _robbed]
    return count(
        "two_processes", range(seed, seed + trials), lambda one: _ended(ways[one % len(ways)])
    )


def _begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    said = (folder / "said.txt").open("w")
    return subprocess.Popen(
        [sys.executable, "-m", "lit_ios", *words], cwd=folder, stdout=said, stderr=said, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@cache
def _reference() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        if _begin(Path(name), *TWO).wait():
            raise RuntimeError((Path(name) / "said.txt").read_text())
        (last,) = Path(name).rglob("last.ckpt")
        return read_checkpoint(last)


def _terminated(process: subprocess.Popen[str]) -> tuple[int, ...]:
    process.send_signal(signal.SIGTERM)
    return (143,)


def _interrupted(process: subprocess.Popen[str]) -> tuple[int, ...]:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    return (130,)


def _robbed(process: subprocess.Popen[str]) -> tuple[int, ...]:
    for child in _children(process.pid):
        os.kill(child, signal.SIGKILL)
    return (1,)


def _children(parent: int) -> Iterator[int]:
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            yield int(place.parent.name)


def _ended(end: Any) -> str | None:
    wanted = _reference()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = _begin(folder, *TWO)
        while not (found := list(folder.rglob("last.ckpt"))) and process.poll() is None:
            time.sleep(0.02)
        codes = end(process)
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{end.__name__}: has not ended after {LONGEST:g} s"
        said = (folder / "said.txt").read_text()
        if code not in codes or "Traceback" in said or "--ckpt_path" not in said:
            return f"{end.__name__}: ended with {code} and said {said[-1500:]}"
        last = found[0]
        again = [word for word in TWO if word.startswith("--trainer")]
        if _begin(
            folder, "fit", f"--ckpt_path={last}", "--no-baseline", "--no-report", *again
        ).wait():
            return f"{end.__name__}: does not go on: {(folder / 'said.txt').read_text()[-600:]}"
        state = read_checkpoint(last)["state_dict"]
        for key, values in wanted["state_dict"].items():
            if not torch.equal(state[key], values):
                return f"{end.__name__}: {key} differs from the uninterrupted run's"
    return None
