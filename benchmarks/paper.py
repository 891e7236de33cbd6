"""Variants × data sets × seeds, as in the paper's tables: `python -m benchmarks.paper --help`.

Finished runs are rows of a CSV file, written one by one; a second call does only what is missing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
from tqdm import tqdm

from benchmarks import baselines, tables
from lit_ios.configs import read_settings

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/paper.csv"
# name of the column → settings file and options that make it
DATA_SETS: dict[str, tuple[str, ...]] = {
    "bmG": ("bmG",),
    "bmgG": ("bmgG",),
    "azure": ("azure",),
    "azure_all": ("azure", "--data.init_args.cycles=all"),
    "turbofan": ("turbofan",),
    "FD002": ("turbofan", "--data.init_args.subset=FD002"),
    "FD003": ("turbofan", "--data.init_args.subset=FD003"),
    "FD004": ("turbofan", "--data.init_args.subset=FD004"),
    "CP1": ("CP1",),
    "CP2": ("CP2",),
    "CP3": ("CP3",),
    "radial": ("radial",),
    "star": ("star",),
}
VARIANTS = {
    "classifier": "Classifier",
    "classifier_smote": "Classifier-SMOTE",
    "iqs": "IQS",
    "iqs_smote": "IQS-SMOTE",
    "iqs_cs_smote": "IQS-CS-SMOTE",
    "model_based_iqs": "Model-based IQS",
    "model_based_iqs_smote": "Model-based IQS-SMOTE",
    "model_based_iqs_cs_smote": "Model-based IQS-CS-SMOTE",
    "do_iqs": "DO-IQS",
    "do_iqs_lb": "DO-IQS-LB",
}
COLUMNS = (
    "dataset", "variant", "seed", "epochs", "balanced_accuracy", "region_balanced_accuracy",
    "event_miss_rate", "time_to_event_mean", "time_to_event_median", "best_epoch",
    "val_balanced_accuracy", "train_seconds", "options",
)  # fmt: skip
Row = dict[str, Any]


class Job(NamedTuple):
    """One run."""

    dataset: str
    variant: str
    seed: int
    epochs: int
    options: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What tells runs apart in the results file."""
        fields = (self.dataset, self.variant, str(self.seed), str(self.epochs))
        return (*fields, " ".join(self.options))


def run(job: Job) -> Row:
    """Train and test once, in a temporary folder; or fit a baseline."""
    import contextlib
    import io
    import warnings

    import train

    if job.variant in baselines.NAMES:
        return run_baseline(job)
    data, *settings = DATA_SETS[job.dataset]
    files = (f"data/{data}", "../benchmarks/quiet", f"model/{job.variant}")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = ["fit", *(f"--config={ROOT}/configs/{name}.yaml" for name in files)]
        words += [f"--seed_everything={job.seed}", f"--trainer.max_epochs={job.epochs}"]
        words += [f"--runs_dir={folder}", *settings, *job.options]
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            cli = train.main(words)
        seconds = time.perf_counter() - start
        assert cli is not None
        metrics = json.loads((Path(cli.trainer.logger.log_dir) / "metrics.json").read_text())
    measured = {column: metrics.get(f"test/{column}") for column in COLUMNS}
    return measured | {
        "dataset": job.dataset,
        "variant": job.variant,
        "seed": job.seed,
        "epochs": job.epochs,
        "best_epoch": metrics["best_epoch"],
        "val_balanced_accuracy": metrics["val/balanced_accuracy"],
        "train_seconds": round(seconds, 2),
        "options": " ".join(job.options),
    }


def run_baseline(job: Job) -> Row:
    """Fit and test a baseline on the splits a variant of this seed gets."""
    import datamodules

    file, *options = DATA_SETS[job.dataset]
    settings = read_settings(ROOT / f"configs/data/{file}.yaml")["data"]
    changed = (option.removeprefix("--data.init_args.").split("=") for option in options)
    init_args = (settings.get("init_args") or {}) | dict(changed)
    data = getattr(datamodules, settings["class_path"])(**init_args, seed=job.seed)
    start = time.perf_counter()
    measured = baselines.measure(job.variant, data)
    seconds = time.perf_counter() - start
    return {column: measured.get(column) for column in COLUMNS} | {
        "dataset": job.dataset,
        "variant": job.variant,
        "seed": job.seed,
        "epochs": job.epochs,
        "train_seconds": round(seconds, 2),
        "options": " ".join(job.options),
    }


def attempt(job: Job) -> tuple[Job, Row | None, str]:
    """Run a job; return its row, or what went wrong."""
    try:
        return job, run(job), ""
    except BaseException as error:  # also SystemExit, with which train.py refuses its input
        return job, None, repr(error)


