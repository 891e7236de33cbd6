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
    """Sum the weights of all c row by row: those at most b + k share what comes after row k."""
    lengths, begins, ends = (
        np.atleast_1d(v[some]) for v in (paths.lengths, paths.offsets[:-1], paths.offsets[1:])
    )
    seen: BoolArray = np.arange(lengths.max()) < lengths[:, None]  # (P, K)
    x: FloatArray = np.zeros(seen.shape)
    x[seen] = paths.states[begins[0] : ends[-1], 0]
    first = 2 if any((*before[2:], *after[2:])) else 0  # rows that say something
    old, new = (_densities(x, starts, law, first) for law in (before, after))  # each (K, P, S)
    probability = np.empty((x.shape[1], len(x)))
    with np.errstate(divide="ignore"):  # log 0 is meant
        is_change = np.log(np.isin(np.arange(starts.max() + x.shape[1]), changes))
        changed = np.log(_count(changes < starts[:, None])) * np.ones((len(x), 1))  # (P, S)
        unchanged = np.zeros(changed.shape)  # Π f₀, of any c that is yet to come
        for k in range(x.shape[1]):
            stopped = changed + new[k]  # Σ of w over c ≤ b + k − 1
            changed = np.logaddexp(stopped, unchanged + is_change[starts + k] + new[k])
            unchanged = unchanged + old[k]
            later = np.log(_count(changes > starts[:, None] + k))  # (S,)
            total = np.logaddexp.reduce(np.logaddexp(changed, unchanged + later), axis=1)
            probability[k] = np.exp(np.logaddexp.reduce(stopped, axis=1) - total)
    return np.asarray(probability.T[seen])


def _count(which: BoolArray) -> FloatArray:
    return np.asarray(which.sum(axis=1), dtype=np.float64)


def _densities(x: FloatArray, starts: IntArray, law: Law, first: int) -> FloatArray:
    """Return log f(x_k | past, b + k) but for a constant; (P, K), (S,) → (K, P, S)."""
    past = np.pad(x, ((0, 0), (2, 0)))
    expected = law.mean + law.lag1 * past[:, 1:-1] + law.lag2 * past[:, :-2]  # (P, K)
    phase = np.sin(starts + np.arange(x.shape[1])[:, None])  # (K, S)
    deviation = (x - expected).T[:, :, None] - phase[:, None, :]
    density: FloatArray = -0.5 * (deviation / law.deviation) ** 2 - np.log(law.deviation)
    density[:first] = 0.0
    return density


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
