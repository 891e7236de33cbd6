"""Runs of a benchmark: each ends as a row of a CSV file, none is lost and none done twice."""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tqdm import tqdm

from benchmarks import baselines
from benchmarks.methods import AUTO, DATA_SETS, METHODS
from lit_ios.scale import Place, results
from lit_ios.settings import read_settings

ROOT = Path(__file__).resolve().parent.parent
KEY = ("dataset", "variant", "seed", "epochs", "options")
METRICS = (
    "balanced_accuracy", "region_balanced_accuracy", "event_miss_rate", "time_to_event_mean",
    "time_to_event_median", "time_to_event_q25", "time_to_event_q75", "frontier_area",
)  # fmt: skip
COLUMNS = (
    *KEY, *METRICS, "best_epoch", "val_balanced_accuracy", "train_seconds", "commit", "candidate",
    "compiled_steps", "cpu_seconds",
)  # fmt: skip
PAYS = 100  # epochs from which a step is compiled, once for all seeds
CURVES = {"val_balanced_accuracy": "val/balanced_accuracy", "loss": "train/q/total"}
Row = dict[str, Any]


class Job(NamedTuple):
    """One run."""

    dataset: str
    variant: str
    seed: int
    epochs: int
    options: tuple[str, ...] = ()
    compile: str | None = None  # how steps are done; None: compiled where it pays

    @property
    def row(self) -> Row:
        """The columns that tell runs apart."""
        known = self._asdict() | {"options": " ".join(self.options)}
        return {name: known[name] for name in KEY}

    @property
    def steps(self) -> str:
        """What train.py is told of compiled steps: a step takes as long to build as a short run."""
        pays = self.epochs >= PAYS and METHODS[self.variant].file != AUTO
        return self.compile or ("build" if pays else "never")

    @property
    def key(self) -> tuple[str, ...]:
        """The same as they stand in the file."""
        return key_of(self.row)


def key_of(row: Row) -> tuple[str, ...]:
    """Return what tells a row from others."""
    return tuple(str(row[name]) for name in KEY)


def run(job: Job) -> Row:
    """Train and test once, in a temporary folder; or fit a baseline."""
    start, spent = time.perf_counter(), cpu_seconds()
    measured = _fit_baseline(job) if job.variant in baselines.NAMES else _train(job)
    seconds = round(time.perf_counter() - start, 2)
    times = {"train_seconds": seconds, "cpu_seconds": round(cpu_seconds() - spent, 2)}
    return job.row | measured | times | {"commit": commit()}


def cpu_seconds() -> float:
    """Return what this process and those it started took of the processors; compilers, say."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in own)


def _train(job: Job) -> Row:
    import contextlib
    import io
    import warnings

    import train

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            cli = train.main(command_line(job, folder))
        assert cli is not None
        run_folder = Path(cli.trainer.logger.log_dir)
        metrics = json.loads((run_folder / "metrics.json").read_text())
        curves = None if METHODS[job.variant].file == AUTO else read_curves(run_folder)
    return {name: metrics[f"test/{name}"] for name in METRICS} | {
        "best_epoch": metrics["best_epoch"],
        "val_balanced_accuracy": metrics["val/balanced_accuracy"],
        "candidate": metrics.get("candidate", ""),
        "compiled_steps": metrics.get("compiled_steps", ""),
        "curves": curves,
    }


def command_line(job: Job, folder: str) -> list[str]:
    """Return what train.py is told to do a job, with its run folder in `folder`."""
    data, method = DATA_SETS[job.dataset], METHODS[job.variant]
    files = [f"data/{data.file}", "../benchmarks/quiet", f"model/{method.file}"]
    if method.file == AUTO:
        files.pop()
    words = ["fit", *(f"--config={ROOT}/configs/{name}.yaml" for name in files)]
    words += ["--model=auto"] if method.file == AUTO else []
    if method.file != AUTO or job.epochs != data.epochs:  # auto stops by itself
        words += [f"--trainer.max_epochs={job.epochs}"]
    words += [f"--seed_everything={job.seed}", f"--compile={job.steps}"]
    # as many runs at a time as there are cores
    words += [f"--runs_dir={folder}", "--threads=1"]
    return [*words, *data.options, *method.options, *job.options]


def _fit_baseline(job: Job) -> Row:
    """Fit and test a baseline on the splits a variant of this seed gets."""
    import datamodules

    file, options, _ = DATA_SETS[job.dataset]
    settings = read_settings(ROOT / f"configs/data/{file}.yaml")["data"]
    changed = (option.removeprefix("--data.init_args.").split("=") for option in options)
    init_args = (settings.get("init_args") or {}) | {
        name: yaml.safe_load(value) for name, value in changed
    }
    data = getattr(datamodules, settings["class_path"])(**init_args, seed=job.seed)
    return dict(baselines.measure(job.variant, data))


def read_curves(folder: Path) -> dict[str, list[float]]:
    """Return what TensorBoard's file of a run says of every epoch."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), {"scalars": 0}).Reload()
    return {
        name: [round(point.value, 5) for point in events.Scalars(tag)]
        for name, tag in CURVES.items()
    }


