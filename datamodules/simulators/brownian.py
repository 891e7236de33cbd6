"""Brownian paths, and cutting arrays of whole paths at their stops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from datamodules.simulators.base import Horizon, check_range
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet

NEVER = -1  # stop index of a path on which the expert does not stop


def brownian_motion(
    rng: np.random.Generator, paths: int, steps: int, dim: int, dt: float
) -> FloatArray:
    """Draw paths of a standard Brownian motion from 0 at times 0, Δt, …, steps·Δt.

    Returns:
        (paths, steps + 1, dim).
    """
    check_range("paths", paths, 1)
    states = np.zeros((paths, steps + 1, dim))
    increments = np.sqrt(dt) * rng.standard_normal((paths, steps, dim))
    np.cumsum(increments, axis=1, out=states[:, 1:])
    return states


def first_stop(stops: BoolArray) -> IntArray:
    """Return the first index that says stop on each path, NEVER if none does; (P, T) → (P,)."""
    return np.where(stops.any(axis=1), stops.argmax(axis=1), NEVER).astype(np.int64)


def cut_at_stop(
    states: FloatArray,
    stop: IntArray,
    feature_names: tuple[str, ...],
    start: IntArray | int = 0,
) -> TrajectorySet:
    """Keep each path from its first observation to its stop, or to the end if it has none.

    Args:
        states: (P, T, D) whole paths.
        stop: (P,) index of the stop, NEVER for a path that is then censored at its end.
        feature_names: names of the D features.
        start: (P,) index of the first observation.
    """
    paths, length, _ = states.shape
    stopped = stop != NEVER
    last = np.where(stopped, stop, length - 1)  # (P,)
    first = np.broadcast_to(start, paths)
    index = np.arange(length)
    kept = (index >= first[:, None]) & (index <= last[:, None])  # (P, T)
    return TrajectorySet(
        states=states[kept],
        times=np.broadcast_to(index, kept.shape)[kept].astype(np.float64),
        offsets=np.concatenate([[0], np.cumsum(last - first + 1)]),
        stopped=stopped,
        names=tuple(map(str, range(paths))),
        feature_names=feature_names,
    )


def stop_by_margin(
    states: FloatArray, margin: Callable[[FloatArray, FloatArray], FloatArray]
) -> IntArray:
    """Return the first index with margin(state, time) ≥ 0 on each path; (P, T, D) → (P,)."""
    paths, length, dim = states.shape
    times = np.tile(np.arange(length, dtype=np.float64), paths)
    return first_stop(margin(states.reshape(-1, dim), times).reshape(paths, length) >= 0)


def apply_horizon(
    margin: FloatArray, times: FloatArray, steps: int, horizon: Horizon
) -> FloatArray:
    """Let every state at the horizon stop (`stop`), or leave the margin as it is (`censor`)."""
    if horizon == "censor":
        return margin
    return np.where(times >= steps, np.maximum(margin, 0.0), margin)


def coordinate_names(dim: int) -> tuple[str, ...]:
    """One name per coordinate: x0, x1 and so on."""
    return tuple(f"x{i}" for i in range(dim))
