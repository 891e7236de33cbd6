"""What an exported file says of its rule, which may be damaged or another program's."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, get_args

from lit_ios.carry import CLOCK, FIRST_STOP, ROWS, Missing
from lit_ios.checks import UserError
from lit_ios.live.forecast import Forecast
from lit_ios.live.path_scores import are_scores
from lit_ios.live.watched import promised
from lit_ios.times import TimeUnit

FORMAT, VERSION = "lit-ios rule", 3


def read_metadata(text: str, file: object) -> dict[str, Any]:
    """Return what metadata in JSON say; refuse what a rule cannot be run by.

    Args:
        text: JSON.
        file: it is from, for errors.
    """
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{file} is damaged: its metadata are not JSON; export it again") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"{file} is not a lit-ios rule of version {VERSION}")
    if about.get("version") != VERSION or isinstance(about["version"], bool):
        raise UserError(f"{file} is not a lit-ios rule of version {VERSION}")
    for name, fits in _KINDS.items():
        if name not in about or not fits(about[name]):
            raise UserError(f"{file} is damaged: its metadata lack {name!r}; export it again")
    if not set(about["categories"]) <= set(about["columns"]):
        raise UserError(f"{file} is damaged: it has categories of no column; export it again")
    try:
        promised(about["calibration"] or {})
        if about["forecast"] is not None:
            Forecast.of(about["forecast"])
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError):
        raise UserError(
            f"{file} is damaged: its forecast or calibration cannot be read; export it again"
        ) from None
    return about


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return known and math.isfinite(value)
    except OverflowError:
        return False


def _is_start(value: Any) -> bool:
    """Say whether this is the carry of a path of which no row was seen."""
    listed = isinstance(value, list) and len(value) >= len(CLOCK) and all(map(_is_number, value))
    return listed and value[ROWS] == 0 and value[FIRST_STOP] == -1


def _are_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return texts and len(set(value)) == len(value)


def _are_categories(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_names, value.values()))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "columns": lambda value: _are_names(value) and len(value) > 0,
    "categories": _are_categories,
    "start": _is_start,
    "include_time": lambda value: isinstance(value, bool),
    "time_step": lambda value: _is_number(value) and value > 0,
    "time_unit": lambda value: value in get_args(TimeUnit),
    "fingerprint": lambda value: isinstance(value, str),
    "distance_of": _are_names,
    "missing": lambda value: value in get_args(Missing),
    "threshold": _is_number,
    "reference": are_scores,
    "forecast": lambda value: value is None or isinstance(value, dict),
    "calibration": lambda value: value is None or isinstance(value, dict),
}