@cache
def commit() -> str:
    """Return the short name of the commit this code is of, with a + if files were changed."""
    git = ["git", "-C", str(ROOT)]
    try:
        name = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], text=True).strip()
        changed = subprocess.check_output([*git, "status", "--porcelain", "-uno"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    code = [line for line in changed.splitlines() if line.endswith((".py", ".yaml"))]
    return name + ("+" if code else "")


def attempt(job: Job, go: Callable[[Job], Row]) -> tuple[Row | None, str]:
    """Run a job; return its row, or what went wrong."""
    try:
        return go(job), ""
    except BaseException as error:  # also SystemExit, with which train.py refuses its input
        return None, repr(error)


def run_all(jobs: Iterable[Job], file: Path, place: Place) -> int:
    """Do the jobs that have no row in the file yet, adding each row as soon as it is there.

    What a run says of its epochs goes to a file of the same name that ends in _curves.jsonl.
    Returns the number of jobs that failed.
    """
    drop_cut_line(file)
    add_columns(file)
    done = {key_of(row) for row in read_rows(file)}
    missing = [job for job in jobs if job.key not in done]
    file.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    for job, row in finished(missing, run, place):
        if row is None:
            failed += 1
            continue
        curves = row.pop("curves", None)
        if curves is not None:
            with curves_file(file).open("a") as stream:
                stream.write(json.dumps(job.row | curves) + "\n")
        new = not file.exists()
        with file.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore")
            if new:
                writer.writeheader()
            writer.writerow(row)
    return failed


def drop_cut_line(file: Path) -> None:
    """Remove a last line that was not written to its end: the next row needs a line of its own."""
    if file.exists() and not (text := file.read_bytes()).endswith(b"\n"):
        file.write_bytes(text[: text.rfind(b"\n") + 1])


def add_columns(file: Path) -> None:
    """Give a file of an earlier time the columns that rows have now, empty in its own rows."""
    if not file.exists():
        return
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or tuple(rows[0]) == COLUMNS:
        return
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def curves_file(file: Path) -> Path:
    """Return where the epochs of the runs in a results file are kept."""
    return file.with_name(f"{file.stem}_curves.jsonl")


def finished(
    jobs: list[Job], go: Callable[[Job], Row], place: Place
) -> Iterator[tuple[Job, Row | None]]:
    """Yield what `go` makes of each job as soon as it is there; say which failed, and show how far.

    Args:
        jobs: to be done.
        go: does one.
        place: where.
    """
    attempts = results(partial(attempt, go=go), jobs, place)
    for job, (row, reason) in tqdm(attempts, total=len(jobs), unit="run"):
        if row is None:
            print(f"{job} failed: {reason}", file=sys.stderr)
        yield job, row


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the finished runs; a last line that was cut off while writing is none."""
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return [row for row in csv.DictReader(stream) if None not in row.values()]
