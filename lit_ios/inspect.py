"""What a table holds, before training on it: `python -m lit_ios.inspect my.csv --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from lit_ios.leaks import find_leaks
from lit_ios.readers import Missing, TableError, TableRoles, read_columns, read_paths
from lit_ios.readers.dates import holds_dates
from lit_ios.times import TimeUnit
from lit_ios.trajectories import TrajectorySet


def describe_columns(file: str) -> Iterator[str]:
    """Yield a line per column of the file: type, missing cells, distinct values."""
    table = read_columns(file)
    yield f"{file}: {table.num_rows} rows, {table.num_columns} columns"
    width = max(len(name) for name in table.column_names)
    for name in table.column_names:
        column = table[name]
        distinct = len(column.unique())
        note = " (constant)" if distinct == 1 else ""
        yield (
            f"  {name:<{width}}  {column.type!s:<10} {column.null_count:>8} missing "
            f"{distinct:>8} distinct{note}"
        )


def describe_paths(paths: TrajectorySet) -> Iterator[str]:
    """Yield lines on paths, stops and features."""
    lengths, stops = paths.lengths, int(paths.stopped.sum())
    rows = len(paths.states)
    low, median, high = np.quantile(lengths, [0, 0.5, 1])
    yield f"paths      {len(paths)}: {stops} stopped, {len(paths) - stops} censored"
    yield f"lengths    {low:g} to {high:g} rows, median {median:g}"
    spans = paths.times[paths.last_rows] - paths.times[paths.offsets[:-1]]
    yield f"durations  {spans.min():g} to {spans.max():g}, median {np.median(spans):g}"
    yield f"stop rows  {stops} of {rows}, {stops / rows:.2%}"
    yield "features"
    width = max(len(name) for name in paths.feature_names)
    for name, values in zip(paths.feature_names, paths.states.T, strict=True):
        note = "  (constant)" if values.min() == values.max() else ""
        yield (
            f"  {name:<{width}}  mean {values.mean():<11.4g} sd {values.std():<11.4g} "
            f"min {values.min():<11.4g} max {values.max():.4g}{note}"
        )


def main(args: list[str] | None = None) -> int:
    """Print what the file holds and what would be rejected; return 1 if it would be."""
    options = _parser().parse_args(args)
    roles = TableRoles(
        path=options.path,
        time=options.time,
        features=None if options.features is None else tuple(options.features),
        stop=options.stop,
        censored=options.censored,
        missing=options.missing,
        sort=options.sort,
        time_unit=options.time_unit,
    )
    try:
        print("\n".join(describe_columns(options.file)))
        paths = read_paths(options.file, roles)
    except TableError as error:
        print(f"\nwould be rejected: {error}", file=sys.stderr)
        return 1
    print("\n" + "\n".join(describe_paths(paths)))
    for leak in find_leaks(paths):
        print(f"possible leak: {leak.sentence}")
    from lit_ios.plotting import feature_paths

    figure = Path(options.figure or f"{Path(options.file).name.split('.')[0]}_inspect.png")
    dates = options.time_unit if holds_dates(options.file, roles, paths.times) else None
    feature_paths(paths, dates=dates).savefig(figure, dpi=120)
    print(f"\nfigure     {figure}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lit_ios.inspect", description=__doc__)
    parser.add_argument("file", help="CSV, compressed CSV or Parquet file, or a folder of them")
    parser.add_argument("--path", required=True, help="names the path a row belongs to")
    parser.add_argument("--time", required=True, help="numbers or dates")
    parser.add_argument("--features", nargs="+", help="columns of the state (default: the rest)")
    parser.add_argument("--stop", help="1 where the expert stopped")
    parser.add_argument("--censored", help="1 on the rows of censored paths")
    parser.add_argument("--missing", choices=get_args(Missing), default="error")
    parser.add_argument("--sort", action="store_true", help="sort the rows of each path by time")
    parser.add_argument("--time_unit", choices=get_args(TimeUnit), default="hours")
    parser.add_argument("--figure", help="PNG file to draw (default: <file>_inspect.png)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
