"""Splits by path, never by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lit_ios.trajectories import TrajectoryError, TrajectorySet


def split_paths(
    paths: TrajectorySet, shares: Sequence[float], rng: np.random.Generator
) -> list[TrajectorySet]:
    """Deal the paths out at random into as many sets as there are shares.

    Args:
        paths: at least one path per share.
        shares: positive, e.g. (0.7, 0.3); taken relative to their sum.
        rng: the order of the deal.
    """
    weights = np.asarray(shares, dtype=float)
    if weights.ndim != 1 or len(weights) < 1 or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"shares must be positive numbers, got {list(shares)}")
    if len(paths) < len(weights):
        raise TrajectoryError(
            f"{len(paths)} paths cannot be split into {len(weights)} sets of at least one path"
        )
    ends = np.round(np.cumsum(weights) / weights.sum() * len(paths)).astype(int)
    # every set gets at least one path
    for i in range(len(ends)):
        ends[i] = max(ends[i], (ends[i - 1] if i else 0) + 1)
        ends[i] = min(ends[i], len(paths) - (len(ends) - 1 - i))
    order = rng.permutation(len(paths))
    starts = [0, *ends[:-1]]
    return [paths.select(np.sort(order[a:b])) for a, b in zip(starts, ends, strict=True)]
