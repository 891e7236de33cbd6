"""What a monitor knows of a finished path: a few plain numbers."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lit_ios.checks import UserError, check_number, quoted


class PathScores(NamedTuple):
    """What a monitor knows of finished paths; (P,) each, plain values."""

    margin: Sequence[float]  # the largest one
    distance: Sequence[float]  # the largest one from the rows of training; up to 1 is familiar
    stopped: Sequence[bool]  # by the expert


def rounded(value: float) -> float:
    """Return a value to four digits after its first: equal ones stay equal however computed.

    Whole paths, live ones and exported files differ in the last digits of a margin, by which no
    path is to be told from another. The grid does not depend on the paths.
    """
    size = 10.0 ** math.floor(math.log10(max(abs(value), 1.0)))
    return round(value / size, 4) * size


def checked(margin: Any, stopped: Any, distance: Any, name: Any) -> tuple[float, float, bool]:
    """Return margin, distance and stop of a path as plain values; refuse impossible ones."""
    check_number("margin", margin)
    check_number("distance", distance, at_least=0)
    if not isinstance(stopped, bool | np.bool_):
        raise UserError(f"stopped must be True or False, got {quoted(stopped)}")
    if not isinstance(name, str | None):
        raise UserError(f"the name of a path must be text, got {quoted(name)}")
    return float(margin), float(distance), bool(stopped)


def are_scores(found: Any) -> bool:
    """Say whether plain values are the scores of paths; None and nothing are those of none."""
    if not found:
        return found is None or found == {}
    if not isinstance(found, dict) or set(found) != set(PathScores._fields):
        return False
    values = [found[name] for name in PathScores._fields]
    if not all(isinstance(each, list) for each in values) or len(set(map(len, values))) != 1:
        return False
    try:
        for margin, distance, stopped in zip(*values, strict=True):
            checked(margin, stopped, distance, None)
    except UserError:
        return False
    return True


def digest(reference: PathScores) -> str:
    """Return a short name of calibration paths."""
    text = json.dumps([list(values) for values in reference])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
