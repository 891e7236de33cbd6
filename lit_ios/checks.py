"""Errors a user can fix, and checks of arguments that several places share."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any, get_args

LIKE = 0.6  # share of letters in common from which on a word may have been meant


LONGEST = 200  # characters of a value that an error quotes


class UserError(ValueError):
    """Input or settings that cannot be used; the message says what and where.

    Arguments are named as in Python (missing='impute', drop=['x']). The command line prints the
    message in one line, without a traceback and with options for arguments.
    """


def quoted(value: object) -> str:
    """Return a value as errors quote it: short, whatever it is."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or too many digits
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that a Literal does not list."""
    allowed = get_args(choices)
    if value not in allowed:
        raise UserError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}")


def check_number(
    name: str,
    value: float,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> None:
    """Refuse a number that is not finite or lies outside its bounds."""
    if not isinstance(value, Real) or (isinstance(value, int) and abs(value) > 10**300):
        raise UserError(f"{name} must be a number, got {quoted(value)}")
    if not (math.isfinite(value) and above < value < below and at_least <= value <= at_most):
        bounds = {"above": above, "of at least": at_least, "at most": at_most, "below": below}
        given = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        wanted = f"a number {' and '.join(given)}" if given else "a number that is finite"
        raise UserError(f"{name} must be {wanted}, got {value}")


def check_integer(name: str, value: object, *, at_least: int, below: int | None = None) -> None:
    """Refuse what is not an integer, or lies outside its bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < at_least or (below is not None and value >= below):  # type: ignore[operator]
        above = "" if below is None else f" and below {below}"
        raise UserError(
            f"{name} must be an integer of at least {at_least}{above}, got {quoted(value)}"
        )


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean '…'?" with the known name nearest to a misspelt one, if any is."""
    near = nearest(str(name), known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, if one is; `_` is `-` and A is a."""
    plain = {_plain(name): name for name in known}
    like = difflib.SequenceMatcher(b=_plain(word))

    def likeness(name: str) -> float:
        like.set_seq1(name)
        return like.ratio() if like.real_quick_ratio() >= LIKE else 0.0

    best = max(sorted(plain), key=likeness, default="")
    return plain[best] if best and likeness(best) >= LIKE else None


def _plain(word: str) -> str:
    return word.casefold().replace("_", "-")


def check_arguments(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse keywords that are no arguments, with the nearest one that is."""
    for name in sorted(set(given) - set(known)):
        near = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
        raise UserError(f"there is no argument {name}{near}")
