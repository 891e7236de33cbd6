"""More stop rows: SMOTE over the training set, local bootstrap inside a batch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from lit_ios.checks import UserError, check_choice
from lit_ios.imports import Spec, build, import_class
from lit_ios.trajectories import CONTINUE, STOP, BoolArray, FloatArray, IntArray

TREE_DIMENSIONS = 4  # up to which trees find neighbours in n log n
EXACT_STOPS = 10_000  # up to which all neighbours are compared anyway
GROUP_STOPS = 4_000
SmoteKind = Literal["regular", "borderline"]
Confidence = Literal["one", "neighbors", "discriminator"]


class OversamplingError(UserError):
    """Stops that cannot be made more of."""


def smote_stops(
    states: FloatArray,
    actions: IntArray,
    rng: np.random.Generator,
    *,
    neighbors: int = 12,
    ratio: float = 1.0,
    kind: SmoteKind = "regular",
    steps: IntArray | None = None,
    windows: int = 1,
) -> FloatArray:
    """Return synthetic stop states, interpolated between neighbouring real ones; (S, D).

    With several windows, stops are only interpolated between those of about the same time: a
    straight line from an early to a late stop may cross the continuation region.

    Args:
        states: (N, D) standardised states of the training split.
        actions: (N,) 0 stop, 1 continue.
        rng: the choice of neighbours and positions.
        neighbors: k, reduced to stops − 1 where there are fewer.
        ratio: stops per continue row after oversampling.
        kind: `borderline` interpolates only from stops near continue rows.
        steps: (N,) when each row was, for windows.
        windows: of time, each with about as many stops; one that would have fewer than two is
            joined with the one before.
    """
    check_choice("kind", kind, SmoteKind)
    if windows > 1:
        assert steps is not None
        parts = []
        for chosen in _windows(actions, steps, windows):
            share = float((actions[chosen] == STOP).sum() / (actions == STOP).sum())
            rows = states[chosen], actions[chosen]
            parts.append(
                smote_stops(*rows, rng, neighbors=neighbors, ratio=ratio * share, kind=kind)
            )
        return np.concatenate(parts)
    stops = _wanted(actions, ratio)[1]
    if stops > EXACT_STOPS and states.shape[1] > TREE_DIMENSIONS:
        groups = _groups(actions, rng)
        warnings.warn(
            f"SMOTE looks for the neighbours of {stops:,} stops in {len(groups)} random groups: "
            f"with more than {TREE_DIMENSIONS} features the time would grow with their square",
            stacklevel=2,
        )
        return np.concatenate([
            _interpolated(states[group], actions[group], rng, neighbors, ratio, kind, _by_comparing)
            for group in groups
        ])  # fmt: skip
    return _interpolated(states, actions, rng, neighbors, ratio, kind, int)


def _by_comparing(neighbors: int) -> Any:
    """Return a search that compares all rows, which beats trees where there are many features."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=neighbors + 1, algorithm="brute")  # the row itself is one


def _interpolated(
    states: FloatArray,
    actions: IntArray,
    rng: np.random.Generator,
    neighbors: int,
    ratio: float,
    kind: SmoteKind,
    search: Callable[[int], Any],
) -> FloatArray:
    """Let imbalanced-learn make the synthetic stops; see `smote_stops`.

    Args:
        states: (N, D).
        actions: (N,).
        rng: the choices.
        neighbors: k.
        ratio: stops per continue row.
        kind: of SMOTE.
        search: from a number of neighbours to what imbalanced-learn looks for them with.
    """
    wanted, stops = _wanted(actions, ratio)
    if wanted <= stops:
        return np.empty((0, states.shape[1]), dtype=states.dtype)
    options: dict[str, Any] = {"k_neighbors": search(min(neighbors, stops - 1))}
    if kind == "borderline":
        options["m_neighbors"] = search(min(10, len(actions) - 1))
    name = {"regular": "SMOTE", "borderline": "BorderlineSMOTE"}[kind]
    sampler: Spec = {"class_path": f"imblearn.over_sampling.{name}", "init_args": options}
    made = _sampled(states, actions, rng, sampler, wanted)
    if len(made) == 0:
        raise OversamplingError(
            "borderline SMOTE found no stop row near the border between stops and continues; "
            "use smote_kind: regular"
        )
    return made


