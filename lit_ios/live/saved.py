"""Saved states of live paths, which may be damaged or made up: what no path can have is refused."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from lit_ios.carry import FIRST_STOP, FURTHEST, HIGHEST, LAST, ROWS, START, THRESHOLD, TIMED
from lit_ios.checks import UserError
from lit_ios.live.rule import LiveRule
from lit_ios.trajectories import FloatArray

MOST_ROWS = 2.0**53  # beyond which a row more is not counted
NESTED = 5  # tuples within tuples in the name of a path
_NUMBERS = (float, int, np.floating, np.integer)
_CLOCK = "the saved state is damaged: its clock is impossible"


def restore(saved: Any, key: str, rule: LiveRule) -> Any:
    """Return what a saved state holds under a key; refuse that of another rule.

    Args:
        saved: what `state` returned.
        key: `carry` of one path, or `carries` of many.
        rule: it must belong to.
    """
    if not isinstance(saved, Mapping) or key not in saved:
        raise UserError(f"a saved state must be what state() returned, with {key!r} in it")
    made_for = saved.get("rule")
    if not isinstance(made_for, str) or made_for != rule.fingerprint:
        raise UserError("the saved state belongs to another rule: its weights differ")
    return saved[key]


def checked_carry(values: Any, rule: LiveRule) -> FloatArray:
    """Return a saved carry; refuse numbers that no path of this rule can have."""
    width = len(rule.start)
    listed = isinstance(values, list | tuple | np.ndarray) and len(values) == width
    if not listed or not all(isinstance(x, _NUMBERS) and not isinstance(x, bool) for x in values):
        raise UserError(f"the saved state is damaged: {width} finite numbers expected")
    try:
        carry = np.array(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        carry = np.full(width, np.nan)
    if carry.shape != (width,) or not np.isfinite(carry).all():
        raise UserError(f"the saved state is damaged: {width} finite numbers expected")
    _check_clock(carry, rule)
    return carry


def checked_start(values: Any, rule: LiveRule) -> FloatArray:
    """Return the saved carry that new paths begin with: the rule's, but for the threshold."""
    carry = checked_carry(values, rule)
    if carry[ROWS] != 0:
        raise UserError("the saved state is damaged: new paths must begin with no rows")
    return carry


def _check_clock(carry: FloatArray, rule: LiveRule) -> None:
    """Refuse rows, times and a first stop that contradict each other."""
    rows, start, last = (float(carry[i]) for i in (ROWS, START, LAST))
    timed, first_stop = float(carry[TIMED]), float(carry[FIRST_STOP])
    if rows == 0:  # nothing has been seen
        fresh = np.array(rule.start, dtype=np.float64)
        fresh[THRESHOLD] = carry[THRESHOLD]
        if not np.array_equal(carry, fresh):
            raise UserError(_CLOCK)
        return
    counted = rows.is_integer() and 0 < rows < MOST_ROWS
    stopped = first_stop.is_integer() and -1 <= first_stop < rows
    if not (counted and stopped and timed in (0.0, 1.0)):
        raise UserError(_CLOCK)
    if timed:
        passes = last == start if rows == 1 else last > start
    else:  # rows came a usual step apart, the first at 0
        passes = start == 0 and math.isclose(last, (rows - 1) * rule.time_step, rel_tol=1e-6)
    if not passes or not math.isfinite(last - start):
        raise UserError(_CLOCK)
    reached = carry[HIGHEST] >= carry[THRESHOLD]
    if reached != (first_stop >= 0) or carry[FURTHEST] < 0:
        raise UserError("the saved state is damaged: its largest margin contradicts its stop")


def checked_names(names: Any, count: Any) -> list[Hashable]:
    """Return the names of saved paths, one for each carry; refuse names that come twice.

    Args:
        names: as they were saved; JSON makes lists of tuples.
        count: the saved carries.
    """
    if not isinstance(names, list) or not isinstance(count, list) or len(names) != len(count):
        raise UserError("the saved state is damaged: a carry for each path expected")
    made = [_name(name) for name in names]
    if len(set(made)) < len(made):
        raise UserError("the saved state is damaged: two paths have the same name")
    return made


def _name(saved: Any, nested: int = NESTED) -> Hashable:
    name = saved
    if isinstance(saved, list | tuple) and nested:
        name = tuple(_name(part, nested - 1) for part in saved)
    try:
        hash(name)
        known = bool(name == name)  # NaN would never be found again
    except Exception:  # of whatever stands there instead
        known = False
    if not known:
        raise UserError("the saved state is damaged: a path has a name that cannot be looked up")
    found: Hashable = name
    return found
