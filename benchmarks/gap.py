"""Does a threshold chosen on held-out folds suit all members together (E13)?

IQS-folds is trained by train.py's own path. Its threshold is chosen on known paths, each judged by
the two members that left it out; in use, all eight judge together. Two and eight margins have the
same mean in expectation, but not the same lower median, which is the smaller of two and the fourth
of eight. For each way of combining members the threshold is chosen anew on the margins of the best
checkpoint, and test paths are compared with held-out paths. The checkpoint is the one that
training kept, which compares epochs by the lower median (by the mean in the runs of gap.json).

Finished runs are kept in a JSON file, one by one; a second call does only what is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.grid import ROOT, Job, Row, command_line, commit, finished, key_of
from benchmarks.methods import DATA_SETS
from benchmarks.observed import quiet
from benchmarks.paper import add_grid_options, seeds_of
from lit_ios.batches import PathBatch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.functional.outcomes import measure
from lit_ios.rule import StoppingRule
from lit_ios.scale import Place
from lit_ios.trajectories import FloatArray

RESULTS = ROOT / "benchmarks/results/gap.json"
DATA = ("CP1", "CP3", "radial", "star", "bmG", "turbofan")
VARIANT, EPOCHS = "iqs_folds", 60
METRICS = {"balanced_accuracy": "BA", "event_miss_rate": "EMR"}
PLACES = {"held_out": "held-out", "test": "test", "gap": "gap"}

Statistic = Callable[[FloatArray], FloatArray]  # (J, M) → (M,)


def mean(margins: FloatArray) -> FloatArray:
    """Return the mean over members."""
    return np.asarray(margins.mean(axis=0))


def median(margins: FloatArray) -> FloatArray:
    """Return the median, of an even number the mean of the middle two."""
    return np.asarray(np.median(margins, axis=0))


def lower_median(margins: FloatArray) -> FloatArray:
    """Return the median, of an even number the lower one of the middle two."""
    return np.asarray(np.sort(margins, axis=0)[(len(margins) - 1) // 2])


def fourth(margins: FloatArray) -> FloatArray:
    """Return the fourth of the sorted margins."""
    return np.asarray(np.sort(margins, axis=0)[3])


class Combination(NamedTuple):
    """How margins of members become one."""

    held_out: Statistic  # of the members that left a path out, to choose the threshold
    together: Statistic  # of all members, where the rule is used


COMBINATIONS = {
    "mean": Combination(mean, mean),
    "median": Combination(median, median),
    "lower_median": Combination(lower_median, lower_median),
    "mixed": Combination(lower_median, fourth),  # as the project was: with 8 members, the same
}


class Trained(NamedTuple):
    """The best checkpoint of a run, and the paths of the run."""

    rule: StoppingRule
    held_out: PathBatch  # with the members that judge each
    test: PathBatch


def train_once(job: Job) -> Trained:
    """Train by train.py's own path; return the best checkpoint's rule."""
    import train
    from lit_ios import StoppingPolicy

    with tempfile.TemporaryDirectory() as folder, quiet():
        cli = train.main(command_line(job, folder))
        assert cli is not None
        best = cli.trainer.checkpoint_callback.best_model_path  # type: ignore[union-attr]
        rule = StoppingPolicy.load(best).rule
    held_out, test = (cli.datamodule.first_paths(part)[0] for part in ("val", "test"))
    return Trained(rule, held_out, test)


def member_margins(rule: StoppingRule, paths: PathBatch) -> FloatArray:
    """Return each member's margin of each row; (K, M)."""
    with torch.inference_mode():
        q = rule.values(*rule.remember(paths))
    return np.asarray((q[..., 0] - q[..., 1]).numpy())


def judges_only(margins: FloatArray, paths: PathBatch) -> FloatArray:
    """Return the margins of the members that judge each row's path; (K, M) → (J, M)."""
    assert paths.judges is not None
    asked = paths.judges[:, paths.path].numpy()  # (K, M), J of each column
    return np.asarray(margins.T[asked.T].reshape(margins.shape[1], -1).T)


def compare(trained: Trained) -> dict[str, Row]:
    """Return what each combination reaches on held-out and on test paths."""
    rule, held_out, test = trained
    judged = judges_only(member_margins(rule, held_out), held_out)
    everyone = member_margins(rule, test)
    found = {}
    for name, combination in COMBINATIONS.items():
        chosen_on = torch.from_numpy(combination.held_out(judged))
        threshold = float(balanced_margin(chosen_on, held_out))
        row: Row = {"threshold": threshold if math.isfinite(threshold) else None}
        known = _measured(chosen_on, held_out, threshold)
        fresh = _measured(torch.from_numpy(combination.together(everyone)), test, threshold)
        for metric in METRICS:
            row[f"held_out_{metric}"] = known[metric]
            row[f"test_{metric}"] = fresh[metric]
            row[f"gap_{metric}"] = fresh[metric] - known[metric]
        found[name] = row
    return found


