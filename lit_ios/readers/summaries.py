"""What a column holds, in words and counts: no cell of it but the ends of dates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.readers.dates import as_dates
from lit_ios.readers.flags import status_words
from lit_ios.trajectories import IntArray

_SEVERAL = 3  # more distinct words than these are no status


class ColumnSummary(NamedTuple):
    """A column in words and counts."""

    kind: str
    missing: float  # share of the cells
    distinct: int  # values, nothing not counted
    span: str  # of dates
    codes: IntArray  # (N,) which of the distinct values each cell is; −1 where it is missing

    def is_static(self, owners: IntArray) -> bool:
        """Whether all cells of each owner that are not missing are the same, and some have two."""
        known = self.codes >= 0
        pairs = np.unique(owners[known] * (self.distinct + 1) + self.codes[known])
        return len(pairs) == len(np.unique(owners[known])) < int(known.sum())


def column_summary(column: pa.ChunkedArray) -> ColumnSummary:
    """Count and name what a column holds."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    missing = column.null_count / max(len(column), 1)
    if missing == 1:
        return ColumnSummary("nothing", missing, 0, "", np.full(len(column), -1))
    try:
        coded = column.combine_chunks().dictionary_encode()
    except pa.ArrowNotImplementedError:  # lists and the like, which cannot be features
        return ColumnSummary(str(column.type), missing, 0, "", np.full(len(column), -1))
    codes = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False))
    values = coded.dictionary
    kind, span = _kind(values)
    return ColumnSummary(kind, missing, len(values), span, codes.astype(np.int64))


def _kind(values: pa.Array) -> tuple[str, str]:
    """Name the kind of distinct values, and the ends of dates."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if len(values) < _SEVERAL and status_words(values.to_pylist()):
            return "yes or no", ""
        values = as_dates(values)
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        ends = pc.min_max(values)
        return "dates", f"{ends['min']} to {ends['max']}"
    if pa.types.is_boolean(kind):
        return "yes or no", ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        status = len(values) < _SEVERAL and pc.all(pc.is_in(values, pa.array([0, 1], kind))).as_py()
        return ("0 or 1" if status else "numbers"), ""
    return ("text" if values.type == kind and "string" in str(kind) else str(kind)), ""
