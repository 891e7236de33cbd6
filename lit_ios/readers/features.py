"""Columns → the feature matrix, categories of text as 0/1 columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lit_ios.readers.columns import Source
from lit_ios.readers.files import TableError
from lit_ios.trajectories import FloatArray


def feature_matrix(
    source: Source, chosen: Sequence[str] | None, others: Sequence[str]
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features (N, D) and their names; the columns read are freed.

    Args:
        source: the table.
        chosen: columns the state is made of; None for all that have no other role.
        others: columns of another role.
    """
    names = feature_names(source, chosen, others)
    table = source.table
    known = set(source.columns)
    floats = all(name in known and str(source.kind(name)) == "float" for name in names)
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float32 if floats else np.float64)
    del table
    encoded: dict[str, FloatArray] = {}
    for position, name in enumerate(names):
        if name in known:
            matrix[:, position] = source.numbers(name)
            source.drop(name)  # a large table need not be in memory twice
            continue
        if name not in encoded:
            encoded |= _encode(source, column_of(name, known), name, names)
        matrix[:, position] = encoded[name]
    return matrix, names


def _encode(
    source: Source, column: str | None, name: str, names: tuple[str, ...]
) -> dict[str, FloatArray]:
    """Return the 0/1 columns of all categories of the column that `name` belongs to."""
    known = set(source.columns)
    if column is None:
        raise TableError(
            f"{source.name}: no column {name.partition('=')[0]!r}, which the feature {name!r} "
            f"needs; there are {', '.join(map(repr, source.columns))}"
        )
    group = [n for n in names if n not in known and column_of(n, known) == column]
    values = source.one_hot(column, [n[len(column) + 1 :] for n in group])
    return dict(zip(group, values.T, strict=True))


def column_of(name: str, known: set[str]) -> str | None:
    """Return the column a feature comes from: itself, or the text before a `=`; None if none."""
    if name in known:
        return name
    cuts = [i for i, letter in enumerate(name) if letter == "="]
    return next((name[:i] for i in reversed(cuts) if name[:i] in known), None)


def feature_names(
    source: Source, chosen: Sequence[str] | None, others: Sequence[str]
) -> tuple[str, ...]:
    """Name the features, a category of text each as column=value."""
    known = source.table.column_names
    if chosen is None:
        chosen = tuple(name for name in known if name not in others)
    names: list[str] = []
    for name in chosen:
        if name in known and source.is_text(name) and not source.holds_numbers(name):
            names += [f"{name}={value}" for value in source.categories(name)]
            if not source.categories(name):
                raise TableError(f"{source.where(name, 0)}: missing value; no row has one")
        else:
            names.append(name)
    if len(set(names)) < len(names):
        raise TableError(f"{source.name}: two features of one name")
    if not names:
        raise TableError(f"{source.name}: no feature columns beside {', '.join(others)}")
    return tuple(names)
