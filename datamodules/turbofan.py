"""NASA C-MAPSS turbofan engines, run to failure: FD001–FD004."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np

from datamodules.base import TrajectoryDataModule
from datamodules.declared import Splits
from lit_ios.checks import check_choice, check_number
from lit_ios.data_record import TableColumns
from lit_ios.readers.cmapss import (
    SENSORS,
    ConditionStatistics,
    Series,
    engine_paths,
    engines,
    fit_conditions,
    parse_remaining_life,
    read_series,
    read_series_file,
    read_text,
)
from lit_ios.rule import ConditionEncoder, Encoder
from lit_ios.trajectories import TrajectorySet

Subset = Literal["FD001", "FD002", "FD003", "FD004"]
TestSet = Literal["held_out", "nasa"]


class TurbofanData(TrajectoryDataModule):
    """Engines of one C-MAPSS subset; the expert's stop is the last kept cycle before failure.

    Sensors are standardised within each operating condition by the training engines; constant
    ones are dropped. A checkpoint carries that scaling along. The engines of NASA's training file
    are split 70/30 into training and test, and the former again into training and validation.

    Args:
        subset: FD001 and FD003 have one operating condition, FD002 and FD004 six.
        data_dir: folder that holds CMAPSSData.zip or its text files; null for LIT_IOS_DATA, then
            the user's cache, then a download.
        file: another file of the same columns, e.g. PHM08's train.txt, instead of a subset.
        step: keep one cycle in `step`.
        test_set: `held_out` engines that ran to failure, or `nasa`: NASA's truncated series, whose
            failure is known to come later.
        test_share: share of the engines held out for the test.
        **kwargs: see TrajectoryDataModule.
    """

    def __init__(
        self,
        *,
        subset: Subset = "FD001",
        data_dir: str | None = None,
        file: str | None = None,
        step: int = 10,
        test_set: TestSet = "held_out",
        test_share: float = 0.3,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("subset", subset, Subset)
        check_choice("test_set", test_set, TestSet)
        check_number("step", step, above=0)
        check_number("test_share", test_share, above=0, at_most=0.99)
        self.subset, self.data_dir, self.file = subset, data_dir, file
        self.step = step
        self.test_set, self.test_share = test_set, test_share
        self.labelled = True
        self.name = f"turbofan_{subset if file is None else 'file'}"

    @cached_property
    def series(self) -> Series:
        """All engines that ran to failure."""
        if self.file is not None:
            return read_series_file(self.file)
        return read_series(f"train_{self.subset}.txt", self.data_dir)

    @cached_property
    def units(self) -> list[np.ndarray[Any, Any]]:
        """Unit numbers of training, validation and test engines."""
        return [np.sort(part) for part in self.deal_out(self.series.unit, self.test_share)]

    @cached_property
    def conditions(self) -> ConditionStatistics:
        """Measured on the training engines only."""
        return fit_conditions(engines(self.series, self.units[0]))

    @property
    def columns(self) -> tuple[str, ...]:
        """The setting that tells the condition, and the sensors that vary in training."""
        return self.encoder.columns

    def make_encoder(self) -> Encoder:
        """Scale sensors within operating conditions."""
        found = self.conditions
        numbers = {name: getattr(found, name).tolist() for name in ("conditions", "mean", "scale")}
        return ConditionEncoder(found.columns, **numbers)

    @property
    def table(self) -> TableColumns:
        """Columns by which engines are told apart and ordered in tables."""
        return TableColumns(path="unit", time="cycle")

    def for_prediction(self) -> None:
        """Take all engines of a file of one's own, which need not have failed."""
        if self.file is not None:
            self.labelled = False
            self.forget()

    def read_splits(self) -> Splits:
        """Cut the engines into paths."""
        if not self.labelled:
            unknown = np.full(len(np.unique(self.series.unit)), np.nan)
            paths = self._paths(self.series, remaining_life=unknown)
            return Splits(paths, paths, paths)
        train, val, test = (self._paths(engines(self.series, units)) for units in self.units)
        if self.test_set == "nasa":
            series = read_series(f"test_{self.subset}.txt", self.data_dir)
            source, text = read_text(f"RUL_{self.subset}.txt", self.data_dir)
            lives = parse_remaining_life(source, text, len(np.unique(series.unit)))
            test = self._paths(series, remaining_life=lives)
        return Splits(train, val, test)

    def _paths(self, series: Series, **options: Any) -> TrajectorySet:
        sensors = np.array([SENSORS.index(name) for name in self.encoder.columns[1:]], dtype=int)
        return engine_paths(series, sensors, step=self.step, **options)
