"""The exact Bayes filter of a change point: what the observed history says about it.

With c uniform and the laws f₀ → f₁ known, the rows observed up to t weigh each change index by

    w_c(t) = Π_{k=c…t} f₁(x_k | past) / f₀(x_k | past)   (1 if c > t)

and the expert, who stops at c + 1, has stopped by t with probability Σ_{c<t} w_c / Σ_c w_c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet


class Law(NamedTuple):
    """x_t = sin(t) + lag1·x_{t−1} + lag2·x_{t−2} + N(mean, deviation²)."""

    mean: float = 0.5
    deviation: float = 1.0
    lag1: float = 0.0
    lag2: float = 0.0


def stopped_probability(
    paths: TrajectorySet, before: Law, after: Law, changes: IntArray, points: int
) -> FloatArray:
    """P(c + 1 ≤ t | rows of the path up to t) for each row, c uniform on `changes`; (N,)."""
    x, observed = _by_index(paths, points)
    ratio = _log_density(x, after) - _log_density(x, before)  # (P, T)
    if before[2:] != (0, 0) or after[2:] != (0, 0):  # a row needs its two predecessors
        observed[:, 2:] &= observed[:, 1:-1] & observed[:, :-2]
    total = np.cumsum(np.where(observed, ratio, 0.0), axis=1)  # (P, T)
    until_change = total[:, changes - 1]  # (P, C)
    probability = np.zeros_like(x)
    for t in range(changes[0] + 1, points):  # nobody stops earlier
        log_weight = np.where(changes <= t, total[:, t, None] - until_change, 0.0)
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))  # (P, C)
        probability[:, t] = weight[:, changes < t].sum(axis=1) / weight.sum(axis=1)
    return probability[paths.path_of_row, paths.times.astype(np.int64)]


def best_threshold(scores: FloatArray, paths: TrajectorySet) -> float:
    """Return the b for which stopping at the first score ≥ b has the best balanced accuracy M1.

    A row counts as stop iff the highest score so far reaches b, so TPR and TNR for all b are the
    distributions of that running maximum over the stop and the continue rows.
    """
    highest = _running_maximum(scores, paths)
    stop = np.zeros(len(scores), dtype=np.bool_)
    stop[paths.last_rows[paths.stopped]] = True
    candidates = np.unique(highest[stop])
    false_negatives = np.searchsorted(np.sort(highest[stop]), candidates) / stop.sum()
    true_negatives = np.searchsorted(np.sort(highest[~stop]), candidates) / (~stop).sum()
    return float(candidates[np.argmax(true_negatives - false_negatives)])


def _by_index(paths: TrajectorySet, points: int) -> tuple[FloatArray, BoolArray]:
    """Put each row in the column of its time index; (P, T) values and what is observed."""
    index = np.rint(paths.times).astype(np.int64)
    wrong = (index != paths.times) | (index < 0) | (index >= points)
    if wrong.any():
        raise ValueError(
            f"times must be integers from 0 to {points - 1}, the process's own time index; "
            f"got {paths.times[np.argmax(wrong)]}"
        )
    x = np.zeros((len(paths), points))
    observed = np.zeros(x.shape, dtype=np.bool_)
    x[paths.path_of_row, index] = paths.states[:, 0]
    observed[paths.path_of_row, index] = True
    return x, observed


def _log_density(x: FloatArray, law: Law) -> FloatArray:
    """The logarithm of f(x_t | x_{t−1}, x_{t−2}) up to a constant common to all laws; (P, T)."""
    past = np.pad(x, ((0, 0), (2, 0)))  # x_{−1} = x_{−2} = 0
    expected = np.sin(np.arange(x.shape[1])) + law.mean
    expected = expected + law.lag1 * past[:, 1:-1] + law.lag2 * past[:, :-2]
    return np.asarray(-0.5 * ((x - expected) / law.deviation) ** 2 - np.log(law.deviation))


def _running_maximum(scores: FloatArray, paths: TrajectorySet) -> FloatArray:
    """Highest score of each path up to each row; (N,)."""
    padded = np.full((len(paths), paths.lengths.max()), -np.inf)
    padded[paths.path_of_row, paths.steps] = scores
    return np.maximum.accumulate(padded, axis=1)[paths.path_of_row, paths.steps]
