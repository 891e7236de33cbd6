"""What one live path and many have in common: the rule, times, missing values, restarts."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from lit_ios.checks import UserError
from lit_ios.policy.engine import Engine
from lit_ios.policy.inputs import Inputs
from lit_ios.readers.columns import SECONDS, TimeUnit
from lit_ios.trajectories import FloatArray

Missing = Literal["refuse", "carry"]
NOT_TIMED = "the path began without a time: give times from its first row on, or none"
TIMED = "the path began with a time: give that of every row"
SOME_ROWS = 5  # after which a path's spacing in time is known


class Rule(NamedTuple):
    """All a live path needs to know of its policy."""

    engine: Engine
    inputs: Inputs
    lags: int
    include_time: bool
    epsilon: float
    threshold: float
    time_step: float  # between rows, where no time is given
    time_unit: TimeUnit  # of dates
    fingerprint: str  # of the weights


def mended(
    features: FloatArray, last: FloatArray | None, inputs: Inputs, missing: Missing, where: str = ""
) -> FloatArray:
    """Carry on the last known value of what is missing, or refuse it."""
    bad = ~np.isfinite(features)
    name = inputs.feature_names[int(np.argmax(bad))]
    if missing == "refuse":
        raise UserError(
            f"{where}feature {name!r}: missing or infinite; missing='carry' takes the last value"
        )
    if last is None:
        raise UserError(f"{where}feature {name!r}: missing value in the first row of a path")
    return np.where(bad, last, features)


@contextlib.contextmanager
def restoring(saved: Any, rule: Rule) -> Iterator[None]:
    """Refuse what is no saved state, or is one of another policy."""
    if not isinstance(saved, Mapping):
        raise UserError(f"a saved state is what state() returned, got {type(saved).__name__}")
    if saved.get("policy") != rule.fingerprint:
        raise UserError("the saved state belongs to another policy: its weights differ")
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(
            f"the saved state is none of this kind of stream, or incomplete: {error!r}"
        ) from None


def warn_of_spacing(step: float, usual: float) -> None:
    """Say so if rows are less than half or more than twice as far apart as in training."""
    if not usual / 2 <= step <= usual * 2:
        warnings.warn(
            f"rows are {step:g} apart in time, those of training were {usual:g}: the policy was "
            "not made for this",
            stacklevel=4,
        )


def as_time(value: Any, unit: TimeUnit) -> float:
    """Return a time as a number: dates in `unit` since 1970, as a table's are."""
    if value is None or value != value:  # NaN, NaT
        raise UserError(f"time must be a finite number or a date, got {value!r}")
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64) / 1e6 / SECONDS[unit])
    if isinstance(value, date):
        day = datetime(value.year, value.month, value.day)
        moment = value if isinstance(value, datetime) else day
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.timestamp() / SECONDS[unit]
    try:
        now = float(value)
    except (TypeError, ValueError):
        raise UserError(f"time must be a number or a date, got {value!r}") from None
    if not math.isfinite(now):
        raise UserError(f"time must be a finite number, got {value}")
    return now
