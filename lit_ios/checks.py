"""Errors a user can fix, and checks of arguments that several places share."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from numbers import Real
from typing import Any, get_args


class UserError(ValueError):
    """Input or settings that cannot be used; the message says what and where.

    The command line prints it in one line, without a traceback.
    """


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
) -> None:
    """Refuse a number that is not finite or lies outside its bounds."""
    if not isinstance(value, Real):
        raise UserError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and above < value <= at_most and value >= at_least):
        bounds = {"above": above, "of at least": at_least, "at most": at_most}
        given = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        raise UserError(f"{name} must be a number {' and '.join(given)}, got {value}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean '…'?" with the known name nearest to a misspelt one, if any is."""
    names = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(str(name).casefold(), names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def check_arguments(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse keywords that are no arguments, with the nearest one that is."""
    for name in sorted(set(given) - set(known)):
        near = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
        raise UserError(f"there is no argument {name}{near}")
