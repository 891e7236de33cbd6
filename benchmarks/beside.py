"""Another implementation of the paper beside this one: processor seconds per epoch, same paths.

    python -m benchmarks.beside my_module:train --variants iqs do_iqs_lb

`train` is called with a `Task` and trains that variant on those paths for so many epochs; what it
returns is not looked at. It is called for one epoch and for some more, in turn with our own runs,
and the difference counts, so that whatever it does once is left out. Ours are whole epochs of
train.py, validation and logging included, eager and compiled. One thread each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

import datamodules
from benchmarks.grid import ROOT, cpu_seconds
from benchmarks.methods import DATA_SETS, VARIANTS
from benchmarks.observed import run_train
from lit_ios.settings import read_settings
from lit_ios.variants import find_variant

WAYS = {"eager": "never", "compiled": "build"}


class Task(NamedTuple):
    """What another implementation is asked to do.

    Args:
        variant: by its name here, e.g. do_iqs_lb.
        states: of each training path, a row for each time, as its file has them; (T, D).
        times: of each training path; (T,).
        stopped: whether the expert stopped at a path's last row.
        epochs: to train.
        batch_size: rows of a batch.
        settings: of the model here, by name: hidden, gamma, learning_rate and so on.
    """

    variant: str
    states: Sequence[np.ndarray]
    times: Sequence[np.ndarray]
    stopped: np.ndarray
    epochs: int
    batch_size: int
    settings: Mapping[str, Any]


def find(name: str) -> Callable[[Task], Any]:
    """Return the callable named as module:function; the working folder is looked into, too.

    Args:
        name: as it is given on the command line.
    """
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), function or "train")
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"error: {name}: {error}; give MODULE:FUNCTION") from None
    if not callable(found):
        raise SystemExit(f"error: {name} is no function")
    return found  # type: ignore[no-any-return]


def task(variant: str, data: str, seed: int, epochs: int) -> Task:
    """Return what is to be trained.

    Args:
        variant: by name.
        data: name of the set.
        seed: of the split.
        epochs: to train.
    """
    settings = read_settings(ROOT / f"configs/data/{DATA_SETS[data].file}.yaml")["data"]
    kind = getattr(datamodules, settings["class_path"])
    module = kind(**(settings.get("init_args") or {}), seed=seed)
    module.setup("fit")
    paths = module.splits.train
    cuts = paths.offsets[1:-1]
    return Task(
        variant, np.split(paths.states, cuts), np.split(paths.times, cuts), paths.stopped,
        epochs, module.batch_size, dict(find_variant(variant).model["init_args"]),
    )  # fmt: skip


def theirs(train: Callable[[Task], Any], one: Task) -> float:
    """Return processor seconds of an epoch: some epochs more than one, over their number.

    Args:
        train: the other implementation.
        one: what it is asked to do, with the number of epochs beside the first.
    """
    spent = []
    for epochs in (1, 1 + one.epochs):
        start = cpu_seconds()
        train(one._replace(epochs=epochs))
        spent.append(cpu_seconds() - start)
    return (spent[1] - spent[0]) / one.epochs


def ours(variant: str, data: str, seed: int, epochs: int, mode: str) -> float:
    """Return processor seconds of a whole epoch of train.py, the median of all but the first.

    Args:
        variant: by name.
        data: name of the set.
        seed: of the run.
        epochs: beside the first.
        mode: how steps are done.
    """
    words = (f"--seed_everything={seed}", f"--compile={mode}", "--threads=1")
    return median(run_train(variant, 1 + epochs, *words, data=data).whole_epochs[1:])


def compare(
    train: Callable[[Task], Any], variant: str, data: str, repeats: int, epochs: int
) -> dict[str, Any]:
    """Return seconds per epoch, medians over repeats in turn, and how many times faster ours are.

    Args:
        train: the other implementation.
        variant: by name.
        data: name of the set.
        repeats: of each measurement.
        epochs: beside the first.
    """
    taken: dict[str, list[float]] = {"theirs": [], **{way: [] for way in WAYS}}
    for seed in range(repeats):
        taken["theirs"].append(theirs(train, task(variant, data, seed, epochs)))
        for way, mode in WAYS.items():
            taken[way].append(ours(variant, data, seed, epochs, mode))
    seconds = {way: median(values) for way, values in taken.items()}
    times = {f"times_{way}": round(seconds["theirs"] / seconds[way], 1) for way in WAYS}
    return {"variant": variant, "data": data, **seconds, **times}


def main() -> None:
    """Print a line of JSON for each variant."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("other", help="MODULE:FUNCTION")
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS, metavar="NAME",
        help=f"of {', '.join(VARIANTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--data", default="CP1", choices=DATA_SETS, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="beside the first (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    train = find(args.other)
    for variant in args.variants:
        print(json.dumps(compare(train, variant, args.data, args.repeats, args.epochs)), flush=True)


if __name__ == "__main__":
    main()
