"""Errors a user can mend, and checks of arguments that several places share."""

from __future__ import annotations

from typing import Any, get_args


class UserError(ValueError):
    """Input or settings that cannot be used; the message says what and where.

    The command line prints it in one line, without a traceback.
    """


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of a Literal's."""
    allowed = get_args(choices)
    if value not in allowed:
        raise UserError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}")
