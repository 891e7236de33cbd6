"""How fast training and prediction are, as ratios: `python -m benchmarks.speed --help`.

Everything that is compared is run in turn, in one process or, where starting up is what counts, in
fresh ones; medians are taken, and the figures are written to benchmarks/results/speed.json beside
their goals.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from tqdm import tqdm

import train
from benchmarks import machine
from benchmarks.methods import VARIANTS
from benchmarks.observed import ROOT, Observer, quiet, run_train
from benchmarks.steps import compiled_over_eager
from datamodules import ChangePointData, PathLoader, Splits, TrajectoryDataModule
from lit_ios import modules
from lit_ios.trajectories import TrajectorySet
from lit_ios.variants import find_variant

RESULTS = ROOT / "benchmarks/results/speed.json"
GOALS = {
    "lightning_over_raw": ("at most", 1.25),
    "compiled_over_eager": ("at most", 0.4),
    "do_over_iqs": ("at most", 2.5),
    "path_length_factor": ("at most", 1.3),
    "memory_length_factor": ("at most", 1.3),
    "gru_factor": ("at most", 4.0),
    "auto_factor": ("at most", 6.0),
    "rows_factor": ("at most", 1.1),
    "ensemble_factor": ("at most", 2.0),
    "batch_rows_per_second": ("at least", 1_000_000),
    "package_import_over_torch": ("at most", 0.2),
    "policy_import_over_torch": ("at most", 1.3),
    "predict_over_torch": ("at most", 2.0),
    "cp1_seconds": ("at most", 15.0),
}


Figures = dict[str, Any]


def lightning_over_raw(repeats: int, epochs: int) -> Figures:
    """Time per step through train.py over the hand-written loop, epochs in turn, every variant."""
    ratios, milliseconds, apart = {}, {}, {}
    for variant in tqdm(VARIANTS, desc="lightning_over_raw", unit="variant"):
        pairs: list[tuple[float, float]] = []
        for seed in range(repeats):
            seen = run_train(variant, epochs, f"--seed_everything={seed}", raw=True)
            assert seen.raw_epochs is not None
            pairs += zip(seen.epochs, seen.raw_epochs, strict=True)
        apart[variant] = seen.raw.difference(seen.weights)
        ratios[variant] = median(ours / raw for ours, raw in pairs)
        milliseconds[variant] = [
            1e3 * median(times) / seen.raw.loader.batches for times in zip(*pairs, strict=True)
        ]
    return {
        "lightning_over_raw": ratios,
        "milliseconds_per_step": milliseconds,  # train.py, hand-written loop
        "weight_difference": apart,
    }


class RandomPaths(TrajectoryDataModule):
    """Random numbers cut into paths of one length, nothing held back for tests."""

    name = "random"

    def __init__(self, rows: int, length: int, features: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rows, self.length, self.features = rows, length, features

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns."""
        return tuple(f"x{i}" for i in range(self.features))

    def read_splits(self) -> Splits:
        """Make the same few validation and test paths for every size."""
        paths = [self._paths(n) for n in (self.rows, 20 * self.length, 20 * self.length)]
        return Splits(*paths)

    def _paths(self, rows: int) -> TrajectorySet:
        rng, number = np.random.default_rng(0), rows // self.length
        return TrajectorySet(
            states=rng.standard_normal((rows, self.features)),
            times=np.tile(np.arange(self.length, dtype=float), number),
            offsets=np.arange(number + 1) * self.length,
            stopped=np.ones(number, dtype=bool),
            names=tuple(map(str, range(number))),
            feature_names=self.columns,
        )


