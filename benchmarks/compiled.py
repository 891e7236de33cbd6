"""Whether compiled steps learn as well as eager ones: the same runs with both, seed by seed.

    python -m benchmarks.paper --compile never --file eager.csv
    python -m benchmarks.paper --compile build --file compiled.csv
    python -m benchmarks.compiled eager.csv compiled.csv

Prints compiled minus eager for each variant, with 95 % intervals, and what the runs cost.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.grid import ROOT, Row, key_of, read_rows
from benchmarks.methods import DATA_SETS
from benchmarks.paper import LABELS, RESULTS

COMPILED = ROOT / "benchmarks/results/compiled.csv"


class Difference(NamedTuple):
    """Mean of paired differences over runs, their 95 % interval's half, and how many there are."""

    mean: float
    reach: float
    runs: int

    def __str__(self) -> str:
        """Write it for a table."""
        return "" if self.runs < 2 else f"{self.mean:+.4f} ± {self.reach:.4f}"


def difference(values: list[float]) -> Difference:
    """Return the mean of differences and how far it may be off.

    Args:
        values: one of each pair of runs.
    """
    if len(values) < 2:
        return Difference(float("nan"), float("nan"), len(values))
    reach = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
    return Difference(float(np.mean(values)), reach, len(values))


def pairs(eager: list[Row], compiled: list[Row]) -> list[tuple[Row, Row]]:
    """Return the runs that were done both ways.

    Args:
        eager: rows of results; those of compiled steps are left out.
        compiled: the same; those of eager steps are left out.
    """
    known = {key_of(row): row for row in eager if row["compiled_steps"] != "True"}
    return [
        (known[key_of(row)], row)
        for row in compiled
        if row["compiled_steps"] == "True" and key_of(row) in known
    ]


def table(both: list[tuple[Row, Row]]) -> Iterator[str]:
    """Yield the differences of each variant by data set, and over all of them."""
    differences: dict[tuple[str, str], list[float]] = {}
    for old, new in both:
        change = float(new["balanced_accuracy"]) - float(old["balanced_accuracy"])
        for data in (new["dataset"], "all"):
            for variant in (new["variant"], "all"):
                differences.setdefault((variant, data), []).append(change)
    data = [one for one in (*DATA_SETS, "all") if ("all", one) in differences]
    yield "| compiled − eager | " + " | ".join(data) + " | runs |"
    yield "|---" * (len(data) + 2) + "|"
    variants = dict.fromkeys(variant for variant, _ in differences)
    for variant in sorted(variants, key=lambda name: name == "all"):
        found = [difference(differences.get((variant, one), [])) for one in data]
        label = LABELS.get(variant, "all")
        yield f"| {label} | " + " | ".join(map(str, found)) + f" | {found[-1].runs} |"


def cost(rows: list[Row]) -> str:
    """Say what runs took of the processors, building steps included.

    Args:
        rows: of results.
    """
    known = [float(row["cpu_seconds"]) for row in rows if row["cpu_seconds"]]
    return f"{len(known)} runs took {sum(known) / 60:.1f} minutes of one core, builds included"


def main() -> None:
    """Print the table and keep it beside the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compiled", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("eager", type=Path, nargs="?", default=RESULTS, help="(%(default)s)")
    parser.add_argument("compiled", type=Path, nargs="?", default=COMPILED, help="(%(default)s)")
    args = parser.parse_args()
    for file in (args.eager, args.compiled):
        if not file.is_file():
            parser.error(f"there are no results in {file}: run benchmarks.paper --file {file}")
    rows = read_rows(args.compiled)
    text = "\n".join([*table(pairs(read_rows(args.eager), rows)), "", cost(rows)])
    print(text)
    args.compiled.with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
