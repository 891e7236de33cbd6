"""What stands in for values that are missing, from training rows only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lit_ios.trajectories import FloatArray, TrajectoryError, TrajectorySet


class Fill(NamedTuple):
    """What stands in for missing values of each column, and which columns have any."""

    values: dict[str, float]  # a number, or the code of a category
    flagged: tuple[str, ...]


def fit_fill(paths: TrajectorySet) -> Fill:
    """Return the median of each column of numbers and the most frequent category of text.

    Args:
        paths: of raw columns, NaN where a value is missing.
    """
    values, flagged = {}, []
    for name, column in zip(paths.feature_names, paths.states.T, strict=True):
        known = column[np.isfinite(column)]
        if not len(known):
            raise TrajectoryError(
                f"column {name!r}: no training row has a value: leave it out with drop={[name]}"
            )
        values[name] = _most_frequent(known) if name in paths.categories else float(
            np.median(known)
        )  # fmt: skip
        if len(known) < len(column):
            flagged.append(name)
    return Fill(values, tuple(flagged))


def _most_frequent(codes: FloatArray) -> float:
    return float(np.bincount(codes.astype(int)).argmax())
