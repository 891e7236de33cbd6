"""Statistics of training states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lit_ios.trajectories import FloatArray, row_blocks


class Statistics(NamedTuple):
    """Mean and scale of each state coordinate, from training rows only; (D,) each."""

    mean: FloatArray
    scale: FloatArray


def fit_statistics(
    states: FloatArray, gather: Callable[[Any], list[Any]] = lambda value: [value]
) -> Statistics:
    """Return mean and standard deviation by column.

    A constant column gets the scale ∞, so that it is 0 in training and ever after: the data do not
    show what a change of it would mean.

    Args:
        states: (N, D).
        gather: returns what each of several processes has, where each has rows of its own.
    """
    rows = sum(gather(len(states)))
    mean = sum(gather(states.sum(axis=0, dtype=np.float64))) / rows
    squares = np.zeros_like(mean)
    for block in row_blocks(len(states)):
        squares += np.square(states[block] - mean).sum(axis=0)
    scale = np.sqrt(sum(gather(squares)) / rows)
    low = np.min(gather(states.min(axis=0)), axis=0)
    constant = (low == np.max(gather(states.max(axis=0)), axis=0)) | (
        scale <= 1e-12 * np.maximum(1.0, np.abs(mean))
    )
    return Statistics(mean, np.where(constant, np.inf, scale))
