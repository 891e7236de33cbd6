"""Run folders from strangers: modules beside their settings, and settings that write elsewhere."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.hostile_checks.outcome import attempts
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.checkpoints import write_checkpoint
from lit_ios.program import main
from lit_ios.settings import merge_settings, read_settings

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "--data", "CP1", "--model", "iqs", "--data.init_args.paths=40", "--no-baseline", "--no-report",
    "--data.init_args.test_paths=10", "--trainer.max_epochs=1",
)  # fmt: skip
COMMANDS = ("test", "validate", "predict", "fit", "calibrate", "frontier", "explain")
ROLES: dict[str, Any] = {
    "model": lambda c: {"model": {"class_path": c}},
    "data": lambda c: {"data": {"class_path": c}},
    "head": lambda c: {"model": {"init_args": {"head": {"class_path": c}}}},
    "head as text": lambda c: {"model": {"init_args": {"head": c}}},
    "memory": lambda c: {"model": {"init_args": {"memory": c}}},
    "optimizer": lambda c: {"model": {"init_args": {"optimizer": {"class_path": c}}}},
    "sampler": lambda c: {"data": {"init_args": {"oversampling": c}}},
    "encoder": lambda c: {"data": {"init_args": {"encoder": {"class_path": c}}}},
    "callback": lambda c: {"trainer": {"callbacks+": [{"class_path": c}]}},
    "callback as text": lambda c: {"trainer": {"callbacks+": [c]}},
    "logger": lambda c: {"trainer": {"logger": {"class_path": c}}},
    "strategy": lambda c: {"trainer": {"strategy": {"class_path": c}}},
    "strategy as text": lambda c: {"trainer": {"strategy": c}},
    "plugins": lambda c: {"trainer": {"plugins": [{"class_path": c}]}},
    "profiler": lambda c: {"trainer": {"profiler": {"class_path": c}}},
}
_numbers = itertools.count()


@cache
def trained() -> Path:
    """Return the folder of a small run."""
    runs = Path(tempfile.mkdtemp())
    with _quiet():
        assert main(["fit", *SMALL, "--runs_dir", str(runs)]) == 0
    return next(runs.rglob("config.yaml")).parent


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    said = io.StringIO()
    quiet = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
    with quiet[0], quiet[1], warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def received() -> Iterator[Path]:
    """Copy the run below a folder that modules are looked for in, and go there."""
    home, before = Path(tempfile.mkdtemp()), Path.cwd()
    folder = home / "runs" / "given" / "version_0"
    shutil.copytree(trained(), folder)
    sys.path.insert(0, str(home))
    os.chdir(home)
    try:
        yield folder
    finally:
        os.chdir(before)
        sys.path.remove(str(home))
        shutil.rmtree(home)


def change(folder: Path, settings: dict[str, Any]) -> None:
    """Lay settings over those of a run."""
    merged = merge_settings([read_settings(folder / "config.yaml"), settings])
    (folder / "config.yaml").write_text(yaml.safe_dump(merged))


def use(command: str, folder: Path) -> None:
    """Use a run by a command; whatever it says."""
    run = str(folder / "checkpoints" / ("last.ckpt" if command == "fit" else "best.ckpt"))
    words = {
        "fit": ["fit", "--ckpt_path", run, "--trainer.max_epochs=2"],
        "calibrate": ["calibrate", run, "--overwrite"],
        "frontier": ["frontier", run, "--draws=2"],
        "explain": ["explain", run, "--of", "0"],
    }
    with _quiet(), contextlib.suppress(SystemExit):
        main(words.get(command, [command, run]))


def strangers_modules(trials: int, seed: int) -> Outcome:
    """Use run folders whose settings or checkpoint name a module beside them: none is imported."""
    kinds = list(itertools.product((*ROLES, "checkpoint", "auto.json"), COMMANDS))

    def attempt(rng: random.Random, number: int) -> str | None:
        role, command = kinds[number % len(kinds)]
        with received() as folder:
            trace, name = folder.parents[2] / "executed", f"evil{next(_numbers)}"
            (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'w').close()\nThing = object")
            path = ".".join((*folder.relative_to(folder.parents[2]).parts, name, "Thing"))
            if role == "checkpoint":
                _name_in_checkpoint(folder, rng.choice(("head", "encoder", "memory")), path)
            elif role == "auto.json":
                known = {"files": [], "options": [f"--model={path}"], "quick": True}
                known |= {"allow": [path.partition(".")[0]]}
                (folder / "auto.json").write_text(json.dumps(known))
                with _quiet(), contextlib.suppress(SystemExit):
                    main(["fit", "--resume", str(folder)])
            else:
                change(folder, ROLES[role](path))
            use(command, folder)
            return f"{role}, {command}: executed" if trace.exists() else None

    return attempts("strangers_modules", trials, seed, attempt)


def _name_in_checkpoint(folder: Path, part: str, path: str) -> None:
    for file in (folder / "checkpoints").iterdir():
        content = torch.load(file, weights_only=True)
        content["lit_ios"]["rule"][part] = {"class_path": path, "init_args": {}}
        write_checkpoint(content, file, durable=False)


SHADOWS = ("yaml", "torch", "numpy", "difflib", "csv", "pyarrow", "pytorch_lightning", "ray")


def shadowed_modules(trials: int, seed: int) -> Outcome:
    """Run `python -m lit_ios` in a stranger's folder with modules named as known ones."""

    def attempt(rng: random.Random, number: int) -> str | None:
        with received() as folder:
            name, trace = SHADOWS[number % len(SHADOWS)], folder / "executed"
            (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'w').close()")
            words = ("runs", "..") if number % 2 else ("calibrate", "checkpoints/best.ckpt")
            subprocess.run(
                [sys.executable, "-m", "lit_ios", *words], cwd=folder, capture_output=True,
                env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
            )  # fmt: skip
            return f"{name}.py was executed" if trace.exists() else None

    return attempts("shadowed_modules", trials, seed, attempt)


