"""Rows that are in a table more than once."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.readers.columns import Source
from lit_ios.readers.roles import TableRoles
from lit_ios.trajectories import BoolArray, FloatArray, IntArray


def first_of_identical(
    source: Source, roles: TableRoles, codes: IntArray, times: FloatArray
) -> BoolArray:
    """Say which rows to keep so that none is there twice: the first of each; (N,).

    Args:
        source: the table.
        roles: which of its columns are used.
        codes: path of each row.
        times: of each row.
    """
    order = np.lexsort((times, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
    again = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    rows = np.sort(order[again])  # with another row of the same path and time
    keep = np.ones(len(codes), dtype=bool)
    if not len(rows):
        return keep
    kinds = np.unique(np.stack([codes[rows], times[rows]]), axis=1, return_inverse=True)[1]
    kinds = kinds.reshape(-1)
    for column in _used(source, roles):
        values = _numbered(source[column].take(pa.array(rows)))
        kinds = np.unique(kinds * (values.max() + 1) + values, return_inverse=True)[1]
    keep[rows] = False
    keep[rows[np.unique(kinds, return_index=True)[1]]] = True
    return keep


def are_identical(source: Source, roles: TableRoles, first: int, second: int) -> bool:
    """Whether two rows of the same path and time agree in all columns that are used."""
    columns = _used(source, roles)
    rows = pa.array([first, second])
    return all(len(set(_numbered(source[column].take(rows)).tolist())) == 1 for column in columns)


def _used(source: Source, roles: TableRoles) -> list[str]:
    """Return the columns beside path and time that are read."""
    left_out = {*roles.drop, roles.path, roles.time}
    named = roles.features if roles.features is not None else source.columns
    return [name for name in dict.fromkeys((*named, *roles.others)) if name in source
            and name not in left_out]  # fmt: skip


def _numbered(values: pa.ChunkedArray) -> IntArray:
    """Give equal values equal numbers; a missing one is a value, too."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_floating(values.type):  # what is infinite is missing, and −0 is 0
        numbers = values.cast(pa.float64()).to_numpy() + 0.0
        values = pa.chunked_array([pa.array(numbers, mask=~np.isfinite(numbers))])
    with contextlib.suppress(pa.ArrowNotImplementedError):
        coded = values.combine_chunks().dictionary_encode()
        numbers = pc.fill_null(coded.indices.cast(pa.int64()), len(coded.dictionary))
        return np.asarray(numbers.to_numpy(zero_copy_only=False))
    return np.zeros(len(values), dtype=np.int64)  # no feature is of such a kind
