"""Splits by path, never by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectoryError, TrajectorySet


def split_paths(
    paths: TrajectorySet, shares: Sequence[float], rng: np.random.Generator
) -> list[TrajectorySet]:
    """Deal the paths out at random into as many sets as there are shares; see `split_numbers`."""
    return [paths.select(numbers) for numbers in split_numbers(paths.stopped, shares, rng)]


def split_numbers(
    stopped: BoolArray, shares: Sequence[float], rng: np.random.Generator
) -> list[IntArray]:
    """Return the numbers of the paths in each set, in their order.

    Stopped paths are dealt out by the same shares as all paths are, so that a set without any is
    as rare as can be.

    Args:
        stopped: (P,) of each path; at least one path per share.
        shares: positive, e.g. (0.7, 0.3); taken relative to their sum.
        rng: the order of the deal.
    """
    weights = np.asarray(shares, dtype=float)
    if weights.ndim != 1 or len(weights) < 1 or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"shares must be positive numbers, got {list(shares)}")
    count = len(stopped)
    if count < len(weights):
        raise TrajectoryError(
            f"{count} paths cannot be split into {len(weights)} sets of at least one path: give "
            "more"
        )
    order = rng.permutation(count)
    stops, censored = order[stopped[order]], order[~stopped[order]]
    sizes = _sizes(count, weights)
    stop_ends = np.cumsum(_within(_sizes(len(stops), weights), sizes, len(censored)))
    censored_ends = np.cumsum(sizes) - stop_ends
    parts = zip(
        np.split(stops, stop_ends[:-1]), np.split(censored, censored_ends[:-1]), strict=True
    )
    return [np.sort(np.concatenate(part)) for part in parts]


def _sizes(count: int, weights: FloatArray) -> IntArray:
    """Divide `count` paths by weight, at least one to each set as long as they last."""
    ends = np.round(np.cumsum(weights) / weights.sum() * count).astype(int)
    for i in range(len(ends)):
        ends[i] = max(ends[i], (ends[i - 1] if i else 0) + 1)
        ends[i] = min(ends[i], max(count - (len(ends) - 1 - i), min(i + 1, count)))
    return np.asarray(np.diff(ends, prepend=0))


def _within(stops: IntArray, sizes: IntArray, censored: int) -> IntArray:
    """Move stops between sets until each has room for its own and for the censored paths."""
    least = np.maximum(sizes - censored, 0)
    fitting = stops.clip(least, sizes)
    for i in range(len(sizes)):
        surplus = fitting.sum() - stops.sum()
        fitting[i] = (fitting[i] - surplus).clip(least[i], sizes[i])
    return fitting
