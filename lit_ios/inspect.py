"""What a table holds, before training on it: `lit-ios inspect my.csv`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lit_ios.checks import UserError
from lit_ios.leaks import find_leaks
from lit_ios.readers import TableError, TableRoles, read_columns, read_paths
from lit_ios.readers.table import holds_dates
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


def inspect_table(file: str, roles: Mapping[str, Any], figure: Path | None = None) -> None:
    """Print what a file holds; what would be rejected is an error.

    Args:
        file: CSV, compressed CSV or Parquet file, or a folder of them.
        roles: arguments of TableRoles. Without path and time, columns are all that is shown.
        figure: PNG file to draw; <file>_inspect.png by default.
    """
    print("\n".join(describe_columns(file)))
    unnamed = [role for role in ("path", "time") if role not in roles]
    if unnamed:
        wanted = " and ".join(f"--{role} COLUMN" for role in unnamed)
        print(f"\nto see its paths, say which column is what: add {wanted}")
        return
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in roles.items()
    }
    described = TableRoles(**known)
    try:
        paths = read_paths(file, described)
    except TableError as error:
        raise UserError(f"would be rejected: {error}") from None
    print("\n" + "\n".join(describe_paths(paths)))
    for leak in find_leaks(paths):
        print(f"possible leak: {leak.sentence}")
    from lit_ios.plotting import feature_paths

    target = figure or Path(f"{Path(file).name.split('.')[0]}_inspect.png")
    dates = described.time_unit if holds_dates(file, described, paths.times) else None
    feature_paths(paths, dates=dates).savefig(target, dpi=120)
    print(f"\nfigure     {target}")
