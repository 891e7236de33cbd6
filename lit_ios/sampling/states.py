"""From observed features to states: lags, time, standardisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lit_ios.trajectories import FloatArray, TrajectorySet, row_blocks


class Statistics(NamedTuple):
    """Mean and scale of each state coordinate, from training rows only; (D,) each."""

    mean: FloatArray
    scale: FloatArray


def state_names(feature_names: tuple[str, ...], lags: int, include_time: bool) -> tuple[str, ...]:
    """Name the coordinates that `build_states` makes."""
    lagged = tuple(f"{name}[-{k}]" for k in range(1, lags + 1) for name in feature_names)
    time = "time"
    while time in feature_names:  # the data's own
        time += " since the start"
    return feature_names + lagged + ((time,) if include_time else ())


def build_states(paths: TrajectorySet, lags: int = 0, include_time: bool = True) -> TrajectorySet:
    """Turn observed features into the state the learner sees.

    Coordinates: the features, the features of the `lags` rows before (the first row repeated at
    the start of a path), and the time since the path's first row.
    """
    if lags < 0:
        raise ValueError(f"lags must be 0 or more, got {lags}")
    rows = np.arange(len(paths.states))
    steps = paths.steps
    columns = [paths.states]
    columns += [paths.states[rows - np.minimum(k, steps)] for k in range(1, lags + 1)]
    if include_time:
        elapsed = paths.times - np.repeat(paths.times[paths.offsets[:-1]], paths.lengths)
        columns.append(elapsed[:, None].astype(paths.states.dtype))
    names = state_names(paths.feature_names, lags, include_time)
    states = np.concatenate(columns, axis=1) if len(columns) > 1 else paths.states
    return paths.with_states(states, names)


def fit_statistics(
    states: FloatArray, everyone: Callable[[Any], list[Any]] = lambda value: [value]
) -> Statistics:
    """Return mean and standard deviation by column.

    A constant column gets the scale ∞, so that it is 0 in training and ever after: what it would
    mean if it changed one day, nobody has shown.

    Args:
        states: (N, D).
        everyone: returns what several processes have, where each has rows of its own.
    """
    rows = sum(everyone(len(states)))
    mean = sum(everyone(states.sum(axis=0, dtype=np.float64))) / rows
    squares = np.zeros_like(mean)
    for block in row_blocks(len(states)):
        squares += np.square(states[block] - mean).sum(axis=0)
    scale = np.sqrt(sum(everyone(squares)) / rows)
    low = np.min(everyone(states.min(axis=0)), axis=0)
    constant = (low == np.max(everyone(states.max(axis=0)), axis=0)) | (
        scale <= 1e-12 * np.maximum(1.0, np.abs(mean))
    )
    return Statistics(mean, np.where(constant, np.inf, scale))


def standardise(states: FloatArray, statistics: Statistics) -> FloatArray:
    """Return (s − mean) / scale in float32."""
    scaled = np.empty(states.shape, dtype=np.float32)
    for block in row_blocks(len(states)):
        scaled[block] = (states[block] - statistics.mean) / statistics.scale
    return scaled
