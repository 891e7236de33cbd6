"""Columns → the matrix of raw columns, text coded by its categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from lit_ios.readers.columns import Source
from lit_ios.readers.files import TableError
from lit_ios.readers.roles import TableRoles
from lit_ios.trajectories import Categories, FloatArray


def column_matrix(
    source: Source, columns: Sequence[str], categories: Categories, *, others: bool = False
) -> FloatArray:
    """Return the raw columns (N, C), text as codes; the columns read are freed.

    Args:
        source: the table.
        columns: what rows are made of.
        categories: of the text columns among them, in the order of their codes.
        others: take other categories as missing.
    """
    floats = all(str(source.kind(name)) == "float" for name in columns)
    shape = (source.rows, len(columns))
    matrix = np.empty(shape, dtype=np.float32 if floats else np.float64)
    for position, name in enumerate(columns):
        known = categories.get(name)
        matrix[:, position] = (
            source.numbers(name) if known is None else source.codes(name, known, others=others)
        )
        source.drop(name)  # a large table need not be in memory twice
    return matrix


def chosen_columns(source: Source, roles: TableRoles) -> tuple[str, ...]:
    """Return the columns a row is made of: those chosen, or all that have no other role."""
    left_out = {*roles.others, *roles.drop}
    if roles.features is None:
        chosen = tuple(name for name in source.columns if name not in left_out)
    else:
        chosen = tuple(roles.features)
    twice = [name for name, count in Counter(chosen).items() if count > 1]
    if twice:
        raise TableError(f"{source.name}: a feature is named twice: {twice[0]!r}; name it once")
    if not chosen:
        raise TableError(
            f"{source.name}: no feature columns beside {', '.join(roles.others)}; add columns that "
            "the stop depends on"
        )
    return chosen


def text_categories(
    source: Source, columns: Sequence[str], known: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the categories of the text columns: those known, else those found, sorted.

    Args:
        source: the table.
        columns: what rows are made of.
        known: categories of columns that are coded as before.
    """
    categories = {name: tuple(known[name]) for name in columns if name in known}
    for name in columns:
        if name in categories or not source.is_text(name) or source.holds_numbers(name):
            continue
        categories[name] = tuple(source.categories(name))
        if not categories[name]:
            raise TableError(
                f"{source.where(name, 0)}: missing value; no row has one; leave the column "
                f"out with drop={[name]}"
            )
    return categories