def run_all(jobs: list[Job], file: Path, processes: int, backend: str = "loky") -> int:
    """Do the jobs that have no row in the file yet, adding each row as soon as it is there.

    Returns the number of jobs that failed.
    """
    done = {tuple(row[name] for name in (*COLUMNS[:4], "options")) for row in read_rows(file)}
    missing = [job for job in jobs if job.key not in done]
    file.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    finished = _finished(missing, processes, backend)
    for job, row, reason in tqdm(finished, total=len(missing), unit="run"):
        if row is None:
            failed += 1
            print(f"{job} failed: {reason}", file=sys.stderr)
            continue
        new = not file.exists()
        with file.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(row)
    return failed


def _finished(jobs: list[Job], processes: int, backend: str) -> Iterable[Any]:
    """Yield what `attempt` returns for each job, as soon as joblib's backend gives it away."""
    if processes == 1 and backend == "loky":
        yield from map(attempt, jobs)
    elif backend == "loky":
        parallel = joblib.Parallel(processes, backend=backend, return_as="generator_unordered")
        yield from parallel(joblib.delayed(attempt)(job) for job in jobs)
    else:  # Ray's backend returns lists only: some jobs at a time, so that few can be lost
        for start in range(0, len(jobs), 4 * processes):
            some = jobs[start : start + 4 * processes]
            yield from joblib.Parallel(processes, backend=backend)(
                joblib.delayed(attempt)(job) for job in some
            )


def connect_to_ray(address: str | None) -> None:
    """Let joblib send its work to a Ray cluster, or to one on this machine."""
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise SystemExit("--backend ray needs Ray: pip install 'lit-ios[ray]'") from None
    places = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    ray.init(address=address, runtime_env={"env_vars": {"PYTHONPATH": places}})
    register_ray()


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the finished runs; a last line that was cut off while writing is none."""
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["options"] is not None]


def write_tables(rows: list[Row], metrics: list[str], against: str | None, stem: Path) -> None:
    """Print the tables and keep them beside the results, in Markdown and in LaTeX."""
    names = VARIANTS | baselines.NAMES
    text, tex = [], []
    for metric in metrics:
        table = tables.summarise(rows, metric, DATA_SETS, names)
        text += [f"\n{metric}\n", *tables.markdown(table, metric, names)]
        tex += [f"% {metric}", *tables.latex(table, metric, names), ""]
        if against is not None:
            text += ["", *tables.paired_markdown(rows, names, against, metric, names)]
    print("\n".join(text))
    stem.with_suffix(".md").write_text("\n".join(text).lstrip() + "\n")
    stem.with_suffix(".tex").write_text("\n".join(tex))


def main() -> None:
    """Run the grid asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument(
        "--data",
        nargs="+",
        default=list(DATA_SETS),
        choices=DATA_SETS,
        metavar="NAME",
        help=f"data sets, of {', '.join(DATA_SETS)} (default: all)",
    )
    methods = [*VARIANTS, *baselines.NAMES]
    parser.add_argument(
        "--variants", nargs="+", default=methods, choices=methods, metavar="NAME",
        help=f"variants and baselines, of {', '.join(methods)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--epochs", type=int, default=200, help="epochs per run (default: 200)")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument(
        "--backend", choices=("loky", "ray"), default="loky",
        help="joblib's backend: processes of this machine (default), or a Ray cluster",
    )  # fmt: skip
    parser.add_argument("--address", help="of the Ray cluster; none starts one on this machine")
    parser.add_argument("--file", type=Path, default=RESULTS, help=f"results (default: {RESULTS})")
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=["balanced_accuracy"],
        choices=COLUMNS[4:9],
        help="tables to print (default: balanced_accuracy)",
    )
    parser.add_argument(
        "--against", choices=methods, metavar="NAME",
        help="also print paired differences to this method, with 95 %% confidence intervals",
    )  # fmt: skip
    parser.add_argument("options", nargs="*", help="after --: further options for train.py")
    args = parser.parse_args()
    jobs = [
        Job(data, variant, seed, args.epochs, tuple(args.options))
        for seed in range(args.seeds)
        for data in args.data
        for variant in args.variants
    ]
    if args.backend == "ray":
        connect_to_ray(args.address)
    failed = run_all(jobs, args.file, args.processes, args.backend)
    keys = {job.key for job in jobs}
    fields = (*COLUMNS[:4], "options")
    rows = [row for row in read_rows(args.file) if tuple(row[name] for name in fields) in keys]
    write_tables(rows, args.metrics, args.against, args.file.with_suffix(""))
    if failed:
        raise SystemExit(f"{failed} runs failed; the same command tries them again")


if __name__ == "__main__":
    main()
