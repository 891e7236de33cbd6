"""More stop rows: SMOTE over the training set, local bootstrap inside a batch."""

from __future__ import annotations

from typing import Literal

import numpy as np
from imblearn.over_sampling import SMOTE, BorderlineSMOTE

from lit_ios.checks import UserError, check_choice
from lit_ios.trajectories import CONTINUE, STOP, BoolArray, FloatArray, IntArray

SmoteKind = Literal["regular", "borderline"]


class OversamplingError(UserError):
    """Too few stops to make more of them."""


def smote_stops(
    states: FloatArray,
    actions: IntArray,
    rng: np.random.Generator,
    *,
    neighbors: int = 12,
    ratio: float = 1.0,
    kind: SmoteKind = "regular",
) -> FloatArray:
    """Return synthetic stop states, interpolated between neighbouring real ones; (S, D).

    Args:
        states: (N, D) standardised states of the training split.
        actions: (N,) 0 stop, 1 continue.
        rng: the choice of neighbours and positions.
        neighbors: k, reduced to stops − 1 where there are fewer.
        ratio: stops per continue row after oversampling.
        kind: `borderline` interpolates only from stops near continue rows.
    """
    check_choice("kind", kind, SmoteKind)
    if ratio <= 0:
        raise ValueError(f"ratio must be positive, got {ratio}")
    stops = int((actions == STOP).sum())
    if stops < 2:
        raise OversamplingError(
            f"SMOTE needs at least 2 stop rows in the training split, got {stops}; "
            "use oversampling: none, or more stopped paths"
        )
    wanted = round(ratio * (len(actions) - stops))
    if wanted <= stops:
        return np.empty((0, states.shape[1]), dtype=states.dtype)
    options = {
        "sampling_strategy": {STOP: wanted},
        "k_neighbors": min(neighbors, stops - 1),
        "random_state": int(rng.integers(2**31)),
    }
    if kind == "regular":
        sampler = SMOTE(**options)
    else:
        sampler = BorderlineSMOTE(**options, m_neighbors=min(10, len(actions) - 1))
    enlarged, _ = sampler.fit_resample(states, actions)
    if len(enlarged) == len(states):
        raise OversamplingError(
            "borderline SMOTE found no stop row near the border between stops and continues; "
            "use smote_kind: regular"
        )
    return np.asarray(enlarged[len(states) :], dtype=states.dtype)


def bootstrap_stops(
    actions: IntArray,
    rng: np.random.Generator,
    *,
    ratio: float = 1.0,
    bounds: IntArray | None = None,
) -> IntArray:
    """Return positions of stop rows to add to each batch, drawn with replacement from its own.

    Stops are drawn until there are `ratio` of them per continue row; a batch without a stop, or
    with enough of them, gets none.

    Args:
        actions: 0 stop, 1 continue, other values for rows that count as neither.
        rng: the draws.
        ratio: stops per continue row.
        bounds: where batches that lie one behind the other begin, and the end; one batch if None.
    """
    bounds = np.array([0, len(actions)]) if bounds is None else bounds
    stops = np.flatnonzero(actions == STOP)
    first_stop = np.searchsorted(stops, bounds)
    present = np.diff(first_stop)
    continues = np.diff(np.append(0, np.cumsum(actions == CONTINUE))[bounds])
    wanted = np.rint(ratio * continues).astype(np.int64)
    missing = np.where(present > 0, np.maximum(wanted - present, 0), 0)
    batch = np.repeat(np.arange(len(missing)), missing)
    return np.asarray(stops[first_stop[batch] + rng.integers(present[batch])])


def folds_held_out(
    members: int, folds: int, stopped: BoolArray, rng: np.random.Generator
) -> BoolArray:
    """Say which paths each member leaves out: a fold of all paths, another one each time.

    After `folds` members the paths are dealt out anew; stopped and censored paths go to the folds
    in equal shares.

    Returns:
        (K, P), every path left out by members / folds of the members.
    """
    held_out = []
    for _ in range(members // folds):
        order = rng.permutation(len(stopped))
        order = order[np.argsort(stopped[order], kind="stable")]
        fold = np.empty(len(stopped), dtype=int)
        fold[order] = np.arange(len(stopped)) % folds
        held_out += [fold == number for number in range(folds)]
    return np.stack(held_out)


def bootstrap_copies(members: int, paths: int, rng: np.random.Generator) -> FloatArray:
    """Draw as many paths as there are for each member; return how often each was drawn.

    (K, P + 1) float32: the last column is 1, for rows that belong to no path.
    """
    copies = np.stack(
        [np.bincount(rng.integers(paths, size=paths), minlength=paths + 1) for _ in range(members)]
    )
    copies[:, -1] = 1
    return copies.astype(np.float32)
