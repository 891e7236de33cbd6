"""What a table holds, before training on it: `lit-ios inspect my.csv`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lit_ios.checks import UserError
from lit_ios.files import write_figure
from lit_ios.leaks import find_leaks
from lit_ios.readers import TableError, TableRoles, read_columns, read_paths
from lit_ios.readers.dialects import Dialect
from lit_ios.readers.files import BY_MEMORY, FIND_OUT
from lit_ios.readers.limits import Limits
from lit_ios.readers.summaries import column_summary
from lit_ios.readers.table import holds_dates
from lit_ios.times import SECONDS, TimeUnit
from lit_ios.trajectories import FloatArray, TrajectorySet

MOST_DRAWN = 9  # features


def describe_columns(
    file: str,
    path: str | None = None,
    dialect: Dialect = FIND_OUT,
    limits: Limits = BY_MEMORY,
) -> Iterator[str]:
    """Yield a line per column of the file: what it holds, missing cells, distinct values.

    Args:
        file: as for `read_columns`.
        path: column that names the paths; tells which others are the same on all rows of a path.
        dialect: how CSV files are written.
        limits: the largest file that is read.
    """
    table = read_columns(file, dialect=dialect, limits=limits)
    yield f"{file}: {table.num_rows} rows, {table.num_columns} columns"
    width = max(len(name) for name in table.column_names)
    owners = None if path not in table.column_names else column_summary(table[path]).codes
    for name in table.column_names:
        found = column_summary(table[name])
        static = owners is not None and name != path and found.is_static(owners)
        note = "  (constant)" if found.distinct == 1 else "  (static)" if static else ""
        yield (
            f"  {name:<{width}}  {found.kind:<10} {found.missing:>7.2%} missing "
            f"{found.distinct:>8} distinct  {found.span}{note}".rstrip()
        )


def describe_paths(paths: TrajectorySet, unit: TimeUnit | None = None) -> Iterator[str]:
    """Yield lines on paths, stops and features; `unit` is that of times that are dates."""
    lengths, stops = paths.lengths, int(paths.stopped.sum())
    rows = len(paths.states)
    low, median, high = np.quantile(lengths, [0, 0.5, 1])
    yield f"paths      {len(paths)}: {stops} stopped, {len(paths) - stops} censored"
    yield f"lengths    {low:g} to {high:g} rows, median {median:g}"
    spans = paths.times[paths.last_rows] - paths.times[paths.offsets[:-1]]
    yield f"durations  {spans.min():g} to {spans.max():g}, median {np.median(spans):g} {unit or ''}"
    if unit is not None:
        ends = (np.array([paths.times.min(), paths.times.max()]) * SECONDS[unit]).round()
        first, last = np.datetime_as_string(ends.astype("datetime64[s]"), unit="m")
        yield f"dates      {first} to {last}"
    yield f"stop rows  {stops} of {rows}, {stops / rows:.2%}"
    yield "features"
    width = max(len(name) for name in paths.feature_names)
    for name, values in zip(paths.feature_names, paths.states.T, strict=True):
        yield f"  {name:<{width}}  {_describe_feature(values, paths.categories.get(name))}"


def _describe_feature(values: FloatArray, categories: Sequence[str] | None) -> str:
    known = values[np.isfinite(values)]
    gaps = f"  {1 - len(known) / len(values):.2%} missing" if len(known) < len(values) else ""
    if categories is not None:
        return f"text of {len(categories)} categories{gaps}"
    if not len(known):
        return gaps.strip()
    note = "  (constant)" if known.min() == known.max() else ""
    return (
        f"mean {known.mean():<11.4g} sd {known.std():<11.4g} "
        f"min {known.min():<11.4g} max {known.max():.4g}{gaps}{note}"
    )


def inspect_table(file: str, roles: Mapping[str, Any], figure: Path | None = None) -> None:
    """Print what a file holds; what would be rejected is an error.

    Args:
        file: CSV, compressed CSV or Parquet file, or a folder of them.
        roles: arguments of TableRoles. Without path and time, columns are all that is shown.
        figure: PNG file to draw; <file>_inspect.png by default.
    """
    dialect = Dialect.of(roles.get("separator"), roles.get("decimal"))
    limits = Limits(roles.get("max_rows"), roles.get("max_bytes"))
    limits.check()
    print("\n".join(describe_columns(file, roles.get("path"), dialect, limits)))
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
    dates = described.time_unit if holds_dates(file, described, paths.times) else None
    print("\n" + "\n".join(describe_paths(paths, dates)))
    for leak in find_leaks(paths):
        print(f"possible leak: {leak.sentence}")
    static = [paths.feature_names[i] for i in np.flatnonzero(paths.static)]
    if static:
        print(
            f"static     {', '.join(static)}: the same on all rows of a path; leave out (--drop) "
            "what is not known when a path begins, such as outcomes"
        )
    from lit_ios.plotting import feature_paths
    from lit_ios.relevance import telling_features

    target = figure or Path(f"{Path(file).name.split('.')[0]}_inspect.png")
    shown = telling_features(paths)[:MOST_DRAWN].tolist()
    unit = "" if dates else described.time
    write_figure(target, feature_paths(paths, shown, dates=dates, unit=unit))
    print(f"\nfigure     {target}")
