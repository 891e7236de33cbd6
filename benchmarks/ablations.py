"""How much each choice matters: one setting changed at a time, on three data sets.

Settings of DO-IQS-LB by default; with --outlook, the options from the paper's outlook, each beside
the method it changes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from scipy import stats

from benchmarks.grid import ROOT, Job
from benchmarks.paper import add_grid_options, run_grid, seeds_of

RESULTS = ROOT / "benchmarks/results/ablations.csv"
DATA = ("CP3", "radial", "star")
PATHS = (25, 50, 100, 200, 400, 800)  # for training
VALIDATION_SHARE = 0.3


OUTLOOK = {  # label: the method, its options, the method it is compared with, and its options
    "stop_target 0.5": ("iqs_lb", "--model.init_args.stop_target=0.5", "iqs_lb", ""),
    "stop_target 2": ("iqs_lb", "--model.init_args.stop_target=2", "iqs_lb", ""),
    "gaussian dynamics": (
        "model_based_iqs_lb", "--model.init_args.dynamics_error=gaussian", "model_based_iqs_lb", "",
    ),
    "… and 8 drawn successors": (
        "model_based_iqs_lb",
        "--model.init_args.dynamics_error=gaussian --model.init_args.successor_samples=8",
        "model_based_iqs_lb", "--model.init_args.dynamics_error=gaussian",
    ),
    "8 members sharing their dynamics": (
        "model_based_iqs_lb",
        "--model.init_args.members=8 --model.init_args.dynamics_ensemble=true",
        "model_based_iqs_lb", "--model.init_args.members=8",
    ),
    "confidence decayed": ("iqs_cs_smote", "", "iqs_smote", ""),
    "confidence by neighbors": (
        "iqs_smote", "--data.init_args.synthetic_confidence=neighbors", "iqs_smote", "",
    ),
    "confidence by a discriminator": (
        "iqs_smote", "--data.init_args.synthetic_confidence=discriminator", "iqs_smote", "",
    ),
    "SMOTE in 4 windows of time": (
        "iqs_smote", "--data.init_args.smote_windows=4", "iqs_smote", "",
    ),
}  # fmt: skip


def outlook_markdown(rows: Iterable[Mapping[str, str]], data: Iterable[str]) -> Iterator[str]:
    """Yield a table: with, without, and the mean paired difference with its 95 % interval."""
    known: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        key = row["dataset"], row["variant"], row["options"]
        known[key][row["seed"]] = float(row["balanced_accuracy"])
    data = list(data)
    yield "| | " + " | ".join(data) + " | difference, all sets |"
    yield "|---" * (len(data) + 2) + "|"
    for label, (method, options, other, plain) in OUTLOOK.items():
        cells, differences = [], []
        for one in data:
            found, without = known[one, method, options], known[one, other, plain]
            both = sorted(set(found) & set(without))
            values = np.array([[without[seed], found[seed]] for seed in both]).reshape(-1, 2)
            means = values.mean(0) if both else (np.nan, np.nan)
            cells.append(f"{means[0]:.3f} → {means[1]:.3f}" if both else "")
            differences += list(values[:, 1] - values[:, 0])
        reach = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
        change = f"{np.mean(differences):+.3f} ± {reach:.3f}" if len(differences) > 1 else ""
        yield f"| {label} | " + " | ".join(cells) + f" | {change} |"


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
    parser.add_argument("--outlook", action="store_true", help="the paper's outlook instead")
    add_grid_options(parser, RESULTS, seeds=5)
    args = parser.parse_args()
    if args.outlook:
        if args.file == RESULTS:
            args.file = RESULTS.with_name("outlook.csv")
        settings = {(m, o) for one in OUTLOOK.values() for m, o in (one[:2], one[2:])}
        jobs = [
            Job(data, method, seed, args.epochs, tuple(options.split()))
            for seed in seeds_of(args)
            for data in args.data
            for method, options in sorted(settings)
        ]
        rows, failed = run_grid(jobs, args)
        text = "\n".join(outlook_markdown(rows, args.data))
        print(text)
        args.file.with_name("outlook.md").write_text(text + "\n")
        raise SystemExit(
            f"{failed} runs failed; the same command tries them again" if failed else 0
        )
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
