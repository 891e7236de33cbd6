"""How much each choice matters: one setting of DO-IQS-LB changed at a time, on three data sets."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from benchmarks.grid import ROOT, Job
from benchmarks.paper import add_grid_options, run_grid, seeds_of

RESULTS = ROOT / "benchmarks/results/ablations.csv"
DATA = ("CP3", "radial", "star")
PATHS = (25, 50, 100, 200, 400, 800)  # for training
VALIDATION_SHARE = 0.3


def choices() -> dict[str, dict[str, str]]:
    """Return option by name, in groups; the empty option is the default of every group."""
    values = {
        "divergence": ("hellinger", "kl", "kl_fix", "js", "tv"),
        "value_term": ("initial", "literal", "discounted"),
        "dynamics_error": ("l1", "gaussian"),
        "value_aware": ("true",),
        "gain_target": ("residual", "scaled"),
        "updates": ("alternating",),
        "hidden": ("[16,16]", "[32,32]", "[128,128]", "[32,64,128]"),
    }
    groups = {
        name: {value: f"--model.init_args.{name}={value}" for value in known}
        for name, known in values.items()
    }
    groups["training paths"] = {
        str(n): f"--data.init_args.paths={round(n / (1 - VALIDATION_SHARE))}" for n in PATHS
    }
    return {"default": {"": ""}} | groups


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def markdown(rows: Iterable[Mapping[str, str]], data: Iterable[str]) -> Iterator[str]:
    """Yield a table: mean ± 2 sd, and the mean paired difference to the default."""
    known: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        known[row["dataset"], row["options"]][row["seed"]] = float(row["balanced_accuracy"])
    data = list(data)
    yield "| | | " + " | ".join(data) + " | mean difference |"
    yield "|---" * (len(data) + 3) + "|"
    for group, options in choices().items():
        for name, option in options.items():
            cells, differences = [], []
            for one in data:
                found, default = known[one, option], known[one, ""]
                values = np.array(list(found.values()))
                cells.append(f"{values.mean():.3f} ± {2 * _deviation(values):.2f}" if found else "")
                differences += [found[seed] - default[seed] for seed in found if seed in default]
            change = f"{np.mean(differences):+.3f}" if differences and option else ""
            yield f"| {group} | {name} | " + " | ".join(cells) + f" | {change} |"


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablations", description=__doc__)
    parser.add_argument("--data", nargs="+", default=DATA, help="data sets (%(default)s)")
    parser.add_argument("--variant", default="do_iqs_lb", help="what is changed (%(default)s)")
    parser.add_argument("--epochs", type=int, default=80, help="epochs per run (%(default)s)")
    add_grid_options(parser, RESULTS, seeds=3)
    args = parser.parse_args()
    options = [option for group in choices().values() for option in group.values()]
    jobs = [
        Job(data, args.variant, seed, args.epochs, (option,) if option else ())
        for seed in seeds_of(args)
        for data in args.data
        for option in options
    ]
    rows, failed = run_grid(jobs, args)
    text = "\n".join(markdown(rows, args.data))
    print(text)
    args.file.with_suffix(".md").write_text(text + "\n")
    if failed:
        raise SystemExit(f"{failed} runs failed; the same command tries them again")


if __name__ == "__main__":
    main()
