"""How far rows of fresh paths lie from those of training, so that a rule knows its surroundings."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lit_ios.carry import MOST_PULLED, Usual, strangeness
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet, row_blocks

FOLDS = 5
FLAGGED = 0.01  # share of fresh paths that have an unfamiliar row


class Moments(NamedTuple):
    """What is added up over rows of F coordinates."""

    rows: float
    total: FloatArray  # (F,)
    squares: FloatArray  # (F, F), or (F,) where there are many
    low: FloatArray  # (F,)
    high: FloatArray  # (F,)
    paths: int


def fit_familiarity(
    sets: Sequence[TrajectorySet], gather: Callable[[Any], list[Any]] = lambda value: [value]
) -> Usual:
    """Learn what rows are like, and how far off rows of paths that were left out are.

    Paths are dealt out into folds. The rows of each are compared with those of the other folds, and
    the largest distance of each path is kept; a row is familiar up to the distance that about one
    path in a hundred exceeds, or the largest one where there are fewer than a hundred.

    Args:
        sets: of paths of standardised states without lags.
        gather: returns what each of several processes has, where each has paths of its own.
    """
    parts = [[_moments(paths, _folds(paths) == k) for k in range(FOLDS)] for paths in sets]
    parts = [part for each in gather(parts) for part in each]
    known = [_joined(part) for part in zip(*parts, strict=True)]
    furthest: list[FloatArray] = [np.empty((0, 2))]
    for k in range(FOLDS):
        others = _joined([one for i, one in enumerate(known) if i != k])
        if others.paths:
            furthest += [_furthest(paths, _folds(paths) == k, _usual(others)) for paths in sets]
    own = np.concatenate(furthest)
    distances = np.concatenate(gather(own))
    usual = _usual(_joined(known))
    if not len(distances):  # all paths in one fold: nothing was left out
        return usual
    each = np.maximum(_quantile(distances), 1e-6)  # (2,) of either kind
    level = max(_quantile((distances / each).max(axis=1)), 1e-6)
    whole, reach = each * level
    return usual._replace(whole=usual.whole / whole, own=usual.own / whole,
                          reach=usual.reach / reach)  # fmt: skip


def _folds(paths: TrajectorySet) -> IntArray:
    """Deal paths out by their names, whatever process they are in; (P,)."""
    return np.array([zlib.crc32(name.encode()) % FOLDS for name in paths.names])


def _quantile(distances: FloatArray) -> Any:
    """Return what fresh paths exceed with a probability of one in a hundred, or the largest."""
    count = len(distances)
    rank = min(math.ceil((1 - FLAGGED) * (count + 1)), count)
    return np.sort(distances, axis=0)[rank - 1]


def _blocks(paths: TrajectorySet, chosen: BoolArray) -> Iterator[FloatArray]:
    """Yield the rows of some paths, some at a time."""
    rows = np.flatnonzero(np.repeat(chosen, paths.lengths))
    return (paths.states[rows[block]].astype(np.float64) for block in row_blocks(len(rows)))


def _moments(paths: TrajectorySet, chosen: BoolArray) -> Moments:
    dim = paths.states.shape[1]
    many = dim > MOST_PULLED
    total, squares = np.zeros(dim), np.zeros(dim if many else (dim, dim))
    low, high, rows = np.full(dim, np.inf), np.full(dim, -np.inf), 0
    for values in _blocks(paths, chosen):
        rows += len(values)
        total += values.sum(axis=0)
        squares += np.square(values).sum(axis=0) if many else values.T @ values
        low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
    return Moments(rows, total, squares, low, high, int(chosen.sum()))


def _joined(parts: Any) -> Moments:
    rows, total, squares, low, high, paths = zip(*parts, strict=True)
    return Moments(
        sum(rows), sum(total), sum(squares), np.min(low, axis=0), np.max(high, axis=0), sum(paths)
    )


def _usual(found: Moments) -> Usual:
    """Return distances in their own units: Mahalanobis', and in half-widths of the range.

    The covariance is shrunk towards the identity, the more the fewer paths there are: rows of a
    path are much alike, so that it is paths that count. It is taken about 0, where the training
    mean of a standardised state is.
    """
    dim = len(found.total)
    covariance = found.squares / found.rows
    shrunk = max(dim / (dim + found.paths), 1e-3)
    pull: FloatArray
    if covariance.ndim == 1:
        pull = 1 / ((1 - shrunk) * covariance + shrunk)
        each = pull
    else:
        pull = np.linalg.inv((1 - shrunk) * covariance + shrunk * np.eye(dim))
        pull = (pull + pull.T) / 2
        each = np.diag(pull)
    half = (found.high - found.low) / 2
    reach = np.divide(1.0, half, out=np.zeros(dim), where=half > 0)  # constants are ignored
    middle = np.where(half > 0, (found.high + found.low) / 2, 0.0)
    return Usual(pull, np.array(1.0), 1 / np.sqrt(each), middle, reach)


def _furthest(paths: TrajectorySet, chosen: BoolArray, usual: Usual) -> FloatArray:
    """Return the largest distances of some paths: Mahalanobis', and from the range; (P, 2)."""
    if not chosen.any():
        return np.empty((0, 2))
    alone = usual._replace(reach=np.zeros_like(usual.reach))
    ranged = usual._replace(whole=np.array(0.0))
    found = np.concatenate([
        np.stack([strangeness(np, values, one)[0] for one in (alone, ranged)], axis=1)
        for values in _blocks(paths, chosen)
    ])  # fmt: skip
    lengths = paths.lengths[chosen]
    return np.asarray(np.maximum.reduceat(found, np.cumsum(lengths) - lengths))
