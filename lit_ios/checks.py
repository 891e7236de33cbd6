"""Checks of arguments that several places share."""

from __future__ import annotations

from typing import Any, get_args


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of a Literal's."""
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}")
