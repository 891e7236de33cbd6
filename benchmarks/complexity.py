"""The paper's table of complexities, measured: time per epoch and per judged row of each method.

Epochs of all methods are run in turn, so that whatever else the machine does meets all alike; the
ratio to the classifier is the median over turns.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import torch
from tqdm import tqdm

from benchmarks.grid import ROOT
from benchmarks.methods import VARIANTS
from benchmarks.speed import epoch_seconds, make_model
from datamodules import ChangePointData, PathLoader
from lit_ios.variants import find_variant

RESULTS = ROOT / "benchmarks/results/complexity.md"
PAPER = {
    "classifier": "n_NN",
    "classifier_smote": "n_NN, more rows, SMOTE once",
    "iqs": "n_NN",
    "iqs_smote": "n_NN, more rows, SMOTE once",
    "iqs_cs_smote": "n_NN, more rows, SMOTE once",
    "model_based_iqs": "n_NN + n_p",
    "model_based_iqs_smote": "n_NN + n_p, more rows, SMOTE once",
    "model_based_iqs_cs_smote": "n_NN + n_p, more rows, SMOTE once",
    "do_iqs": "n_NN,g + n_p + n_g",
    "do_iqs_lb": "n_NN,g + n_p + n_g, bootstrap",
}
MEMORIES = {"iqs, accumulate": "accumulate", "iqs, gru": "gru"}


def measure(turns: int) -> dict[str, tuple[float, float, float]]:
    """Return milliseconds per epoch, their ratio to the classifier's, microseconds per row."""
    seconds: dict[str, list[float]] = defaultdict(list)
    rows: dict[str, list[float]] = defaultdict(list)
    for _ in tqdm(range(turns), unit="turn"):
        for name in (*VARIANTS, *MEMORIES):
            variant = name.partition(",")[0]
            options = find_variant(variant).data
            batches = {"batch_size": 512} if name == "iqs, gru" else {}
            data = ChangePointData(problem="CP1", **(options | batches))
            memory = {"memory": MEMORIES[name]} if name in MEMORIES else {}
            seconds[name].append(epoch_seconds(variant, data, 3, **memory))
            rows[name].append(_judge(variant, data, **memory))
    first = seconds["classifier"]
    return {
        name: (
            1e3 * median(times),
            median(a / b for a, b in zip(times, first, strict=True)),
            1e6 * median(rows[name]),
        )
        for name, times in seconds.items()
    }


def _judge(variant: str, data: ChangePointData, **options: str) -> float:
    """Return the seconds in which a row of whole paths is judged."""
    model = make_model(variant, data, **options).eval()
    batch = next(iter(PathLoader(data.splits.test)))
    with torch.inference_mode():
        model(batch)
        start = time.perf_counter()
        model(batch)
    return (time.perf_counter() - start) / len(batch.step)


def main() -> None:
    """Measure, print the table and keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.complexity", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--file", type=Path, default=RESULTS, help="table (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| method | the paper says | ms per epoch | over the classifier | µs per judged row |",
        "|---|---|---|---|---|",
    ]
    for name, (epoch, ratio, row) in measure(args.turns).items():
        label = find_variant(name.partition(",")[0]).label + (
            f", memory {MEMORIES[name]}" if name in MEMORIES else ""
        )
        lines.append(f"| {label} | {PAPER.get(name, '')} | {epoch:.0f} | {ratio:.2f} | {row:.2f} |")
    text = "\n".join(lines)
    print(text)
    args.file.write_text(text + "\n")


if __name__ == "__main__":
    main()
