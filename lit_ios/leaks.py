"""Features that give the expert's stop away: outcomes and remaining lives left in a table.

Such a feature is not known when the decision has to be made, and a rule that is trained on it looks
perfect and is useless. Only a user can tell it from an honest feature that happens to be as good,
so the check names it and asks. Everything is measured on paths that did not choose the threshold.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from lit_ios.checks import UserError, did_you_mean
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet

LEVEL = 0.99  # balanced accuracy from which a single feature is asked about
OUTCOME = 0.9  # the same where the feature is the same on all rows of a path
SHARE_AT_STOPS = 0.95  # of a feature's changes
TIMES_AS_OFTEN = 20.0  # changes at stops beside other rows
CHANCE = 1e-4  # that so many changes fall on stops
EXPLAINED = 0.99  # of the variance of the durations
EXPLAINED_LATER = 0.5  # the same by a time that is not before the end of
NOT_BEFORE = 0.99  # of the paths
FEWEST = 10  # stopped paths, and censored ones where they are compared
MOST_ROWS = 1_000_000
MOST_NAMED = 5  # with what is odd about them
MOST_LISTED = 30
BLOCK = 64  # columns that are copied at a time

Kind = Literal["last row", "row number", "determines", "outcome", "length", "later"]


class Leak(NamedTuple):
    """A feature that seems to know the stop."""

    feature: str
    kind: Kind
    score: float  # what the kind is told by: a share of changes, balanced accuracy or R²
    sentence: str


class _Frame(NamedTuple):
    """What is asked of every feature alike."""

    paths: TrajectorySet
    stop_rows: BoolArray  # (N,)
    inner: BoolArray  # (N − 1,) whether the next row is of the same path
    path_of_row: IntArray  # (N,)
    half: BoolArray  # (P,)


def find_leaks(paths: TrajectorySet, keep: Sequence[str] = ()) -> list[Leak]:
    """Return the features of raw columns that almost determine where paths were stopped.

    At most a million rows are looked at, of paths drawn at random.

    Args:
        paths: of raw columns, those of text coded; missing values are NaN.
        keep: features that are known at the time of the decision, whatever they look like.
    """
    for name in set(keep) - set(paths.feature_names):
        near = did_you_mean(name, paths.feature_names) or "; leave it out"
        raise UserError(f"keep: there is no feature {name!r}{near}")
    paths = some_paths(paths)
    if not paths.stopped.any():
        return []
    frame, found = _frame(paths), []
    for first in range(0, len(paths.feature_names), BLOCK):
        block = np.ascontiguousarray(paths.states[:, first : first + BLOCK].T)
        names = paths.feature_names[first : first + BLOCK]
        for name, values in zip(names, block, strict=True):
            if name not in keep:
                leak = _leak(name, values, frame)
                found += [] if leak is None else [leak]
    return found


def static_names(paths: TrajectorySet) -> list[str]:
    """Return the features that are the same on all rows of each path, but not of all paths."""
    own = paths.states[paths.offsets[:-1]]
    constant = ((own == own[0]) | (np.isnan(own) & np.isnan(own[0]))).all(axis=0)
    return [paths.feature_names[i] for i in np.flatnonzero(paths.static & ~constant)]


def ask_about_static(names: Sequence[str], keep: Sequence[str]) -> None:
    """Ask whether features that are the same on all rows of a path are known when it begins.

    Those that say less of the outcome than `find_leaks` asks for, such as another event later on,
    cannot be told from honest ones.

    Args:
        names: of these features.
        keep: those that are known.
    """
    asked = [name for name in names if name not in keep]
    if asked:
        more = f" and {len(asked) - MOST_LISTED} more" if len(asked) > MOST_LISTED else ""
        warnings.warn(
            f"the same on all rows of a path: {', '.join(asked[:MOST_LISTED])}{more}; leave out "
            "what is not known when a path begins, such as outcomes (drop=['…']), and name what is "
            "(keep=['…'])",
            stacklevel=3,
        )


def refuse_leaks(leaks: Sequence[Leak]) -> None:
    """Ask the user about features that give the stop away."""
    if not leaks:
        return
    named = {leak.feature: leak.sentence for leak in leaks}
    shown, listed = list(named)[:MOST_NAMED], list(named)[:MOST_LISTED]
    more = f" (and {len(named) - len(shown)} more)" if len(named) > len(shown) else ""
    it, if_known = ("it", "it is") if len(named) == 1 else ("them", "they are")
    raise UserError(
        "possible leak: "
        + "; ".join(named[name] for name in shown)
        + f"{more}: leave {it} out with drop={listed}, or keep {it} with keep={listed} if "
        f"{if_known} known at the time of the decision"
    )


def some_paths(paths: TrajectorySet, rows: int = MOST_ROWS) -> TrajectorySet:
    """Return as many paths, drawn at random, as have this many rows; all if they are fewer."""
    if len(paths.states) <= rows:
        return paths
    order = np.random.default_rng(0).permutation(len(paths))
    fitting = np.cumsum(paths.lengths[order]) <= rows
    return paths.select(np.sort(order[fitting])) if fitting.any() else paths


def _frame(paths: TrajectorySet) -> _Frame:
    stop_rows = np.zeros(len(paths.states), dtype=bool)
    stop_rows[paths.last_rows[paths.stopped]] = True
    inner = np.ones(len(paths.states) - 1, dtype=bool)
    inner[paths.offsets[1:-1] - 1] = False
    half, rng = np.zeros(len(paths), dtype=bool), np.random.default_rng(1)
    for kind in (True, False):
        half[rng.permutation(np.flatnonzero(paths.stopped == kind))[::2]] = True
    return _Frame(paths, stop_rows, inner, paths.path_of_row, half)


def _leak(name: str, values: FloatArray, frame: _Frame) -> Leak | None:
    """Return what is suspicious about one feature, if anything is."""
    known = ~np.isnan(values)
    changed = (values[1:] != values[:-1]) & (known[1:] | known[:-1]) & frame.inner
    leak = _last_row(name, changed, frame) or _row_number(name, values, frame)
    if leak is None and not changed.any():
        leak = _outcome(name, values, frame) or _length(name, values, frame)
    elif leak is None:
        leak = _determines(name, values, frame)
    return leak


def _last_row(name: str, changed: BoolArray, frame: _Frame) -> Leak | None:
    """Look for a feature that only ever changes where the expert stopped."""
    at_stops = frame.stop_rows[1:] & frame.inner
    changes, stops = int(changed.sum()), int(at_stops.sum())
    others = int(frame.inner.sum()) - stops
    if not changes or not others or not stops:
        return None
    hits = int((changed & at_stops).sum())
    often = hits / stops >= TIMES_AS_OFTEN * (changes - hits) / others
    by_chance = (stops / (stops + others)) ** hits
    if hits / changes < SHARE_AT_STOPS or not often or by_chance > CHANCE:
        return None
    sentence = f"{name} changes almost only at the last row of stopped paths"
    return Leak(name, "last row", hits / changes, sentence)


def _row_number(name: str, values: FloatArray, frame: _Frame) -> Leak | None:
    """Look for a column that counts the rows of the whole table: paths keep off each other."""
    steps = values[1:] - values[:-1]
    counts = len(frame.paths) > 1 and frame.inner.any() and (steps[frame.inner] == 1).all()
    if not counts or len(np.unique(values)) < len(values):
        return None
    return Leak(name, "row number", 1.0, f"{name} counts the rows of the whole table")


def _determines(name: str, values: FloatArray, frame: _Frame) -> Leak | None:
    """Look for a threshold on the feature that stops where the expert did (M1)."""
    paths = frame.paths
    if paths.stopped.sum() < FEWEST:
        return None
    best, word = 0.0, ""
    for sign, what in _directions(name, paths):
        scores = []
        for chosen in (frame.half, ~frame.half):
            rows = chosen[frame.path_of_row]
            signed = _signed(name, values, sign, rows, frame.stop_rows, paths)
            if _hopeless(signed, frame):
                break
            running = _running_maximum(signed, frame)
            scores.append(_held_out_accuracy(running, frame.stop_rows, rows))
        if len(scores) == 2 and np.mean(scores) > best:
            best, word = float(np.mean(scores)), what
    if best < LEVEL:
        return None
    sentence = (
        f"{name} almost determines the stop by itself: stopping at {word} gives a balanced "
        f"accuracy of {best:.3f} on paths left out"
    )
    return Leak(name, "determines", best, sentence)


def _outcome(name: str, values: FloatArray, frame: _Frame) -> Leak | None:
    """Look for a feature of whole paths that tells stopped from censored ones."""
    paths = frame.paths
    if min(paths.stopped.sum(), (~paths.stopped).sum()) < FEWEST:
        return None
    own, best = values[paths.offsets[:-1]], 0.0
    missing = np.isnan(own)
    tried: list[FloatArray | int] = [sign for sign, _ in _directions(name, paths)]
    tried += [missing.astype(np.float64), (~missing).astype(np.float64)]
    for what in tried:
        scores = []
        for chosen in (frame.half, ~frame.half):
            signed = what
            if isinstance(signed, int):
                signed = _signed(name, own, signed, chosen, paths.stopped, paths)
            scores.append(_held_out_accuracy(signed, paths.stopped, chosen))
        best = max(best, float(np.mean(scores)))
    if best < OUTCOME:
        return None
    sentence = (
        f"{name} is the same on all rows of a path and tells stopped from censored paths (balanced "
        f"accuracy {best:.3f} on paths left out)"
    )
    return Leak(name, "outcome", best, sentence)


def _length(name: str, values: FloatArray, frame: _Frame) -> Leak | None:
    """Look for a number that says from the first row on when a path ends, or a later event."""
    paths = frame.paths
    own, begin = values[paths.offsets[:-1]], paths.times[paths.offsets[:-1]]
    end = paths.times[paths.last_rows]
    asked = paths.stopped & ~np.isnan(own)
    if name in paths.categories or asked.sum() < FEWEST:
        return None
    duration, half = (end - begin)[asked], frame.half[asked]
    best = max(_explained(x, duration, half) for x in (own[asked], (own - begin)[asked]))
    known = ~np.isnan(own)
    later = max(np.mean(own[known] >= last[known]) for last in (end, end - begin)) >= NOT_BEFORE
    if best < (EXPLAINED_LATER if later else EXPLAINED):
        return None
    what = "says how long the path is (explains"
    if best < EXPLAINED:
        what = "may be the time of a later event (it is not before the last row, and explains"
    sentence = (
        f"{name} is the same on all rows of a path and {what} {best:.1%} of the durations of "
        "stopped paths left out)"
    )
    return Leak(name, "length" if best >= EXPLAINED else "later", best, sentence)


def _directions(name: str, paths: TrajectorySet) -> Iterator[tuple[int, str]]:
    if name in paths.categories:
        yield 1, "some of its categories"
        return
    yield 1, "high values"
    yield -1, "low values"


def _signed(
    name: str,
    values: FloatArray,
    sign: int,
    chosen: BoolArray,
    target: BoolArray,
    paths: TrajectorySet,
) -> FloatArray:
    """Return what is compared with a threshold; −∞ where it is missing.

    A category counts as much as its share of stops among the chosen rows.
    """
    missing = np.isnan(values)
    if name not in paths.categories:
        return np.where(missing, -np.inf, sign * values)
    codes = np.where(missing, -1, values).astype(np.int64) + 1
    size = int(codes.max()) + 1
    rows = np.bincount(codes[chosen], minlength=size)
    stops = np.bincount(codes[chosen & target], minlength=size)
    share = np.where(rows > 0, stops / np.maximum(rows, 1), -np.inf)
    return np.asarray(share[codes])


def _hopeless(values: FloatArray, frame: _Frame) -> bool:
    """Say whether no threshold can reach the level, without sorting anything.

    Both rates must be at least 2 · LEVEL − 1. A threshold that catches as many stopped paths as
    that is no higher than a quantile of their maxima, and that one lets too few other rows pass.
    """
    least, paths = 2 * LEVEL - 1 - 0.05, frame.paths  # halves differ from the whole
    highest = np.maximum.reduceat(values, paths.offsets[:-1])[paths.stopped]
    allowed = int((1 - least) * len(highest))
    threshold = np.partition(highest, allowed)[allowed]
    above = np.flatnonzero(values >= threshold)
    first = above[np.diff(frame.path_of_row[above], prepend=-1) != 0]
    of = frame.path_of_row[first]
    lost = int((paths.offsets[of + 1] - paths.stopped[of] - first).sum())
    others = len(values) - int(paths.stopped.sum())
    return others - lost < least * others


def _running_maximum(values: FloatArray, frame: _Frame) -> FloatArray:
    """Return the largest value so far in each row's path."""
    levels, rank = np.unique(values, return_inverse=True)
    shift = frame.path_of_row * len(levels)
    return np.asarray(levels[np.maximum.accumulate(rank + shift) - shift])


