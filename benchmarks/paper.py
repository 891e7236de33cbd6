"""Variants × data sets × seeds, as in the paper's tables and figures.

Finished runs are rows of a CSV file, written one by one; a second call does only what is missing.
Tables (Markdown, LaTeX) of all rows asked for are written beside it, and figures of the paper's ten
methods, or if none of them was asked for, of the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import baselines, figures, tables
from benchmarks.grid import (
    METRICS,
    PAYS,
    ROOT,
    Job,
    Row,
    curves_file,
    key_of,
    read_rows,
    run_all,
)
from benchmarks.methods import DATA_SETS, METHODS, VARIANTS
from lit_ios.scale import Place

RESULTS = ROOT / "benchmarks/results/paper.csv"
LABELS = {name: method.label for name, method in METHODS.items()} | baselines.NAMES


def add_grid_options(
    parser: argparse.ArgumentParser, file: Path, seeds: int = 5, compiles: bool = True
) -> None:
    """Add what benchmarks over many runs can be told; not all of them train by `run_grid`."""
    parser.add_argument("--seeds", type=int, default=seeds, help="number of seeds (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="where seeds begin (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time (%(default)s)")
    parser.add_argument(
        "--on", choices=("processes", "ray"), default="processes",
        help="processes of this machine (default), or a Ray cluster",
    )  # fmt: skip
    parser.add_argument("--address", help="of the Ray cluster; none starts one on this machine")
    parser.add_argument("--file", type=Path, default=file, help="results (%(default)s)")
    if compiles:
        parser.add_argument(
            "--compile",
            choices=("never", "build", "cached"),
            help=f"training steps (default: build for runs of {PAYS} epochs and more, else never)",
        )
    parser.add_argument(
        "--finished", action="store_true",
        help="run nothing: only show what the runs that are finished came to",
    )  # fmt: skip


def seeds_of(args: argparse.Namespace) -> range:
    """Return the seeds asked for."""
    return range(args.first_seed, args.first_seed + args.seeds)


def run_grid(jobs: list[Job], args: argparse.Namespace) -> tuple[list[dict[str, str]], int]:
    """Do what is missing; return the rows of all jobs, and how many failed."""
    failed = 0
    jobs = [job._replace(compile=args.compile) for job in jobs]
    if not args.finished:
        failed = run_all(jobs, args.file, Place(args.on, args.processes, args.address))
    keys = {job.key for job in jobs}
    return [row for row in read_rows(args.file) if key_of(row) in keys], failed


def write_tables(rows: list[Row], metrics: list[str], against: str | None, stem: Path) -> None:
    """Print the tables and keep them beside the results, in Markdown and in LaTeX."""
    text, tex = [], []
    for metric in metrics:
        table = tables.summarise(rows, metric, DATA_SETS, LABELS)
        text += [f"\n{metric}\n", *tables.markdown(table, metric, LABELS)]
        tex += [f"% {metric}", *tables.latex(table, metric, LABELS), ""]
        if against is not None:
            text += ["", *tables.paired_markdown(rows, LABELS, against, metric, LABELS)]
    print("\n".join(text))
    stem.with_suffix(".md").write_text("\n".join(text).lstrip() + "\n")
    stem.with_suffix(".tex").write_text("\n".join(tex))


def main() -> None:
    """Run the grid asked for, print its tables and draw its figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--data", nargs="+", default=list(DATA_SETS), choices=DATA_SETS, metavar="NAME",
        help=f"data sets, of {', '.join(DATA_SETS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--variants", nargs="+", default=list(LABELS), choices=LABELS, metavar="NAME",
        help=f"variants and baselines, of {', '.join(LABELS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, help="epochs per run (200, on real data 40)")
    add_grid_options(parser, RESULTS)
    parser.add_argument(
        "--metrics", nargs="+", default=["balanced_accuracy"], choices=METRICS, metavar="NAME",
        help=f"tables to print, of {', '.join(METRICS)} (default: balanced_accuracy)",
    )  # fmt: skip
    parser.add_argument(
        "--against", choices=LABELS, metavar="NAME",
        help="also print paired differences to this method, with 95 %% confidence intervals",
    )  # fmt: skip
    parser.add_argument("options", nargs="*", help="after --: further options for train.py")
    args = parser.parse_args()
    jobs = [
        Job(data, variant, seed, args.epochs or DATA_SETS[data].epochs, tuple(args.options))
        for seed in seeds_of(args)
        for data in args.data
        for variant in args.variants
    ]
    rows, failed = run_grid(jobs, args)
    stem = args.file.with_suffix("")
    write_tables(rows, args.metrics, args.against, stem)
    known = [row for row in rows if row["variant"] in VARIANTS]  # more would not be legible
    for figure in figures.draw(known or rows, curves_file(args.file), LABELS, stem):
        print(f"figure  {figure}")
    if failed:
        raise SystemExit(f"{failed} runs failed; the same command tries them again")


if __name__ == "__main__":
    main()
