"""Which column of a table means what, and how its cells are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import pyarrow as pa

from lit_ios.checks import UserError, check_choice
from lit_ios.readers.dialects import Dialect
from lit_ios.readers.limits import Limits
from lit_ios.times import TimeUnit

Missing = Literal["error", "drop", "last", "impute"]
Duplicates = Literal["error", "drop"]
Unknown = Literal["error", "missing"]


@dataclass(frozen=True)
class TableRoles:
    """Which column of a table means what.

    Args:
        path: names the path a row belongs to; its rows need not lie together.
        time: numbers or dates.
        features: columns the state is made of, None for all that have no other role.
        drop: columns that are left out of the features.
        stop: 1 at the row where the expert stopped, else 0; a path without 1 is
            censored. Without this column the last row of each path is its stop. A column that is
            the same on all rows of each path is the path's outcome: 1 means that the last row is
            the stop.
        censored: 1 on the rows of paths that were censored.
        stop_value: value of `stop` that means the stop, where it is not 1, yes, true, …; all others
            mean none.
        events: a second table with one row per path: the column `path`, and `stop`, `censored`, the
            time of the event (a column named as `time`) or several of them.
        event_time: column of the time of the path's event, the same on all its rows; empty where
            there was none. Without `stop` and `censored`, paths with a time are stopped.
        date_format: how dates in `time` are written, as for strptime, e.g. %d.%m.%Y; None for
            ISO 8601.
        duplicates: what to do about rows that are identical: refuse them or keep the first.
        missing: what to do about missing and infinite values: refuse them, drop the row, or leave
            them to the rule, which takes the last value before in the path or imputes one.
        sort: put the rows of each path into the order of time, instead of asking for it.
        time_unit: unit of time where the time column holds dates.
        separator: of the columns of a CSV file, None to find it out.
        decimal: mark of decimals in a CSV file, None to find it out.
        unknown: what to do about categories that were not there in training: refuse them, or take
            them as missing.
        categories: of text columns that are to be coded as before.
        max_rows: that are read, None for what memory allows; a larger file is refused.
        max_bytes: of a file, unpacked, that are read, None for what memory allows.
    """

    path: str
    time: str
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    stop: str | None = None
    censored: str | None = None
    stop_value: str | float | None = None
    events: str | Path | pa.Table | None = None
    event_time: str | None = None
    date_format: str | None = None
    duplicates: Duplicates = "error"
    missing: Missing = "error"
    sort: bool = False
    time_unit: TimeUnit = "hours"
    separator: str | None = None
    decimal: str | None = None
    unknown: Unknown = "error"
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_rows: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check the choices."""
        check_choice("missing", self.missing, Missing)
        check_choice("time_unit", self.time_unit, TimeUnit)
        check_choice("duplicates", self.duplicates, Duplicates)
        check_choice("unknown", self.unknown, Unknown)
        _ = self.dialect
        self.limits.check()
        if self.date_format is not None:
            _check_date_format(self.date_format)
        if self.stop_value is not None and self.stop is None:
            raise UserError("stop_value is a value of the column stop: name that, too: stop='…'")
        if self.unknown == "missing" and self.missing == "error":
            raise UserError(
                "unknown='missing' takes new categories as missing values, and missing='error' "
                "refuses those; set missing='impute' or missing='last'"
            )
        if self.events is not None and self.event_time is not None:
            raise UserError("times of events are given by events or by event_time, not by both")
        named = (self.path, self.stop, self.censored, self.event_time)
        for name in {*(self.features or ())} & {*named}:
            raise UserError(
                f"{name!r} says which path it is or how it ended, so it cannot be a feature: take "
                "it out of features"
            )
        both = sorted({*self.drop} & {*(self.features or ()), *self.others})
        if both:
            raise UserError(f"{both[0]!r} is dropped and used at once; take it out of one of them")

    @property
    def others(self) -> list[str]:
        """Columns that are not features."""
        named = (self.path, self.time, self.stop, self.censored, self.event_time)
        return [name for name in named if name is not None]

    @property
    def dialect(self) -> Dialect:
        """How CSV files are written."""
        return Dialect.of(self.separator, self.decimal)

    @property
    def limits(self) -> Limits:
        """The largest file that is read."""
        return Limits(self.max_rows, self.max_bytes)


def _check_date_format(given: str) -> None:
    """Refuse what strptime does not know."""
    try:
        datetime.strptime("", given)
        reason = "no % in it"
    except ValueError as error:
        reason = str(error) if "bad directive" in str(error) or "stray" in str(error) else ""
    if reason or "%" not in given:
        raise UserError(
            f"date_format must be written as for strptime, e.g. %d.%m.%Y or %Y-%m-%d %H:%M, "
            f"got {given!r}"
        )
