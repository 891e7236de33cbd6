"""A naive reader: loops over rows say which paths a table holds, or that it is bad.

It knows three answers: these are the paths, and a reader must find them (`plain`); these are the
paths, but something is spelled so oddly that a reader may refuse it; the table is bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lit_ios.readers import TableRoles

Cells = list[float | None]


class BadTableError(Exception):
    """No paths can be read from this table."""


@dataclass
class Row:
    """One row: its path, time and features, None where missing, and its flags."""

    name: str
    time: float
    state: list[float | None]
    stop: bool = False
    lost: bool = False


@dataclass
class LoopPaths:
    """Paths as lists of rows, by name in order of appearance."""

    rows: dict[str, list[Row]]
    stopped: list[bool]
    feature_names: list[str]
    plain: bool


def loop_rows(
    rows: list[Row], feature_names: list[str], roles: TableRoles, training: bool, plain: bool
) -> LoopPaths:
    """Group rows into paths and check each."""
    paths: dict[str, list[Row]] = {}
    for row in rows:
        path = paths.setdefault(row.name, [])
        if roles.duplicates == "error" or row not in path:
            path.append(row)
    if roles.sort:
        for path in paths.values():
            path.sort(key=lambda row: row.time)
    outcome = all(len({row.stop for row in path}) == 1 for path in paths.values())
    stopped = []
    for name, path in paths.items():
        if any(not before.time < after.time for before, after in pairwise(path)):
            raise BadTableError(f"times of path {name!r} do not increase")
        if any(row.stop for row in path[:-1]) and not outcome:
            raise BadTableError(f"rows of path {name!r} after its stop")
        ends = path[-1].stop if roles.stop is not None else True
        lost = any(row.lost for row in path)
        if ends and lost and roles.stop is not None:
            raise BadTableError(f"path {name!r} both stopped and censored")
        stopped.append(ends and not lost)
        paths[name] = without_gaps(path, roles.missing)
    if training and not any(stopped):
        raise BadTableError("no stop")
    if training and all(len(path) == 1 for path in paths.values()):
        raise BadTableError("single rows only")
    return LoopPaths(paths, stopped, feature_names, plain)


def without_gaps(path: list[Row], missing: str) -> list[Row]:
    """Drop rows with gaps from one path, or leave the gaps."""
    if missing in ("last", "impute"):
        return path
    whole = [row for row in path if None not in row.state]
    if len(whole) < len(path) and (missing != "drop" or None in path[-1].state):
        raise BadTableError("a gap that cannot be closed")
    return whole
