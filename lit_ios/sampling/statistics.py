"""Statistics of training states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lit_ios.trajectories import FloatArray, row_blocks

ROUNDING = 1e-12  # relative; what varies less is constant
_ORDINARY = (1e-100, 1e100)  # squares of these, and sums of them, are finite and not 0


class Statistics(NamedTuple):
    """Mean and scale of each state coordinate, from training rows only; (D,) each."""

    mean: FloatArray
    scale: FloatArray


def fit_statistics(
    states: FloatArray, gather: Callable[[Any], list[Any]] = lambda value: [value]
) -> Statistics:
    """Return mean and standard deviation by column, whatever the columns' magnitudes.

    A constant column gets the scale ∞, so that it is 0 in training and ever after: the data do not
    show what a change of it would mean. Rounding alone does not make a column vary.

    Args:
        states: (N, D).
        gather: returns what each of several processes has, where each has rows of its own.
    """
    rows = sum(gather(len(states)))
    low = np.min(gather(states.min(axis=0)), axis=0).astype(np.float64)
    high = np.max(gather(states.max(axis=0)), axis=0).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high))
    exponents = np.where(
        (size < _ORDINARY[0]) | (size > _ORDINARY[1]), np.frexp(size)[1], 0
    )  # powers of two, so that nothing is rounded; (D,)
    mean = sum(gather(_sums(states, exponents))) / rows
    squares = np.zeros_like(mean)
    for block in row_blocks(len(states)):
        squares += np.square(_divided(states[block], exponents) - mean).sum(axis=0)
    spread = np.sqrt(sum(gather(squares)) / rows)
    mean, scale = np.ldexp(mean, exponents), np.ldexp(spread, exponents)
    constant = (high / 2 - low / 2 <= ROUNDING * size / 2) | (scale <= ROUNDING * size)
    return Statistics(mean, np.where(constant, np.inf, np.maximum(scale, np.finfo(float).tiny)))


def _sums(states: FloatArray, exponents: npt.NDArray[np.int32]) -> FloatArray:
    """Return the sum of each column divided by its power of two; (D,)."""
    with np.errstate(over="ignore"):  # in columns that are divided below
        sums = states.sum(axis=0, dtype=np.float64)
    extreme = np.flatnonzero(exponents)
    if len(extreme):
        sums[extreme] = _divided(states[:, extreme], exponents[extreme]).sum(axis=0)
    return np.asarray(sums)


def _divided(states: FloatArray, exponents: npt.NDArray[np.int32]) -> FloatArray:
    """Return the columns divided by powers of two."""
    return states if not exponents.any() else np.ldexp(states.astype(np.float64), -exponents)