def _writing(place: Path) -> list[dict[str, Any]]:
    """Return settings that would write to a place."""
    lightning, file = "pytorch_lightning", str(place / "kept.csv")
    saves = {"save_dir": str(place)}
    checkpoint = {"dirpath": str(place), "filename": "kept"}
    return [
        {"output": file},
        {"runs_dir": str(place)},
        {"trainer": {"default_root_dir": str(place)}},
        {"trainer": {"logger": {"class_path": f"{lightning}.loggers.CSVLogger",
                                "init_args": saves}}},
        {"trainer": {"logger": {"class_path": f"{lightning}.loggers.TensorBoardLogger",
                                "init_args": saves}}},
        {"trainer": {"callbacks+": [{"class_path": "callbacks.PredictionWriter",
                                     "init_args": {"output": file}}]}},
        {"trainer": {"callbacks+": [{"class_path": "callbacks.RunCheckpoint",
                                     "init_args": checkpoint}]}},
        {"trainer": {"callbacks+": [{"class_path": "callbacks.RunCheckpoint",
                                     "init_args": {"filename": f"../../../../{place.name}/k"}}]}},
        {"trainer": {"callbacks+": [{"class_path": f"{lightning}.callbacks.ModelCheckpoint",
                                     "init_args": checkpoint, "dict_kwargs": checkpoint}]}},
        {"trainer": {"callbacks+": [{"class_path": f"{lightning}.callbacks.OnExceptionCheckpoint",
                                     "init_args": checkpoint}]}},
        {"trainer": {"profiler": {"class_path": f"{lightning}.profilers.SimpleProfiler",
                                  "init_args": {"dirpath": str(place), "filename": "kept"}}}},
        {"trainer": {"plugins": [{"class_path": f"{lightning}.plugins.io.AsyncCheckpointIO"}]},
         "runs_dir": str(place)},
    ]  # fmt: skip


def outside_writes(trials: int, seed: int) -> Outcome:
    """Use run folders whose settings, or links, lead elsewhere: nothing is written there."""

    def attempt(rng: random.Random, number: int) -> str | None:
        with received() as folder:
            place = folder.parents[2] / "elsewhere"
            place.mkdir()
            (place / "kept.csv").write_text("mine")
            ways = [*_writing(place), "metrics.json", "checkpoints/last.ckpt", "checkpoints"]
            way, command = ways[number % len(ways)], COMMANDS[(number // len(ways)) % 5]
            if isinstance(way, str):
                _link(folder / way, place)
            else:
                change(folder, way)
            before = _content(place)
            use(command, folder)
            if _content(place) == before:
                return None
            return f"{way}, {command}: wrote {sorted(file.name for file in place.rglob('*'))}"

    return attempts("outside_writes", trials, seed, attempt)


def _link(file: Path, place: Path) -> None:
    """Put a link in the place of a file or folder, with the same content behind it."""
    target = place / file.name
    if file.is_dir():
        shutil.copytree(file, target)
        shutil.rmtree(file)
    else:
        shutil.copy(file, target)
        file.unlink()
    file.symlink_to(target)


def _content(place: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in place.rglob("*") if file.is_file()}