def epoch_seconds(
    variant: str, data: TrajectoryDataModule, epochs: int = 2, **kwargs: Any
) -> float:
    """Train a few epochs without a logger; return the median time of their steps."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    model = make_model(variant, data, **kwargs)
    observer = Observer()
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator=machine.accelerator(), logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[observer], limit_val_batches=0, num_sanity_val_steps=0,
    )  # fmt: skip
    with quiet():
        trainer.fit(model, data)
    return median(observer.epochs)


def make_model(variant: str, data: TrajectoryDataModule, **kwargs: Any) -> modules.StoppingModule:
    """Return a fresh model with the default settings of a variant."""
    settings = find_variant(variant).model
    cls: type[modules.StoppingModule] = getattr(modules, settings["class_path"])
    return cls.for_data(data, **(settings["init_args"] | kwargs))


def ratio(repeats: int, above: Callable[[], float], below: Callable[[], float]) -> float:
    """Return the median ratio of two measurements made in turn."""
    return median(above() / below() for _ in range(repeats))


def do_over_iqs(repeats: int) -> Figures:
    """DO-IQS-LB over IQS, time per row."""
    options = {"rows": 20_000, "length": 50}

    def do() -> float:
        data = RandomPaths(**options, batch_by="paths", oversampling="bootstrap")
        return epoch_seconds("do_iqs_lb", data)

    return {"do_over_iqs": ratio(repeats, do, lambda: epoch_seconds("iqs", RandomPaths(**options)))}


def path_length_factor(repeats: int) -> Figures:
    """DO-IQS, the same rows cut into paths of 1,000 over paths of 50; batches of 1,000 rows."""

    def measure(length: int) -> float:
        data = RandomPaths(100_000, length, batch_by="paths", batch_size=1000)
        return epoch_seconds("do_iqs", data)

    return {"path_length_factor": ratio(repeats, lambda: measure(1000), lambda: measure(50))}


def memory_length_factor(repeats: int) -> Figures:
    """IQS with `accumulate`, the same rows cut into paths of 1,000 over paths of 50."""

    def measure(length: int) -> float:
        data = RandomPaths(100_000, length, batch_size=1000)
        return epoch_seconds("iqs", data, memory="accumulate")

    return {"memory_length_factor": ratio(repeats, lambda: measure(1000), lambda: measure(50))}


def gru_factor(repeats: int) -> Figures:
    """Eight members with gated units over eight without on CP1, and a row's cost by batch size.

    As in auto: batches of 512 rows with units, of 128 without; and both with batches of 128.
    """

    def measure(memory: str, batch_size: int) -> float:
        data = ChangePointData(batch_size=batch_size)
        return epoch_seconds("iqs", data, 4, members=8, memory=memory, bootstrap=False)

    paths = {n: RandomPaths(20_000, 50, batch_size=50 * n) for n in (1, 4, 16, 64)}
    return {
        "gru_factor": ratio(repeats, lambda: measure("gru", 512), lambda: measure("none", 128)),
        "gru_factor_same_batches": ratio(
            repeats, lambda: measure("gru", 128), lambda: measure("none", 128)
        ),
        "gru_microseconds_per_row_by_paths": {
            n: round(1e6 * epoch_seconds("iqs", data, memory="gru") / 20_000, 1)
            for n, data in paths.items()
        },
    }


def auto_factor(repeats: int) -> Figures:
    """A whole run of auto over one of IQS-folds, both with their final test."""

    def seconds(data: str, model: str) -> float:
        with tempfile.TemporaryDirectory() as folder, quiet():
            start = time.perf_counter()
            train.main([
                "fit", f"--data={data}", f"--model={model}", f"--runs_dir={folder}",
                f"--config={ROOT}/benchmarks/quiet.yaml", "--threads=1",
                f"--trainer.accelerator={machine.accelerator()}",
            ])  # fmt: skip
            return time.perf_counter() - start

    return {
        "auto_factor": {
            name: ratio(repeats, lambda: seconds(name, "auto"), lambda: seconds(name, "iqs_folds"))  # noqa: B023
            for name in ("CP1", "fatigue", "radial")
        }
    }


def rows_factor(repeats: int) -> Figures:
    """One epoch of 1,000,000 rows over one of 100,000, divided by 10."""

    def measure(rows: int, epochs: int) -> float:
        return epoch_seconds("iqs", RandomPaths(rows, 50), epochs)

    large = ratio(repeats, lambda: measure(1_000_000, 1), lambda: measure(100_000, 3))
    return {"rows_factor": large / 10}


def ensemble_factor(repeats: int) -> Figures:
    """Eight members together over one, with one thread as train.py takes, and with two."""

    def measure(members: int, threads: int = 1) -> float:
        torch.set_num_threads(threads)
        data = RandomPaths(20_000, 50, batch_by="paths", oversampling="bootstrap")
        seconds = epoch_seconds("do_iqs_lb", data, members=members)
        torch.set_num_threads(1)
        return seconds

    return {
        "ensemble_factor": ratio(3 * repeats, lambda: measure(8), lambda: measure(1)),
        "ensemble_factor_two_threads": ratio(
            3 * repeats, lambda: measure(8, 2), lambda: measure(1)
        ),
    }


def batch_rows_per_second(repeats: int) -> Figures:
    """Rows judged in a second from raw columns, D = 3, one core, for every class of model."""
    data = RandomPaths(200_000, 50, batch_by="paths")
    there = machine.device()
    batches = [
        data.transfer_batch_to_device(batch, there, 0) for batch in PathLoader(data.splits.train)
    ]
    rates = {}
    for variant in one_of_each_class():
        model = make_model(variant, data).eval().to(there)
        seconds = []
        with torch.inference_mode():
            for _ in range(max(3, repeats)):
                start = machine.clock()
                for batch in batches:
                    model(batch)
                seconds.append(machine.clock() - start)
        rates[variant] = round(200_000 / median(seconds))
    return {"batch_rows_per_second": rates}


def one_of_each_class() -> list[str]:
    """Return the first variant of every class of model."""
    first: dict[str, str] = {}
    for name in VARIANTS:
        first.setdefault(find_variant(name).model["class_path"], name)
    return list(first.values())


def over_torch(repeats: int, *words: str) -> float:
    """Return the time of `python …` over that of `import torch`, each in a fresh process."""

    def seconds(*words: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    def torch_seconds() -> float:
        return seconds("-c", "import torch")

    torch_seconds()  # files are read from the disk once
    seconds(*words)
    return ratio(max(5, repeats), lambda: seconds(*words), torch_seconds)


def package_import_over_torch(repeats: int) -> Figures:
    """`import lit_ios`, which loads next to nothing, over `import torch`."""
    return {"package_import_over_torch": over_torch(repeats, "-c", "import lit_ios")}


def policy_import_over_torch(repeats: int) -> Figures:
    """`from lit_ios import StoppingPolicy` over `import torch`."""
    statement = "from lit_ios import StoppingPolicy"
    return {"policy_import_over_torch": over_torch(repeats, "-c", statement)}


def predict_over_torch(repeats: int) -> Figures:
    """The whole command `lit-ios predict CKPT --data FILE`, 1,000 rows, over `import torch`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, decisions = folder / "table.csv", folder / "decisions.csv"
        write_table(table, rows=1000)
        checkpoint = small_checkpoint(table, folder)
        words = ("-m", "lit_ios", "predict", str(checkpoint), f"--data={table}")
        return {"predict_over_torch": over_torch(repeats, *words, f"--output={decisions}")}