def _groups(actions: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Deal out stops and continue rows to groups, at random, so that the ratio stays."""
    count = -(-int((actions == STOP).sum()) // GROUP_STOPS)
    parts = [
        np.array_split(rng.permutation(np.flatnonzero(chosen)), count)
        for chosen in (actions == STOP, actions != STOP)
    ]
    return [np.sort(np.concatenate(part)) for part in zip(*parts, strict=True)]


def _windows(actions: IntArray, steps: IntArray, windows: int) -> list[IntArray]:
    """Return all continue rows with the stops of each window of time."""
    stops, others = np.flatnonzero(actions == STOP), np.flatnonzero(actions != STOP)
    ordered = stops[np.argsort(steps[stops], kind="stable")]
    parts = np.array_split(ordered, max(1, min(windows, len(stops) // 2)))
    return [np.sort(np.concatenate([others, part])) for part in parts]


def synthetic_confidence(
    made: FloatArray,
    states: FloatArray,
    actions: IntArray,
    paths: IntArray,
    kind: Confidence,
    neighbors: int = 12,
) -> FloatArray:
    """Return how far each synthetic stop is to be believed, learnt from the real rows; (S,).

    Args:
        made: (S, D) synthetic stops.
        states: (N, D) real rows.
        actions: (N,) 0 stop, 1 continue.
        paths: (N,) which path each row belongs to.
        kind: `neighbors` is the share of stops among the nearest real rows, stops and continues
            weighted to be equally many; `discriminator` the probability of a stop by boosted
            trees, the mean of those fitted to either half of the paths; `one` believes all.
        neighbors: how many are looked at.
    """
    check_choice("synthetic_confidence", kind, Confidence)
    stop = actions == STOP
    if kind == "one" or len(made) == 0:
        return np.ones(len(made), dtype=np.float32)
    if kind == "neighbors":
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=min(neighbors, len(states))).fit(states)
        near = stop[search.kneighbors(made, return_distance=False)]  # (S, k)
        of_stops, of_others = near.mean(1) / stop.mean(), (~near).mean(1) / (~stop).mean()
        return np.asarray(of_stops / (of_stops + of_others), dtype=np.float32)
    from sklearn.ensemble import HistGradientBoostingClassifier

    believed = []
    for half in (paths % 2 == 0, paths % 2 == 1):
        if len(np.unique(stop[half])) < 2:
            raise OversamplingError(
                "synthetic_confidence: discriminator needs stops in both halves of the paths"
            )
        model = HistGradientBoostingClassifier(class_weight="balanced", random_state=0)
        believed.append(model.fit(states[half], stop[half]).predict_proba(made)[:, 1])
    return np.asarray(np.mean(believed, axis=0), dtype=np.float32)


def sample_stops(
    states: FloatArray,
    actions: IntArray,
    rng: np.random.Generator,
    sampler: Spec,
    *,
    ratio: float = 1.0,
) -> FloatArray:
    """Return the synthetic stop states that a named sampler makes; (S, D).

    Args:
        states: (N, D) standardised states of the training split.
        actions: (N,) 0 stop, 1 continue.
        rng: its seed, unless the arguments give one.
        sampler: class_path and init_args of a sampler of imbalanced-learn.
        ratio: stops per continue row, unless the arguments give a sampling_strategy.
    """
    wanted, stops = _wanted(actions, ratio)
    if wanted <= stops and "sampling_strategy" not in sampler["init_args"]:
        return np.empty((0, states.shape[1]), dtype=states.dtype)
    return _sampled(states, actions, rng, sampler, wanted)


def _wanted(actions: IntArray, ratio: float) -> tuple[int, int]:
    """Return how many stops there shall be, and how many there are."""
    if ratio <= 0:
        raise ValueError(f"ratio must be positive, got {ratio}")
    stops = int((actions == STOP).sum())
    if stops < 2:
        raise OversamplingError(
            f"oversampling needs at least 2 stop rows in the training split, got {stops}; "
            "use oversampling: none, or more stopped paths"
        )
    return round(ratio * (len(actions) - stops)), stops


def _sampled(
    states: FloatArray, actions: IntArray, rng: np.random.Generator, sampler: Spec, wanted: int
) -> FloatArray:
    """Run a sampler; refuse one that changes, drops or moves the rows that were there."""
    from imblearn.base import BaseSampler  # takes most of a second

    name = sampler["class_path"]
    accepted = inspect.signature(import_class(name, BaseSampler)).parameters
    usual = {"sampling_strategy": {STOP: wanted}, "random_state": int(rng.integers(2**31))}
    arguments = {n: v for n, v in usual.items() if n in accepted} | sampler["init_args"]
    made = build("oversampling", sampler | {"init_args": arguments}, BaseSampler)
    try:
        enlarged, labels = made.fit_resample(states, actions)
    except (ValueError, RuntimeError) as error:
        raise OversamplingError(f"{name}: {error}") from None
    count = len(states)
    if len(enlarged) < count or not np.array_equal(enlarged[:count], states):
        raise OversamplingError(
            f"{name} does not keep the original rows first, unchanged: rows of paths cannot be "
            "dropped or moved; use a sampler that only adds rows"
        )
    if (np.asarray(labels[count:]) != STOP).any():
        raise OversamplingError(f"{name} makes continue rows, which have no successor: only stops")
    return np.asarray(enlarged[count:], dtype=states.dtype)


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


def balance_stops(
    seen: FloatArray, copies: FloatArray, actions: IntArray, bounds: IntArray, ratio: float = 1.0
) -> FloatArray:
    """Weigh each member's stops in each batch to match the continues that the member sees.

    Local bootstrap draws stops for all members at once, but each sees paths of its own: its stops
    are scaled to `ratio` per continue row, unless it sees none, or enough of them anyway.

    Args:
        seen: (K, E) how often each member sees each row.
        copies: (K, E) the same times what local bootstrap drew.
        actions: (E,) 0 stop, 1 continue, other values for rows that count as neither.
        bounds: where batches that lie one behind the other begin, and the end.
        ratio: stops per continue row.
    """
    stop, starts = actions == STOP, bounds[:-1]
    wanted = ratio * np.add.reduceat(seen * (actions == CONTINUE), starts, axis=1)  # (K, batches)
    present = np.add.reduceat(seen * stop, starts, axis=1)
    drawn = np.add.reduceat(copies * stop, starts, axis=1)
    short = (present > 0) & (present < wanted)
    factor = np.divide(wanted, drawn, out=np.ones_like(wanted), where=short)
    batch = np.repeat(np.arange(len(starts)), np.diff(bounds))
    scaled = np.where(short[:, batch], copies * factor[:, batch], seen)
    return np.where(stop, scaled, copies).astype(np.float32)


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

    (K, P) float32.
    """
    copies = [np.bincount(rng.integers(paths, size=paths), minlength=paths) for _ in range(members)]
    return np.stack(copies).astype(np.float32)
