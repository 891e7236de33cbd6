"""Settings files that nobody would write: the program works by them, or ends in one sentence."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.hostile_checks.folders import SMALL, received
from benchmarks.hostile_checks.outcome import attempts
from benchmarks.hostile_checks.trees import Sly, damaged
from benchmarks.reliability_checks.children import end, start, without_figures
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.program import main
from lit_ios.settings import read_settings

SECONDS = 20  # of processor time, after which a trial is given up: settings may ask for long work
MEMORY = 8 << 30  # bytes of addresses
SHORT = (
    "--trainer.max_epochs=1",
    "--trainer.enable_progress_bar=false",
    "--no-baseline",
    "--no-report",
)
TEXTS = (
    "", "\x00", "- a\n- b", "a: b: c", "{", "[1, 2", "key", "a: *b", "%YAML 9.9", "\ufeffa: 1",
    "trainer: 5", "model: {class_path: 5}", "data: [1]", "a: 1\na: 2", "? [a]\n: b", "1: 2",
    "!!python/object/apply:os.mkdir [executed]", "model: !!binary aGk=", "a: 2026-02-30",
)  # fmt: skip


def generated_settings(trials: int, seed: int) -> Outcome:
    """Run commands by damaged settings, found or given: no traceback, nothing executed."""

    def attempt(rng: random.Random, number: int) -> str | None:
        with received() as folder, tempfile.TemporaryDirectory() as name:
            said, home = Path(name) / "said.txt", folder.parents[2]
            write_damaged(folder / "config.yaml", folder, rng)
            words = _words(folder, rng)
            code = end(start(lambda: _run(words), said))
            text = said.read_text(errors="replace")
            if (home / "executed").exists() or (folder / "executed").exists():
                return f"{words[0]}: executed"
            if code in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL):
                return None  # it works, for as long as it was asked to
            if code not in (0, 1) or "Traceback" in text:
                last = (text.strip().splitlines() or [""])[-1]
                return f"{words[0]} ended with {code}: {last[:200]}"
            return None

    return attempts("generated_settings", trials, seed, attempt)


def write_damaged(file: Path, folder: Path, rng: random.Random) -> None:
    """Replace the settings of a run by something like them, or by something else."""
    if rng.random() < 0.15:
        file.write_text(rng.choice(TEXTS))
        return
    known = read_settings(file)
    tree = damaged(known, rng) if rng.random() < 0.85 else known
    if tree is known:  # a module beside them, at a place where text stands
        (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')\nThing = object")
        place = ".".join((*folder.relative_to(folder.parents[2]).parts, "evil.Thing"))
        tree = _with_text(known, place, rng)
    try:
        text = yaml.safe_dump(_plain(tree), allow_unicode=True)
    except (yaml.YAMLError, RecursionError):
        text = "[" * 1000
    data = bytearray(text.encode("utf-8", "replace"))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    file.write_bytes(data)


def _with_text(tree: Any, text: str, rng: random.Random) -> Any:
    """Return a tree of settings with one of its leaves exchanged for a text."""
    if isinstance(tree, dict | list) and tree:
        made = tree.copy()
        key = rng.choice(list(made)) if isinstance(made, dict) else rng.randrange(len(made))
        made[key] = _with_text(made[key], text, rng)
        return made
    return text


def _plain(tree: Any) -> Any:
    """Return a tree as YAML can write it."""
    if isinstance(tree, dict):
        return {str(key): _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    return dict(tree) if isinstance(tree, Sly) else tree


def _words(folder: Path, rng: random.Random) -> list[str]:
    run, config = str(folder), str(folder / "config.yaml")
    return rng.choice(
        (
            ["test", run],
            ["predict", run],
            ["calibrate", run, "--overwrite"],
            ["fit", f"--ckpt_path={run}", *SHORT],
            ["fit", *SMALL, "--config", config, *SHORT],
            ["fit", "--config", config, *SHORT],
        )
    )


def _run(words: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_used() + SECONDS, _used() + SECONDS))
    signal.alarm(10 * SECONDS)
    with without_figures():
        sys.exit(main(words))


def _used() -> int:
    return int(sum(os.times()[:2]))
