"""What surrounds the steps of a whole run: seconds of the processor, piece by piece.

Each run is `lit-ios fit` with its figures, curves, checkpoints, final test and report, without the
baseline's line, in a fresh process with one thread; steps eager and compiled, the compiled ones
built before. Medians of runs in turn, also with those of another checkout of the project.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks import machine
from benchmarks.grid import ROOT

RESULTS = ROOT / "benchmarks/results/around.json"
WAYS = {"eager": "never", "compiled": "cached"}
Seconds = dict[str, float]  # by piece


def run(
    checkout: Path, folder: Path, variant: str, data: str, compile: str, epochs: int
) -> Seconds:
    """Train in a fresh process of a checkout; return seconds by piece.

    Args:
        checkout: whose code runs.
        folder: for what it writes.
        variant: to train.
        data: name of a data set.
        compile: as for --compile.
        epochs: to train.
    """
    words = [
        "fit", f"--data={data}", f"--model={variant}", f"--compile={compile}", "--no-baseline",
        f"--trainer.max_epochs={epochs}", f"--runs_dir={folder}", "--threads=1",
    ]  # fmt: skip
    told = {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        # -P: the folder of the file holds modules of the names of Python's own
        [sys.executable, "-P", str(ROOT / "benchmarks/one_run.py"), *words],
        check=True, cwd=folder, env=os.environ | told, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: Seconds = json.loads(done.stdout.splitlines()[-1])
    return found


def summed_up(runs: Sequence[Seconds]) -> Seconds:
    """Return medians by piece, and of whole runs with their start-up apart."""
    names = sorted({name for one in runs for name in one})
    whole = [sum(one.values()) - one["start-up"] for one in runs]
    pieces = {name: median(one.get(name, 0.0) for one in runs) for name in names}
    ordered = dict(sorted(pieces.items(), key=lambda item: -item[1]))
    return {
        name: round(value, 3)
        for name, value in ({"whole, start-up apart": median(whole)} | ordered).items()
    }


def measure(
    checkouts: dict[str, Path], variants: Sequence[str], data: str, epochs: int, repeats: int
) -> dict[str, Any]:
    """Return seconds by variant, checkout, way of stepping and piece."""
    cases = [(v, c, way) for v in variants for c in checkouts for way in WAYS]
    runs: dict[tuple[str, str, str], list[Seconds]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variant in variants:
            for checkout in checkouts.values():
                run(checkout, folder, variant, data, "build", 1)
        for _ in tqdm(range(repeats), desc="runs", unit="round"):
            for variant, checkout, way in cases:
                found = run(checkouts[checkout], folder, variant, data, WAYS[way], epochs)
                runs[variant, checkout, way].append(found)
    return {
        variant: {
            checkout: {way: summed_up(runs[variant, checkout, way]) for way in WAYS}
            for checkout in checkouts
        }
        for variant in variants
    }


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.around", description=__doc__)
    parser.add_argument("--variants", nargs="+", default=["iqs", "do_iqs_lb"])
    parser.add_argument("--data", default="CP1", help="data set (%(default)s)")
    parser.add_argument("--epochs", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind (%(default)s)")
    parser.add_argument("--beside", type=Path, help="folder of another checkout, run in turn")
    parser.add_argument("--file", type=Path, default=RESULTS, help="(%(default)s)")
    args = parser.parse_args()
    checkouts = {"here": ROOT} | ({"beside": args.beside.absolute()} if args.beside else {})
    found = measure(checkouts, args.variants, args.data, args.epochs, args.repeats)
    for variant, by_checkout in found.items():
        for checkout, ways in by_checkout.items():
            print(f"\n{variant}, {checkout}: seconds of {args.epochs} epochs on {args.data}")
            for piece in ways["eager"]:
                values = "".join(f"{ways[way].get(piece, 0.0):10.2f}" for way in WAYS)
                print(f"{values}  {piece}")
    about = {"epochs": args.epochs, "data": args.data, "machine": machine.describe()}
    args.file.write_text(json.dumps(about | {"seconds": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
