"""Which epoch to keep: the best one, the last, or an average, judged on the same runs.

Every run keeps the margins of validation and test paths after each epoch, under the weights as they
are and under their running average, so that all rules are compared on equal terms.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import joblib
import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor
from tqdm import tqdm

import train
from benchmarks.grid import ROOT
from benchmarks.observed import quiet
from lit_ios.batches import PathBatch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.metrics import BalancedAccuracy

RESULTS = ROOT / "benchmarks/results/selection.md"
DECAY = 0.9  # of the running average of weights, per epoch
LAST = 10


class Epoch(NamedTuple):
    """Margins of all validation and test rows."""

    val: Tensor
    test: Tensor


class Recorder(Callback):
    """Keeps the margins of every epoch."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Take the paths."""
        self.val, self.test = (trainer.datamodule.first_paths(part)[0] for part in ("val", "test"))
        self.plain: list[Epoch] = []
        self.averaged: list[Epoch] = []
        self.average: dict[str, Tensor] = {}

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge the paths under both sets of weights."""
        weights = {name: p.detach().clone() for name, p in pl_module.named_parameters()}
        if not self.average:
            self.average = {name: value.clone() for name, value in weights.items()}
        for name, value in weights.items():
            self.average[name].lerp_(value, 1 - DECAY)
        pl_module.eval()
        for chosen, kept in ((weights, self.plain), (self.average, self.averaged)):
            _load(pl_module, chosen)
            with torch.no_grad():
                kept.append(Epoch(pl_module(self.val).margin, pl_module(self.test).margin))
        _load(pl_module, weights)
        pl_module.train()


def _load(module: Any, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(weights[name])


def accuracy(margin: Tensor, batch: PathBatch, threshold: float) -> float:
    """Return M1."""
    metric = BalancedAccuracy()
    metric.update(margin, batch, threshold)
    return float(metric.compute())


def rules(recorder: Recorder) -> dict[str, float]:
    """Return the test accuracy of each rule."""
    found = {}
    for label, epochs in (("", recorder.plain), (", averaged weights", recorder.averaged)):
        chosen = [float(balanced_margin(epoch.val, recorder.val)) for epoch in epochs]
        zero = [accuracy(epoch.val, recorder.val, 0.0) for epoch in epochs]
        own = [
            accuracy(epoch.val, recorder.val, b) for epoch, b in zip(epochs, chosen, strict=True)
        ]

        def test(epoch: int, threshold: float, epochs: list[Epoch] = epochs) -> float:
            return accuracy(epochs[epoch].test, recorder.test, threshold)

        best, best_own = int(np.argmax(zero)), int(np.argmax(own))
        found[f"best epoch, margin 0{label}"] = test(best, 0.0)
        found[f"last epoch, margin 0{label}"] = test(-1, 0.0)
        found[f"best epoch, then its own margin{label}"] = test(best, chosen[best])
        found[f"best epoch with its own margin{label}"] = test(best_own, chosen[best_own])
        found[f"last epoch, its own margin{label}"] = test(-1, chosen[-1])
    val, test_margin = (
        torch.stack([epoch[i] for epoch in recorder.plain[-LAST:]]).mean(0) for i in (0, 1)
    )
    threshold = float(balanced_margin(val, recorder.val))
    found[f"mean margin of the last {LAST} epochs, margin 0"] = accuracy(
        test_margin, recorder.test, 0.0
    )
    found[f"mean margin of the last {LAST} epochs, its own margin"] = accuracy(
        test_margin, recorder.test, threshold
    )
    return found


def run(data: str, variant: str, seed: int, epochs: int, options: tuple[str, ...]) -> Any:
    """Train once; return the data set and what each rule reaches."""
    recorder, fit = Recorder(), pl.Trainer.fit

    def observed(trainer: Any, *args: Any, **kwargs: Any) -> None:
        trainer.callbacks.append(recorder)
        fit(trainer, *args, **kwargs)

    files = (f"configs/data/{data}.yaml", "benchmarks/quiet.yaml", f"configs/model/{variant}.yaml")
    with (
        tempfile.TemporaryDirectory() as folder,
        quiet(),
        patch.object(pl.Trainer, "fit", observed),
    ):
        words = ["fit", *(f"--config={ROOT / name}" for name in files), f"--runs_dir={folder}"]
        words += [f"--seed_everything={seed}", f"--trainer.max_epochs={epochs}", "--threads=1"]
        train.main([*words, *options])
    return data, rules(recorder)


def main() -> None:
    """Run, print the table and keep it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.selection", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--data", nargs="+", default=["CP2", "CP3", "radial", "star"])
    parser.add_argument("--variant", default="iqs", help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=120, help="per run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time (%(default)s)")
    parser.add_argument("--file", type=Path, default=RESULTS, help="table (%(default)s)")
    parser.add_argument("options", nargs="*", help="after --: further options for train.py")
    args = parser.parse_args()
    jobs = [(data, seed) for seed in range(args.seeds) for data in args.data]
    runs = joblib.Parallel(args.processes, return_as="generator_unordered")(
        joblib.delayed(run)(data, args.variant, seed, args.epochs, tuple(args.options))
        for data, seed in jobs
    )
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for data, reached in tqdm(runs, total=len(jobs), unit="run"):
        for rule, value in reached.items():
            found[rule][data].append(value)
    lines = ["| | " + " | ".join(args.data) + " | mean |", "|---" * (len(args.data) + 2) + "|"]
    for rule, values in found.items():
        cells = [values[data] for data in args.data]
        texts = [f"{np.mean(v):.3f} ± {2 * np.std(v, ddof=1):.2f}" for v in cells]
        lines.append(f"| {rule} | " + " | ".join(texts) + f" | {np.mean(cells):.3f} |")
    text = "\n".join(lines)
    print(text)
    args.file.write_text(text + "\n")


if __name__ == "__main__":
    main()
