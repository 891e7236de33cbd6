"""Code hidden in settings and checkpoints: tags of YAML, pickles, functions named as classes."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.hostile_checks.outcome import attempts
from benchmarks.hostile_checks.states import policy
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.checkpoints import write_checkpoint
from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.settings import read_settings

CALLS = (
    "os.mkdir", "os.makedirs", "pathlib.Path.mkdir", "builtins.open", "builtins.eval",
    "builtins.exec", "os.system", "subprocess.call", "subprocess.Popen", "shutil.copytree",
)  # fmt: skip
TAGS = (
    "!!python/object/apply:{call} [{args}]", "!!python/object/new:{call} [{args}]",
    "!!python/object:{call} {{}}", "a: !!python/name:{call} ''", "a: !!python/module:{call} ''",
    "? !!python/object/apply:{call} [{args}]\n: 1",
)  # fmt: skip
PLACES = ("whole", "lit_ios", "state_dict", "rule", "hyper_parameters", "callbacks")
NAMED = ("head", "encoder", "memory")


class _Call:
    """Pickles as a call."""

    def __init__(self, call: str, trace: str) -> None:
        self.call, self.trace = call, trace

    def __reduce__(self) -> tuple[Any, ...]:
        if self.call in ("builtins.eval", "builtins.exec"):
            return eval, (f"__import__('os').mkdir({self.trace!r})",)
        return os.mkdir, (self.trace,)


def hidden_code(trials: int, seed: int) -> Outcome:
    """Read settings and checkpoints with code in them: none of it is executed."""
    kinds: list[tuple[str, str, str]] = [
        *(("tag", call, tag) for call, tag in itertools.product(CALLS, TAGS)),
        *(("pickle", call, place) for call, place in itertools.product(CALLS[:5], PLACES)),
        *(("class", call, part) for call, part in itertools.product(CALLS, NAMED)),
    ]

    def attempt(rng: random.Random, number: int) -> str | None:
        kind, call, how = kinds[number % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            trace = str(Path(folder) / "executed")
            try:
                _TRY[kind](Path(folder), call, how, trace)
            except UserError:
                pass
            else:
                return f"{kind} {call} {how}: taken"
            return f"{kind} {call} {how}: executed" if os.path.exists(trace) else None

    return attempts("hidden_code", trials, seed, attempt)


def _tag(folder: Path, call: str, how: str, trace: str) -> None:
    shell = call in ("os.system", "subprocess.call", "subprocess.Popen")
    args = f"'touch {trace}'" if shell else f"'{trace}'"
    (folder / "config.yaml").write_text(how.format(call=call, args=args))
    read_settings(folder / "config.yaml")


def _pickle(folder: Path, call: str, how: str, trace: str) -> None:
    policy().save(folder / "policy.ckpt")
    content = torch.load(folder / "policy.ckpt", weights_only=True)
    payload = _Call(call, trace)
    if how == "whole":
        stream = io.BytesIO()
        pickle.dump(payload, stream)
        (folder / "policy.ckpt").write_bytes(stream.getvalue())
    else:
        if how == "rule":
            content["lit_ios"]["rule"]["head"] = payload
        else:
            content[how] = {"x": payload, "_instantiator": "os.system"}
        write_checkpoint(content, folder / "policy.ckpt", durable=False)
    StoppingPolicy.load(folder / "policy.ckpt")


def _class(folder: Path, call: str, how: str, trace: str) -> None:
    policy().save(folder / "policy.ckpt")
    content = torch.load(folder / "policy.ckpt", weights_only=True)
    spec = {"class_path": call, "init_args": {"path": trace, "name": trace, "args": trace}}
    content["lit_ios"]["rule"][how] = spec
    write_checkpoint(content, folder / "policy.ckpt", durable=False)
    StoppingPolicy.load(folder / "policy.ckpt")


_TRY = {"tag": _tag, "pickle": _pickle, "class": _class}


def _bombs() -> dict[str, str]:
    """Return short YAML that stands for more than any memory holds, or breaks its reader."""
    aliases = ",".join(["*a{0}"] * 9)
    levels = range(1, 30)
    return {
        "aliases": "a0: &a0 [x]\n"
        + "".join(f"a{i}: &a{i} [{aliases.format(i - 1)}]\n" for i in levels),
        "merges": "a0: &a0 {k: 1}\n"
        + "".join(f"a{i}: &a{i} {{<<: [{aliases.format(i - 1)}]}}\n" for i in levels),
        "itself": "a: &a [*a]",
        "lists": "[" * 100_000,
        "mappings": "{a: " * 100_000,
        "dashes": "- " * 100_000,
        "long": "a: [" + ",".join(["x"] * 900_000) + "]",
        "number": "a: 1" + ":59" * 300_000,
    }


def yaml_bombs(trials: int, seed: int) -> Outcome:
    """Read YAML bombs: each is refused in a sentence within a second of processor time."""
    slowest = 0.0

    def attempt(rng: random.Random, number: int) -> str | None:
        nonlocal slowest
        from lit_ios.program.class_names import read_yaml

        name, text = list(_bombs().items())[number % len(_bombs())]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.yaml"
            file.write_text(text)
            began = time.process_time()
            try:
                read_settings(file)
                return f"{name}: taken"
            except UserError:
                pass
            try:
                read_yaml(text)
                return f"{name}: taken by LightningCLI"
            except yaml.YAMLError:
                pass
            seconds = (time.process_time() - began) / 2
        slowest = max(slowest, seconds)
        return f"{name}: {seconds:.1f} s" if seconds > 1 else None

    found = attempts("yaml_bombs", trials, seed, attempt)
    return found._replace(note=found.note or f"the slowest was refused after {slowest:.2f} s")
