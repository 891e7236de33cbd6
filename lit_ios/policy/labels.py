"""Groups of paths within which a promise is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lit_ios.checks import UserError, did_you_mean, quoted
from lit_ios.trajectories import IntArray, TrajectorySet

if TYPE_CHECKING:
    import pyarrow as pa

    from lit_ios.readers.columns import Source

MOST_GROUPS = 1000


def given_labels(per: str | Sequence[Any] | None, paths: int) -> list[str] | None:
    """Return the groups that are given path by path."""
    if per is None:
        return None
    if isinstance(per, str):
        raise UserError(
            f"per={per!r} names a column of a table: these paths have none; give a name for each "
            "path, per=[…]"
        )
    if not isinstance(per, Iterable):
        raise UserError(f"per must name a column or the group of each path, got {quoted(per)}")
    labels = [str(label) for label in per]
    if len(labels) != paths:
        raise UserError(f"per must name the group of each of the {paths} paths, got {len(labels)}")
    return labels


def group_column(source: Source, per: str) -> pa.ChunkedArray:
    """Return the column that names the groups."""
    if per not in source:
        raise UserError(
            f"{source.name}: there is no column {per!r} (per){did_you_mean(per, source.columns)}"
        )
    return source[per]


def path_labels(
    column: pa.ChunkedArray, per: str, paths: TrajectorySet, rows: IntArray
) -> list[str]:
    """Return the group of each path; refuse paths that belong to several.

    Args:
        column: of all rows of the table.
        per: its name.
        paths: made of the table.
        rows: which row of the table each of theirs is.
    """
    import pyarrow as pa

    codes = column.combine_chunks().dictionary_encode()
    codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
    names = ["(missing)" if name is None else str(name) for name in codes.dictionary.to_pylist()]
    numbers = codes.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)[rows]
    first = numbers[paths.offsets[:-1]]
    torn = numbers != np.repeat(first, paths.lengths)
    if torn.any():
        path = paths.names[int(paths.path_of_row[int(np.argmax(torn))])]
        raise UserError(f"path {path!r} belongs to several groups of {per!r}: give a column that "
                        "is the same on all rows of a path")  # fmt: skip
    return [(*names, "(missing)")[number] for number in first.tolist()]


def group_masks(labels: list[str] | None) -> dict[str, Tensor] | None:
    """Return which paths belong to each group; (P,) bool each."""
    if labels is None:
        return None
    names, which = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
    if len(names) > MOST_GROUPS:
        raise UserError(
            f"per: {len(names)} different groups, at most {MOST_GROUPS} can be told apart: is it "
            "the right column?"
        )
    return {str(name): torch.from_numpy(which == i) for i, name in enumerate(names)}
