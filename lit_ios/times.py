"""Times as numbers: dates in a unit since 1970."""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np

from lit_ios.checks import UserError, quoted

TimeUnit = Literal["seconds", "minutes", "hours", "days"]
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}


def as_time(value: Any, unit: str) -> float:
    """Return a time as a number: dates in `unit` since 1970, as those of a table are."""
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
    except (OverflowError, TypeError, ValueError):
        raise UserError(f"time must be a number or a date, got {quoted(value)}") from None
    if not math.isfinite(now):
        raise UserError(f"time must be a finite number, got {value}")
    return now
