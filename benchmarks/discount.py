"""A learner who does not know the expert's discount: bmG, expert 0.75, learner 0.4 … 1.

With time in the state the learner can make up for a wrong discount; without it, it should not.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import CONTINUE, STOP
from benchmarks.grid import ROOT, Job
from benchmarks.paper import add_grid_options, run_grid, seeds_of
from lit_ios.plotting import styled

RESULTS = ROOT / "benchmarks/results/discount.csv"
EXPERT = 0.75
LEARNER = (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)
TIME = {"true": "time in the state", "false": "no time in the state"}


def options(gamma: float, time: str) -> tuple[str, ...]:
    """Return what makes a run with this discount, with or without time."""
    return (
        f"--data.init_args.gamma_expert={EXPERT}",
        f"--model.init_args.gamma={gamma}",
        f"--data.init_args.include_time={time}",
    )


def collect(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, float], list[float]]:
    """Return balanced accuracies over seeds, by time and the learner's discount."""
    names = {" ".join(options(gamma, time)): (time, gamma) for gamma in LEARNER for time in TIME}
    found = defaultdict(list)
    for row in rows:
        found[names[row["options"]]].append(float(row["balanced_accuracy"]))
    return found


@styled
def draw(found: Mapping[tuple[str, float], list[float]]) -> Figure:
    """Draw mean and two standard errors against the learner's discount."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    for (time, label), colour, marker in zip(TIME.items(), (CONTINUE, STOP), "os", strict=True):
        known = [(g, found[time, g]) for g in LEARNER if (time, g) in found]
        x, means = [g for g, _ in known], [np.mean(v) for _, v in known]
        errors = [2 * np.std(v, ddof=1) / len(v) ** 0.5 if len(v) > 1 else 0.0 for _, v in known]
        axes.errorbar(x, means, errors, color=colour, marker=marker, capsize=2, label=label)
    axes.axvline(EXPERT, color="0.6", linestyle=":", label="the expert's discount")
    axes.set(xlabel="the learner's discount γ", ylabel="balanced accuracy")
    axes.legend()
    return figure


def main() -> None:
    """Run what is missing, print the table and draw the figure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.discount", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--variant", default="do_iqs_lb", help="the learner (%(default)s)")
    parser.add_argument("--epochs", type=int, default=80, help="epochs per run (%(default)s)")
    add_grid_options(parser, RESULTS, seeds=10)
    args = parser.parse_args()
    jobs = [
        Job("bmG", args.variant, seed, args.epochs, options(gamma, time))
        for seed in seeds_of(args)
        for gamma in LEARNER
        for time in TIME
    ]
    rows, failed = run_grid(jobs, args)
    found = collect(rows)
    lines = [
        "| | " + " | ".join(f"γ = {g:g}" for g in LEARNER) + " |",
        "|---" * (len(LEARNER) + 1) + "|",
    ]
    for time, label in TIME.items():
        cells = [found.get((time, g), []) for g in LEARNER]
        texts = [
            f"{np.mean(v):.3f} ± {2 * np.std(v, ddof=1):.2f}" if len(v) > 1 else "" for v in cells
        ]
        lines.append(f"| {label} | " + " | ".join(texts) + " |")
    text = "\n".join(lines)
    print(text)
    args.file.with_suffix(".md").write_text(text + "\n")
    file = args.file.with_suffix(".png")
    draw(found).savefig(file, dpi=110)
    print(f"figure  {file}")
    if failed:
        raise SystemExit(f"{failed} runs failed; the same command tries them again")


if __name__ == "__main__":
    main()
