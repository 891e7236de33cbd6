"""Where the time of a training step goes: `python -m benchmarks.profile do_iqs_lb`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.methods import VARIANTS
from benchmarks.observed import run_train
from datamodules.loaders import TrainLoader
from lit_ios.modules import StoppingModule


class Stopwatch:
    """Adds up the time spent in some functions."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def around(self, function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """Return the function, timed under the name that its arguments give."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name(*args)] += time.perf_counter() - start

        return timed

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the parts of a step."""
        timed: list[tuple[type, str, Callable[..., str]]] = [
            (TrainLoader, "_plan", lambda *_: "plan of the epoch"),
            (TrainLoader, "_gather", lambda *_: "gathering batches"),
            (StoppingModule, "_part_loss", lambda _, part, *__: f"forward, {part}"),
            (torch.Tensor, "backward", lambda *_: "backward"),
            (torch.optim.Adam, "step", lambda *_: "optimizers"),
        ]
        with ExitStack() as stack:
            for owner, name, label in timed:
                function = self.around(getattr(owner, name), label)
                stack.enter_context(patch.object(owner, name, function))
            yield


def breakdown(variant: str, epochs: int) -> list[tuple[str, float]]:
    """Return the milliseconds of a step by what they are spent on."""
    watch = Stopwatch()
    with watch.running():
        seen = run_train(variant, epochs)
    steps = seen.raw.loader.batches * epochs
    parts = [(name, 1e3 * seconds / steps) for name, seconds in watch.seconds.most_common()]
    whole = 1e3 * sum(seen.epochs) / steps
    rest = whole - sum(milliseconds for _, milliseconds in parts)
    between = 1e3 * (seen.seconds - sum(seen.epochs)) / steps
    return [
        *parts,
        ("the rest of a step: terms, Python, Lightning", rest),
        ("step", whole),
        ("between epochs: validation, logging, checkpoints (per step)", between),
    ]


def operators(variant: str, trace: Path | None, rows: int) -> str:
    """Return the table of the operators that take most time in a few epochs."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        run_train(variant, 3)
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    table = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows)
    return str(table)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("variant", choices=VARIANTS, metavar="VARIANT", help=", ".join(VARIANTS))
    parser.add_argument("--epochs", type=int, default=30, help="epochs on CP1 (default: 30)")
    parser.add_argument("--operators", type=int, default=15, help="operators shown (default: 15)")
    parser.add_argument("--trace", type=Path, help="also write a trace for chrome://tracing")
    args = parser.parse_args()
    run_train(args.variant, 2)  # warm up
    for name, milliseconds in breakdown(args.variant, args.epochs):
        print(f"{name:<62} {milliseconds:8.3f} ms")
    print(operators(args.variant, args.trace, args.operators))


if __name__ == "__main__":
    main()