def _held_out_accuracy(values: FloatArray, stop: BoolArray, chosen: BoolArray) -> float:
    """Choose the best threshold on the chosen rows; return its balanced accuracy on the others."""
    threshold = _best_threshold(values[chosen], stop[chosen])
    above, stop = values[~chosen] >= threshold, stop[~chosen]
    if not stop.any() or stop.all():
        return 0.0
    return float(above[stop].mean() + (~above[~stop]).mean()) / 2


def _best_threshold(values: FloatArray, stop: BoolArray) -> float:
    """Return the value from which on stops and other rows are told apart best."""
    order = np.argsort(-values, kind="stable")
    value, stop = values[order], stop[order]
    score = np.cumsum(stop) / max(stop.sum(), 1) - np.cumsum(~stop) / max((~stop).sum(), 1)
    score[:-1][value[1:] == value[:-1]] = -np.inf  # equal values are crossed together
    best = int(np.argmax(score))
    smaller = value[value < value[best]]
    between = np.isfinite(value[best]) and len(smaller) and np.isfinite(smaller[0])
    return float(value[best] / 2 + smaller[0] / 2 if between else value[best])


def _explained(x: FloatArray, y: FloatArray, half: BoolArray) -> float:
    """Return R² of a straight line fitted to one half of the paths, on the other, both ways."""
    scores = []
    for chosen in (half, ~half):
        spread = np.ptp(x[chosen])
        rest = y[~chosen] - y[~chosen].mean()
        if not np.isfinite(spread) or spread == 0 or not rest.any():
            return 0.0
        centre = x[chosen].mean()
        scaled = (x - centre) / spread
        slope, intercept = np.polyfit(scaled[chosen], y[chosen], 1)
        error = y[~chosen] - intercept - slope * scaled[~chosen]
        scores.append(1 - float(error @ error) / float(rest @ rest))
    return min(scores)
