"""The threshold that keeps several promises at once, or why there is none."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lit_ios.checks import UserError
from lit_ios.functional.frontier import ROUNDING, below
from lit_ios.promises.base import Promise
from lit_ios.promises.sweep import Sweep

MOST_TIMES = 1000  # as many paths, beyond which more of them are not said to help


class Term(NamedTuple):
    """A promise that is to be kept on some of the paths."""

    promise: Promise
    sweep: Sweep
    error: float | None
    group: str | None = None

    @property
    def price(self) -> Tensor:
        """What each threshold costs; (K,)."""
        return self.promise.price(self.sweep, self.error)


class Choice(NamedTuple):
    """A threshold, and what it keeps where."""

    threshold: float
    too_small: tuple[str, ...] = ()  # groups of which nothing is promised
    decisive: str | None = None  # the least favourable group


def choose(
    sweep: Sweep, promises: Sequence[Promise], groups: Mapping[str, Tensor] | None = None
) -> Choice:
    """Return the threshold that keeps all promises and serves the goal among them best.

    Promises with a confidence share their error probability, also between groups: with k of them,
    each may be broken with a k-th of it, so that all are kept together with the least of their
    confidences.

    Args:
        sweep: of the calibration paths.
        promises: to keep; at most one goal.
        groups: (P,) bool which paths belong to each; promises are kept within each.
    """
    check_promises(promises)
    terms, too_small = _terms(sweep, promises, groups)
    price = torch.stack([term.price for term in terms]).sum(0)
    if not price.isfinite().any():
        raise UserError(_why_not(sweep, terms))
    at = _best(price, promises)
    decisive = _decisive([term for term in terms if term.group is not None], at)
    return Choice(_threshold(sweep.threshold, at, promises), too_small, decisive)


def check_promises(promises: Sequence[Promise]) -> None:
    """Refuse what is no promise, and more than one goal."""
    for promise in promises:
        if not isinstance(promise, Promise):
            raise UserError(
                f"promises are objects such as MissRate(0.05), got {promise!r}; "
                "columns are given by name: path=…, time=…"
            )
    goals = [type(promise).__name__ for promise in promises if promise.prefers is None]
    if len(goals) > 1:
        raise UserError(f"only one goal can be served, got {' and '.join(goals)}")


def _terms(
    sweep: Sweep, promises: Sequence[Promise], groups: Mapping[str, Tensor] | None
) -> tuple[list[Term], tuple[str, ...]]:
    """Say which promise is kept on which paths with which error; refuse too few paths."""
    kept = [promise for promise in promises if promise.prefers is not None]
    goals = [Term(promise, sweep, None) for promise in promises if promise.prefers is None]
    parts: dict[str | None, Sweep] = {None: sweep}
    large = tuple(groups or ())
    if groups and kept:
        large = _large_enough(sweep, kept, groups)
        parts = {name: sweep.among(groups[name]) for name in large}
    terms = [
        Term(promise, part, _error(promise, kept, len(parts)), name)
        for promise in kept
        for name, part in parts.items()
    ]
    for term in terms:
        if (short := term.promise.shortage(term.sweep, term.error)) is not None:
            raise UserError(f"{term.promise.words}: {short}")
    return terms + goals, tuple(name for name in groups or () if name not in large)


def _error(promise: Promise, among: Sequence[Promise], groups: int) -> float | None:
    """Return the share of the error probability that one promise has in one group."""
    if promise.confidence is None:
        return None
    return (1 - promise.confidence) / (groups * sum(p.confidence is not None for p in among))


def _large_enough(
    sweep: Sweep, promises: Sequence[Promise], groups: Mapping[str, Tensor]
) -> tuple[str, ...]:
    """Return as many groups as can all have the promises kept, by their sizes alone.

    Where the error is shared, a group that is large enough beside few others may be too small
    beside many: those that could share it with the most others are taken first.
    """
    parts = {name: sweep.among(which) for name, which in groups.items()}
    beside = {name: _most_groups(part, promises, len(parts)) for name, part in parts.items()}
    size = {name: (float(part.weight.sum()), part.events) for name, part in parts.items()}
    ranked = sorted(parts, key=lambda name: (beside[name], *size[name]), reverse=True)
    number = sum(beside[name] >= rank for rank, name in enumerate(ranked, start=1))
    if number:
        return tuple(name for name in parts if name in ranked[:number])
    largest = max(parts, key=size.__getitem__)
    for promise in promises:
        short = promise.shortage(parts[largest], _error(promise, promises, 1))
        if short is not None:
            raise UserError(
                f"no group is large enough for {promise.words}: {short}, in {largest!r}, which has "
                "the most paths"
            )
    raise UserError(f"no group is large enough for all of {len(promises)} promises")


def _most_groups(part: Sweep, promises: Sequence[Promise], most: int) -> int:
    """Return how many groups may share the errors such that this one is still large enough."""

    def too_small(number: int) -> bool:
        errors = [_error(promise, promises, number) for promise in promises]
        return any(p.shortage(part, e) is not None for p, e in zip(promises, errors, strict=True))

    return bisect_left(range(1, most + 1), True, key=too_small)


def _best(price: Tensor, promises: Sequence[Promise]) -> int:
    """Return the point to take: the cheapest, or the highest or lowest that keeps all."""
    if all(promise.prefers == "low" for promise in promises):
        return int(price.isfinite().nonzero()[-1])
    least = float(price.min())
    return int((price <= least + 1e-12 * max(abs(least), 1)).nonzero()[0])


def _threshold(value: Tensor, at: int, promises: Sequence[Promise]) -> float:
    """Return a threshold of point `at`, such that rounding does not break a promise."""
    kinds = {promise.prefers for promise in promises}
    lower = float(value[at + 1]) if at + 1 < len(value) else -math.inf
    if kinds == {"low"}:
        if lower == -math.inf:
            return float(below(value, at))
        return min(lower + ROUNDING * max(abs(lower), 1), float(value[at]))
    if at == 0 or None in kinds:
        return float(value[0]) if at == 0 else float(below(value, at))
    exact = float(value[at])
    lowered = exact - ROUNDING * max(abs(exact), 1)
    return lowered if kinds == {"high"} else max(lowered, float(below(value, at)))


def _decisive(terms: Sequence[Term], at: int) -> str | None:
    """Return the group that would allow the least change of the threshold."""
    best, name = math.inf, None
    for term in terms:
        finite = term.price.isfinite().nonzero().squeeze(-1)
        room = at - int(finite[0]) if term.promise.prefers == "high" else int(finite[-1]) - at
        if room < best:
            best, name = room, term.group
    return name


def _why_not(sweep: Sweep, terms: Sequence[Term]) -> str:
    """Say what each promise needs, what it would cost, and how many paths might keep all."""
    parts = []
    for term in terms:
        if term.promise.prefers is None:
            continue
        finite = term.price.isfinite().nonzero().squeeze(-1)
        named = term.promise.words + (f" in group {term.group!r}" if term.group else "")
        high = term.promise.prefers == "high"
        if not len(finite):
            all_or_none = "to stop every path at its first row" if high else "never to stop"
            most = _does(sweep, len(sweep.threshold) - 1 if high else 0)
            parts.append(f"{named}: not even {all_or_none} keeps it, which {most}")
            continue
        at = int(finite[0] if high else finite[-1])
        bound = f"a threshold of {'at most' if high else 'at least'} {_shown(sweep, at, high)}"
        parts.append(f"{named}: {bound}, which {_does(sweep, at)}")
    more = _more(sweep, terms)
    return f"no threshold keeps all promises. {'. '.join(parts)}. {more}"


def _shown(sweep: Sweep, at: int, high: bool) -> str:
    value = sweep.threshold
    return f"{float(value[at] if high or at + 1 == len(value) else value[at + 1]):.4g}"


def _does(sweep: Sweep, at: int) -> str:
    """Say what a threshold does on the calibration paths."""
    done = []
    if sweep.events:
        done.append(f"misses {int(sweep.missed[at])} of {sweep.events} events")
    if sweep.censored:
        done.append(f"stops {int(sweep.false_alarms[at])} of {sweep.censored} censored paths")
    return " and ".join(done)


def _more(sweep: Sweep, terms: Sequence[Term]) -> str:
    """Say whether more paths like these would do, and about how many."""
    times = 1.0
    while times < MOST_TIMES:
        times *= 1.1
        copies = [term._replace(sweep=term.sweep.repeated(times)) for term in terms]
        if torch.stack([term.price for term in copies]).sum(0).isfinite().any():
            kinds = {"stopped": sweep.events, "censored": sweep.censored}
            made = [f"{math.ceil(times * n):,} {kind}" for kind, n in kinds.items() if n]
            return (
                f"About {times:.2g} times as many paths like these would be needed: "
                f"{' and '.join(made)} ones"
            )
    return "More paths like these would not help: give up some of a promise, or train a better rule"
