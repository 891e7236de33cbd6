"""What ending bad trials early saves and costs.

    python -m benchmarks.pruning --data CP1 fatigue --seeds 3 --trials 20

Trains every trial of a study to its end, as `tune --no-pruning` does, and asks the pruner
afterwards, in the order in which the trials came and in random ones, which of them it would have
ended when. What the search would have tried next instead is not replayed. Prints a line for each
study: the share of epochs that pruning saves, how often the best trial survives it, and by how
much the best score that is left lies below the best of all; means over the orders.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import train
from lit_ios.tune.space import Knob
from lit_ios.tune.study import Claim, Study

SPACE = """
learning_rate: {low: 0.001, high: 0.03, log: true}
learning_rate_decay: {low: 0.96, high: 1.0}
epsilon: {low: 0.01, high: 1.0, log: true}
gamma: {low: 0.8, high: 1.0}
hidden: [[16], [32, 32]]
lags: [0, 4]
"""
SHARED = (
    "--model", "iqs", "--model.init_args.members=4", "--data.init_args.folds=4", "--no-baseline",
    "--data.init_args.batch_size=512", "--trainer.enable_progress_bar=false", "--no-pruning",
)  # fmt: skip
ORDERS = 10


class Trained(NamedTuple):
    """A trial that was trained to its end."""

    score: float
    epochs: int
    curve: dict[int, float]  # score by the epoch at which the pruner is asked


class Replayed(NamedTuple):
    """What pruning does to trials in an order."""

    saved: float  # share of the epochs
    kept: float  # whether the best survives
    lost: float  # of the best score


def main() -> None:
    """Train, replay, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["CP1", "fatigue"])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| data | seed | best score | saved | best survives | score lost |")
    print("|---|---|---|---|---|---|")
    for data in options.data:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            words = ["--data", data, f"--seed_everything={seed}", f"--trials={options.trials}"]
            trials = train_study([*words, f"--trainer.max_epochs={options.epochs}"])
            rng = np.random.default_rng(seed)
            orders = [range(len(trials)), *(rng.permutation(len(trials)) for _ in range(ORDERS))]
            saved, kept, lost = np.mean([replay([trials[i] for i in o]) for o in orders], axis=0)
            best = max(trial.score for trial in trials)
            cells = f"{best:.4f} | {saved:.0%} | {kept:.0%} | {lost:.4f}"
            print(f"| {data} | {seed} | {cells} |", flush=True)


def train_study(words: list[str]) -> list[Trained]:
    """Train trials to their ends."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = Path(folder) / "space.yaml"
        space.write_text(SPACE)
        words = ["tune", *words, *SHARED, f"--space={space}", f"--runs_dir={folder}"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            train.main(words)
        study = Study(next(Path(folder).glob("*/tune/version_0")), (), {})
        return [
            Trained(one.value, one.user_attrs["epochs"], dict(one.intermediate_values))
            for one in study._trials()
            if one.value is not None
        ]


def replay(trials: list[Trained]) -> Replayed:
    """Ask the pruner of a study at which epochs it would have ended which trials."""
    knob = Knob("number", "number", (), 0.0, float(len(trials)))
    epochs, left = 0, []
    with tempfile.TemporaryDirectory() as folder:
        study = Study(Path(folder), [knob], {})
        for trial in trials:
            with study.claim(len(trials)) as claim:
                assert claim is not None
                ended = _ended(study, claim, trial)
                epochs += ended or trial.epochs
                left += [trial.score] if ended is None else []
                study.tell(claim, "complete" if ended is None else "pruned", trial.score)
    best = max(trial.score for trial in trials)
    lost = best - max(left)
    return Replayed(1 - epochs / sum(trial.epochs for trial in trials), float(lost == 0), lost)


def _ended(study: Study, claim: Claim, trial: Trained) -> int | None:
    """Return the epoch after which the pruner ends a trial; None if it lets it be."""
    for epoch, score in sorted(trial.curve.items()):
        if study.should_end(claim, epoch, score):
            return epoch
    return None


if __name__ == "__main__":
    main()