def _measured(margin: Tensor, paths: PathBatch, threshold: float) -> dict[str, float]:
    return measure(margin, paths, threshold)._asdict()


def run(job: Job) -> Row:
    """Train once and compare all combinations."""
    return job.row | {"commit": commit(), "combinations": compare(train_once(job))}


def run_missing(jobs: Iterable[Job], file: Path, place: Place) -> int:
    """Do the jobs that are not in the file yet, adding each as it ends; return how many failed."""
    jobs, runs = list(jobs), read_runs(file)
    done = {key_of(row) for row in runs}
    missing = [job for job in jobs if job.key not in done]
    failed = 0
    for _, row in finished(missing, run, place):
        if row is None:
            failed += 1
            continue
        runs.append(row)
        write(runs, jobs, file)
    return failed


def read_runs(file: Path) -> list[Row]:
    """Return the finished runs."""
    runs: list[Row] = json.loads(file.read_text())["runs"] if file.exists() else []
    return runs


def write(runs: list[Row], jobs: Iterable[Job], file: Path) -> None:
    """Write all runs, and what those asked for come to, whole or not at all."""
    content = {"summary": summarise(asked_for(runs, jobs)), "runs": runs}
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(unfinished, file)


def asked_for(runs: Iterable[Row], jobs: Iterable[Job]) -> list[Row]:
    """Return the runs of these jobs."""
    keys = {job.key for job in jobs}
    return [row for row in runs if key_of(row) in keys]


def summarise(runs: Iterable[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """Return mean and standard deviation over sets and seeds, by combination and column."""
    found = [row["combinations"] for row in runs]
    summary: dict[str, dict[str, dict[str, float]]] = {}
    for name in COMBINATIONS if found else ():
        summary[name] = {}
        for column in columns():
            values = [combinations[name][column] for combinations in found]
            summary[name][column] = {
                "mean": float(np.mean(values)),
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"),
            }
    return summary


def columns() -> list[str]:
    """Name what is compared."""
    return [f"{place}_{metric}" for metric in METRICS for place in PLACES]


def markdown(runs: list[Row]) -> Iterator[str]:
    """Yield a table: mean ± one standard deviation over sets and seeds."""
    headings = [f"{place} {metric}" for metric in METRICS.values() for place in PLACES.values()]
    yield "| members combined by | " + " | ".join(headings) + " |"
    yield "|---" * (len(headings) + 1) + "|"
    for name, found in summarise(runs).items():
        cells = [_cell(column, **found[column]) for column in columns()]
        yield f"| {name.replace('_', ' ')} | " + " | ".join(cells) + " |"
    yield f"\n{len(runs)} runs"


def _cell(column: str, mean: float, sd: float) -> str:
    sign = "+" if column.startswith("gap") else ""
    return f"{mean:{sign}.4f} ± {sd:.4f}"


def epochs_of(data: str, asked: int | None) -> int:
    """Return how long to train: as asked, else 60 epochs, on real data 40."""
    return min(EPOCHS, DATA_SETS[data].epochs) if asked is None else asked


def main(words: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gap", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--data", nargs="+", default=list(DATA), choices=DATA_SETS, metavar="NAME",
        help=f"data sets, of {', '.join(DATA_SETS)} (default: {' '.join(DATA)})",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, help=f"epochs per run ({EPOCHS}, on real data 40)")
    add_grid_options(parser, RESULTS, seeds=3, compiles=False)
    parser.set_defaults(first_seed=100)
    parser.add_argument("options", nargs="*", help="after --: further options for train.py")
    args: Any = parser.parse_args(words)
    jobs = [
        Job(data, VARIANT, seed, epochs_of(data, args.epochs), tuple(args.options))
        for seed in seeds_of(args)
        for data in args.data
    ]
    failed = 0
    if not args.finished:
        failed = run_missing(jobs, args.file, Place(args.on, args.processes, args.address))
    print("\n".join(markdown(asked_for(read_runs(args.file), jobs))))
    if failed:
        raise SystemExit(f"{failed} runs failed; the same command tries them again")


if __name__ == "__main__":
    main()
