"""What a model must know of its data: one record that every data module gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, cast

from lit_ios.carry import Usual
from lit_ios.imports import Spec
from lit_ios.recognition import Fingerprints
from lit_ios.sampling.statistics import Statistics
from lit_ios.times import TimeUnit


class InputSettings(TypedDict):
    """What a state is made of, as plain values; see `Inputs`."""

    encoder: dict[str, Any]
    lags: int
    include_time: bool
    static: list[str]


class Inputs(NamedTuple):
    """What a state is made of; known before the paths are read."""

    encoder: Spec  # class_path and init_args: raw columns → features
    lags: int = 0
    include_time: bool = True
    static: Sequence[str] = ()  # features that do not change along a path

    def plain(self) -> InputSettings:
        """Return plain values, as settings and checkpoints keep them."""
        return cast("InputSettings", self._asdict() | {"static": list(self.static)})


class TableColumns(NamedTuple):
    """How a table of paths was read, and is read again; None where there was no table."""

    path: str | None = None
    time: str | None = None
    stop: str | None = None
    censored: str | None = None
    time_unit: TimeUnit = "hours"
    stop_value: str | None = None
    date_format: str | None = None
    separator: str | None = None  # None: as the file is written
    decimal: str | None = None
    missing: str = "error"
    event_time: str | None = None
    dates: bool = False  # times are dates, in this unit since 1970

    @property
    def time_name(self) -> str:
        """What times count: the unit of dates, or the name of the column; nothing without one."""
        return (self.time_unit if self.dates else self.time) or ""

    @property
    def unit(self) -> str:
        """The unit of times as it is printed after a label."""
        return f" [{self.time_name}]" if self.time_name else ""


class DataRecord(NamedTuple):
    """What a model takes over from the data it is trained on."""

    name: str  # of the data set
    inputs: Inputs
    statistics: Statistics  # of the training states
    usual: Usual  # what their rows are like
    time_step: float  # usual time between two rows of a path
    table: TableColumns
    training: Fingerprints  # identify the paths it is trained on,
    validation: Fingerprints  # and those that choose its epoch
    paths: int  # trained on
    stops: int  # of these
    longest: int = 0  # rows of the longest of these paths
    lead: float = 0.0  # required between a stop and the event (M8)
    synthetic: bool = False  # whether rows are trained on that belong to no path
