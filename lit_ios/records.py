"""The entry `lit_ios` of a checkpoint, which may be damaged or made up: its kinds of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from lit_ios.checks import UserError
from lit_ios.data_record import TableColumns
from lit_ios.live.path_scores import are_scores
from lit_ios.times import TimeUnit

MOST_PATHS = 10**12


def check_record(about: dict[str, Any], file: object) -> None:
    """Refuse a record with values of another kind than training writes.

    Args:
        about: the entry `lit_ios` of a checkpoint.
        file: it is from, for errors.
    """
    if not _is_spec(about.get("rule")):
        raise UserError(f"{file} is damaged: its rule cannot be made; take another copy of it")
    for name, fits in _KINDS.items():
        if name in about and not fits(about[name]):
            raise UserError(
                f"{file} is damaged: {name!r} of its record is not what training writes; take "
                "another copy of it"
            )


def check_weights(weights: Any, file: object) -> None:
    """Refuse weights that are not tensors by name."""
    import torch

    named = isinstance(weights, dict) and all(isinstance(name, str) for name in weights)
    if not named or not all(isinstance(values, torch.Tensor) for values in weights.values()):
        raise UserError(f"{file} is damaged: its weights are not tensors; take another copy of it")


def _is_spec(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_PATHS


def _is_score(value: Any) -> bool:
    return (
        value is None or (isinstance(value, int | float) and abs(value) <= 1e300) or value != value
    )


def _is_table(value: Any) -> bool:
    """Say whether this is how a table was read."""
    if not _is_spec(value) or not set(value) <= set(TableColumns._fields):
        return False
    texts = {name: given for name, given in value.items() if name != "dates"}
    known = all(given is None or isinstance(given, str) for given in texts.values())
    unit = value.get("time_unit", "hours") in get_args(TimeUnit)
    missing = value.get("missing", "error") in ("error", "drop", "last", "impute")
    return known and unit and missing and isinstance(value.get("dates", False), bool)


def _are_fingerprints(value: Any) -> bool:
    """Say whether these are fingerprints of paths; None or nothing where there are none."""
    if not value:
        return value is None or isinstance(value, dict)
    if not isinstance(value, dict) or set(value) != {"whole", "rows"}:
        return False
    whole, rows = value["whole"], value["rows"]
    if not isinstance(whole, list) or not isinstance(rows, list):
        return False
    texts = all(isinstance(digest, str) for digest in whole)
    return texts and all(isinstance(marks, list) and _are_hashes(marks) for marks in rows)


def _are_hashes(marks: list[Any]) -> bool:
    return all(type(mark) is int and 0 <= mark < 2**64 for mark in marks)


def _is_kept(value: Any) -> bool:
    """Say whether this may be a calibration or a forecast, which are looked at where made."""
    return value is None or _is_spec(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "trained": _is_text,
    "data": _is_text,
    "table": _is_table,
    "training": _are_fingerprints,
    "validation": _are_fingerprints,
    "calibrated_on": _are_fingerprints,
    "calibration": _is_kept,
    "forecast": _is_kept,
    "reference": are_scores,
    "lead": _is_score,
    "paths": _is_count,
    "stops": _is_count,
    "candidate": _is_text,
    "held_out": _is_score,
}