def write_table(file: Path, rows: int) -> None:
    """Write random paths of 20 rows with two features as a CSV file."""
    row = np.arange(rows)
    values = np.random.default_rng(0).standard_normal((rows, 2))
    columns = np.column_stack([row // 20, row % 20, values])
    np.savetxt(
        file, columns, ("%d", "%d", "%.6f", "%.6f"), ",", header="unit,cycle,x0,x1", comments=""
    )


def small_checkpoint(table: Path, folder: Path) -> Path:
    """Train IQS for two epochs on a table by train.py's own path; return the best checkpoint."""
    files = ("configs/data/table.yaml", "benchmarks/quiet.yaml", "configs/model/iqs.yaml")
    roles = {"file": table, "path": "unit", "time": "cycle"}
    with quiet():
        cli = train.main([
            "fit", *(f"--config={ROOT / name}" for name in files), f"--runs_dir={folder}",
            *(f"--data.init_args.{name}={value}" for name, value in roles.items()),
            "--trainer.max_epochs=2", "--threads=1",
        ])  # fmt: skip
    assert cli is not None
    return Path(cli.trainer.checkpoint_callback.best_model_path)  # type: ignore[union-attr]


def cp1_seconds(repeats: int) -> Figures:
    """Seconds of a whole 200-epoch DO-IQS-LB run on CP1, set-up excluded: the quickest."""
    return {"cp1_seconds": min(run_train("do_iqs_lb", 200).seconds for _ in range(repeats))}


def reached(name: str, value: Any) -> bool:
    """Say whether a figure, or the worst of several, meets its goal."""
    kind, goal = GOALS[name]
    values = list(value.values()) if isinstance(value, dict) else [value]
    return max(values) <= goal if kind == "at most" else min(values) >= goal


MEASURES: dict[str, Callable[[int], Figures]] = {
    "lightning_over_raw": lambda repeats: lightning_over_raw(repeats, epochs=20),
    "compiled_over_eager": lambda repeats: compiled_over_eager(min(repeats, 3)),
    "do_over_iqs": do_over_iqs,
    "path_length_factor": path_length_factor,
    "memory_length_factor": memory_length_factor,
    "gru_factor": gru_factor,
    "auto_factor": lambda repeats: auto_factor(1),
    "rows_factor": lambda repeats: rows_factor(min(repeats, 3)),
    "ensemble_factor": ensemble_factor,
    "batch_rows_per_second": batch_rows_per_second,
    "package_import_over_torch": package_import_over_torch,
    "policy_import_over_torch": policy_import_over_torch,
    "predict_over_torch": predict_over_torch,
    "cp1_seconds": lambda repeats: cp1_seconds(min(repeats, 3)),
}


def main() -> None:
    """Measure what is asked for, print it beside the goals, keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=MEASURES, default=list(MEASURES), metavar="NAME",
        help=f"of {', '.join(MEASURES)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=5, help="repeats (default: 5)")
    parser.add_argument(
        "--accelerator", choices=("cpu", "gpu"), default="cpu",
        help="what to train and judge on (default: cpu); goals are those of a CPU",
    )  # fmt: skip
    parser.add_argument("--file", type=Path, help=f"default: {RESULTS}; speed_gpu.json of a GPU")
    args = parser.parse_args()
    machine.choose(args.accelerator)
    on_gpu = args.accelerator == "gpu"
    file = args.file or (RESULTS.with_stem("speed_gpu") if on_gpu else RESULTS)
    torch.set_num_threads(1)
    results = json.loads(file.read_text()) if file.exists() else {}
    goals = {} if on_gpu else GOALS
    for name in args.only:
        results |= MEASURES[name](args.repeats)
        print(f"{name}: {json.dumps(results[name], indent=2)}", end="")
        if name in goals:
            kind, goal = goals[name]
            verdict = "reached" if reached(name, results[name]) else "NOT reached"
            print(f"; goal {kind} {goal}: {verdict}", end="")
        print()
        file.parent.mkdir(parents=True, exist_ok=True)
        results |= {"goals": goals, "machine": machine.describe()}
        first = {key: results[key] for key in ("goals", "machine")}
        file.write_text(json.dumps(first | results, indent=2) + "\n")


if __name__ == "__main__":
    main()
