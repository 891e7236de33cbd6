"""The exact Bayes filter of a change point: what the observed history says about it.

Neither the index b at which observation began nor the change index c is known: a path's rows do not
hold the process's own clock. Both are uniform, and the laws f₀ → f₁ are known. The rows x_0 … x_k
seen since observation began, at indices b … b + k, weigh each pair by their likelihood

    w_{b,c}(k) = Π_{j: b+j<c} f₀(x_j | past, b + j) · Π_{j: b+j≥c} f₁(x_j | past, b + j)

and the expert, who stops at c + 1, has stopped by row k with probability

    Σ_{c+1 ≤ b+k} w_{b,c} / Σ w_{b,c}.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet

CHUNK = 1000  # paths at a time


class Law(NamedTuple):
    """x_t = sin(t) + lag1·x_{t−1} + lag2·x_{t−2} + N(mean, deviation²)."""

    mean: float = 0.5
    deviation: float = 1.0
    lag1: float = 0.0
    lag2: float = 0.0


def stopped_probability(
    paths: TrajectorySet, before: Law, after: Law, starts: IntArray, changes: IntArray
) -> FloatArray:
    """P(c + 1 ≤ b + k | rows of the path up to k) for each row; (N,).

    A row of an autoregression whose two predecessors are not seen says nothing here.

    Args:
        paths: their rows one step apart; times do not matter.
        before: law before the change.
        after: law from the change on.
        starts: (S,) possible b, all equally likely.
        changes: (C,) possible c, all equally likely.
    """
    rows = [
        _probabilities(paths, slice(first, first + CHUNK), before, after, starts, changes)
        for first in range(0, len(paths), CHUNK)
    ]
    return np.concatenate(rows)


def _probabilities(
    paths: TrajectorySet, some: slice, before: Law, after: Law, starts: IntArray, changes: IntArray
) -> FloatArray:
    lengths, begins, ends = (
        np.atleast_1d(v[some]) for v in (paths.lengths, paths.offsets[:-1], paths.offsets[1:])
    )
    seen: BoolArray = np.arange(lengths.max()) < lengths[:, None]  # (P, K)
    x: FloatArray = np.zeros(seen.shape)
    x[seen] = paths.states[begins[0] : ends[-1], 0]
    index = starts[:, None] + np.arange(x.shape[1])  # (S, K) of the process
    first = 2 if any((*before[2:], *after[2:])) else 0  # rows that say something
    old, new = (_cumulative(x, index, law, first) for law in (before, after))  # (P, S, K)
    total = np.full((len(x), x.shape[1]), -np.inf)  # log Σ of all weights
    stopped = np.full(total.shape, -np.inf)  # and of those whose expert has stopped
    for c in changes:
        since = np.clip(c - starts, 0, x.shape[1])  # (S,) first row under the new law
        prior = np.take_along_axis(old, since[None, :, None], axis=2)  # (P, S, 1)
        later = new - np.take_along_axis(new, since[None, :, None], axis=2)
        changed = index >= c  # (S, K)
        weight = np.where(changed, prior + later[..., 1:], old[..., 1:])  # (P, S, K)
        total = np.logaddexp(total, np.logaddexp.reduce(weight, axis=1))
        weight = np.where(index >= c + 1, weight, -np.inf)
        stopped = np.logaddexp(stopped, np.logaddexp.reduce(weight, axis=1))
    return np.asarray(np.exp(stopped - total)[seen])


def _cumulative(x: FloatArray, index: IntArray, law: Law, first: int) -> FloatArray:
    """Return Σ_{j<k} log f(x_j | past, index), k = 0 … K; (P, K), (S, K) → (P, S, K + 1)."""
    past = np.pad(x, ((0, 0), (2, 0)))
    expected = law.mean + law.lag1 * past[:, 1:-1] + law.lag2 * past[:, :-2]  # (P, K)
    deviation = (x - expected)[:, None] - np.sin(index)  # (P, S, K)
    density = -0.5 * (deviation / law.deviation) ** 2 - np.log(law.deviation)
    density[..., :first] = 0.0
    return np.pad(np.cumsum(density, axis=2), ((0, 0), (0, 0), (1, 0)))


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


def _running_maximum(scores: FloatArray, paths: TrajectorySet) -> FloatArray:
    """Highest score of each path up to each row; (N,)."""
    padded = np.full((len(paths), paths.lengths.max()), -np.inf)
    padded[paths.path_of_row, paths.steps] = scores
    return np.maximum.accumulate(padded, axis=1)[paths.path_of_row, paths.steps]
