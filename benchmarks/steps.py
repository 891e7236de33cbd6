"""Milliseconds of a training step, eager and compiled, in one run: all variants, and memory."""

from __future__ import annotations

from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.methods import FOLDS, MANY_PATHS, PATHS, VARIANTS
from benchmarks.observed import run_train

_GRU = (*PATHS, "--model.init_args.memory=gru")
_ACCUMULATE = (*PATHS, "--model.init_args.memory=accumulate")
_BATCHES = "--data.init_args.batch_size"
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ()) for name in VARIANTS},
    "do_iqs_lb, gain_gradient": ("do_iqs_lb", ("--model.init_args.gain_gradient=true",)),
    "iqs_lb": ("iqs", PATHS),
    "iqs_lb, accumulate": ("iqs", _ACCUMULATE),
    "iqs_lb, gru": ("iqs", _GRU),
    "iqs_lb, gru, 512 rows": ("iqs", (*_GRU, *MANY_PATHS)),
    "iqs, 8 members": ("iqs", FOLDS),
    "iqs, 8 members, accumulate": ("iqs", (*FOLDS, *_ACCUMULATE)),
    "iqs, 8 members, gru": ("iqs", (*FOLDS, *_GRU)),
    "iqs, 8 members, gru, 512 rows": ("iqs", (*FOLDS, *_GRU, *MANY_PATHS)),
}
WAYS = {"eager": "never", "compiled": "build"}


def compiled_over_eager(repeats: int, epochs: int = 6, *options: str) -> dict[str, Any]:
    """What a step takes of the processor both ways, in turn, on CP1, by train.py's own path.

    With the choice and gathering of its rows; the first epoch, in which a step may be compiled, is
    left out.

    Args:
        repeats: runs of each case and way.
        epochs: of each run.
        options: further ones for train.py.
    """
    found: dict[str, dict[str, float]] = {}
    for name, (variant, own) in tqdm(CASES.items(), desc="compiled_over_eager", unit="case"):
        taken: dict[str, list[float]] = {way: [] for way in WAYS}
        for seed in range(repeats):
            for way, mode in WAYS.items():
                words = (f"--compile={mode}", f"--seed_everything={seed}", "--threads=1")
                seen = run_train(variant, epochs, *own, *words, *options)
                taken[way] += [1e3 * s / seen.raw.loader.batches for s in seen.cpu_epochs[1:]]
        found[name] = {way: round(median(values), 4) for way, values in taken.items()}
    return {
        "compiled_over_eager": {
            name: round(found[name]["compiled"] / found[name]["eager"], 3) for name in VARIANTS
        },
        "milliseconds_per_step_eager_and_compiled": found,
    }
