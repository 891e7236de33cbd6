"""Checkpoints whose record, weights or state of training is damaged or made up."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.hostile_checks.folders import received
from benchmarks.hostile_checks.outcome import attempts
from benchmarks.hostile_checks.states import COLUMNS, policy
from benchmarks.hostile_checks.trees import damaged, odd
from benchmarks.reliability_checks.children import end, start, without_figures
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.checkpoints import write_checkpoint
from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.program import main
from lit_ios.trajectories import Trajectory, TrajectorySet

SECONDS = 30  # of processor time, after which a trial is given up


@cache
def learnt() -> dict[str, Any]:
    """Return a checkpoint that also holds a calibration and a forecast."""
    used, rng = policy(), np.random.default_rng(0)
    paths = [
        Trajectory(
            rng.normal(size=(8, 2)).cumsum(0), stopped=n % 3 > 0, name=f"p{n}", times=np.arange(8.0)
        )
        for n in range(60)
    ]
    data = TrajectorySet.from_paths(paths, list(COLUMNS))
    used.calibrate(data, max_event_miss_rate=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same paths chose the threshold
        used.learn_forecast(data, horizons=[2, 4.5], allow_known_paths=True)
    return _saved(used)


def _saved(used: StoppingPolicy) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        used.save(Path(folder) / "policy.ckpt")
        return torch.load(Path(folder) / "policy.ckpt", weights_only=True)


def damaged_records(trials: int, seed: int) -> Outcome:
    """Load checkpoints whose record or weights are damaged: refused, or they decide."""
    folder = tempfile.TemporaryDirectory()
    file = Path(folder.name) / "policy.ckpt"

    def attempt(rng: random.Random, number: int) -> str | None:
        known = learnt() if number % 4 == 3 else _saved(policy(number % 4))
        try:
            write_checkpoint(known | _damage(known, rng), file, durable=False)
        except RecursionError:  # no file can be as deep
            return None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return _use(StoppingPolicy.load(file))
            except UserError as error:
                return None if len(str(error).splitlines()) == 1 else "more than a sentence"

    with folder:
        return attempts("damaged_records", trials, seed, attempt)


def _damage(known: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a part of a checkpoint with something wrong in it."""
    if rng.random() < 0.3:
        weights = dict(known["state_dict"])
        name = rng.choice(list(weights))
        if rng.random() < 0.3:
            return {"state_dict": damaged(weights, rng)}
        return {"state_dict": weights | {name: _damaged_tensor(weights[name], rng)}}
    about = dict(known["lit_ios"])
    kept = [name for name in ("calibration", "forecast", "reference") if about.get(name)]
    if not kept or rng.random() < 0.5:
        return {"lit_ios": damaged(about, rng)}
    part = rng.choice(kept)
    made = about[part] = dict(about[part])
    name = rng.choice(list(made))
    tensor = isinstance(made[name], torch.Tensor)
    made[name] = _damaged_tensor(made[name], rng) if tensor else damaged(made[name], rng)
    return {"lit_ios": about}


def _damaged_tensor(values: torch.Tensor, rng: random.Random) -> Any:
    """Return a tensor of another kind, another shape, or with a number that does not belong."""
    what = rng.randrange(6)
    if what == 0:
        return values[None]
    if what == 1:
        return values.to(rng.choice((torch.complex64, torch.int64, torch.bool, torch.float16)))
    if what == 2:
        return -values if values.dtype != torch.bool else ~values
    if what == 3:
        return torch.zeros(1).expand(1 << rng.choice((1, 40)))
    if what == 4:
        return odd(rng)
    made = values.clone().reshape(-1)
    if made.is_floating_point() and len(made):
        made[rng.randrange(len(made))] = rng.choice(
            (float("nan"), float("inf"), -1e300, 0.0, 1e300)
        )
    return made.reshape(values.shape)


def _use(loaded: StoppingPolicy) -> str | None:
    """Decide, forecast and watch; say what came out that cannot be."""
    repr(loaded)
    repr(loaded.calibration and loaded.calibration.words)
    stream = loaded.stream()
    for row in range(3):
        decided = stream.step([0.3 * row] * len(loaded.columns), float(row))
        if not np.isfinite([decided.margin, decided.probability]).all():
            return "a decision that is none"
        if loaded.learnt_forecast is not None:
            left = decided.remaining
            if not (left.low >= 0 and 0 <= left.within(2.0) <= 1 and left.quantile(0.5) >= 0):
                return "a time left that cannot be"
    if loaded._about.get("reference"):
        repr(loaded.monitor().add(0.5, True, 0.5))
    return None


PARTS = (
    "loops", "callbacks", "optimizer_states", "progress", "hyper_parameters", "lr_schedulers",
    "epoch", "global_step", "lit_ios", "state_dict", "pytorch-lightning_version",
)  # fmt: skip


def resumed_states(trials: int, seed: int) -> Outcome:
    """Go on with runs whose state of training is damaged: in a sentence, or to the end."""

    def attempt(rng: random.Random, number: int) -> str | None:
        part, command = rng.choice(PARTS), rng.choice(("fit", "fit", "test"))
        with received() as folder, tempfile.TemporaryDirectory() as name:
            last, said = folder / "checkpoints/last.ckpt", Path(name) / "said.txt"
            content = torch.load(last, weights_only=True)
            content[part] = damaged(_plain(content[part]), rng)
            _name_elsewhere(content, folder, rng)
            kept = folder.parents[2] / "kept.ckpt"
            kept.write_text("mine")
            try:
                write_checkpoint(content, last, durable=False)
            except (RecursionError, TypeError):
                return None
            code = end(start(lambda: _go_on(command, last), said))
            text = said.read_text(errors="replace")
            if not kept.is_file():
                return f"{part}: removed a file outside of the run folder"
            if code in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL):
                return None  # it works, for as long as it was asked to
            if code not in (0, 1) or "Traceback" in text:
                return f"{part}: {command} ended with {code}: {text.strip()[-200:]}"
            return None

    return attempts("resumed_states", trials, seed, attempt)


def _name_elsewhere(content: dict[str, Any], folder: Path, rng: random.Random) -> None:
    """Let the state of a callback name a file above the run folder as a checkpoint of its own."""
    outside = str(folder / "checkpoints" / "../../../../kept.ckpt")
    states = content["callbacks"].values() if isinstance(content["callbacks"], dict) else ()
    for state in states:
        if isinstance(state, dict) and "best_model_path" in state and rng.random() < 0.5:
            score = torch.tensor(-1.0)  # any epoch is better, and takes its place
            state |= {"dirpath": str(folder / "checkpoints"), "best_model_score": score}
            state |= {"kth_best_model_path": outside, "kth_value": score}
            state |= {"best_k_models": {outside: score}, "last_model_path": outside}


def _plain(tree: Any) -> Any:
    """Return a tree of plain dictionaries."""
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    return [_plain(value) for value in tree] if isinstance(tree, list) else tree


def _go_on(command: str, last: Path) -> None:
    used = int(sum(os.times()[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS))
    signal.alarm(10 * SECONDS)
    epochs = ("--trainer.max_epochs=3",) if command == "fit" else ()
    with without_figures():
        sys.exit(
            main([command, "--ckpt_path", str(last), *epochs, "--baseline=false", "--report=false"])
        )
