"""Microsoft Azure predictive maintenance: machines and their failures."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from datamodules.base import TrajectoryDataModule
from datamodules.declared import Splits
from lit_ios.checks import check_choice, check_number
from lit_ios.readers.azure import (
    Cycles,
    Resolution,
    failure_times,
    hourly_rows,
    read_daily_rows,
    read_part,
    runs_to_failure,
)
from lit_ios.trajectories import TrajectorySet


class AzureData(TrajectoryDataModule):
    """Runs of machines that end before a failure; split by machine.

    Args:
        resolution: `hourly` telemetry gives 24-hour means, standard deviations and error counts
            every 3 hours; `daily` means and error flags by calendar day.
        cycles: the `first` run of each machine, or `all` runs between failures.
        keep_every: keep one row in `keep_every`; null means 10 for hourly and 1 for daily.
        data_dir: folder that holds the tables; null for LIT_IOS_DATA, then the user's cache, then
            a download of the official files.
        test_share: share of the machines held out for the test.
        **kwargs: see TrajectoryDataModule.
    """

    def __init__(
        self,
        *,
        resolution: Resolution = "daily",
        cycles: Cycles = "first",
        keep_every: int | None = None,
        data_dir: str | None = None,
        test_share: float = 0.3,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("resolution", resolution, Resolution)
        check_choice("cycles", cycles, Cycles)
        check_number("test_share", test_share, above=0, at_most=0.99)
        self.resolution, self.cycles, self.data_dir = resolution, cycles, data_dir
        self.keep_every = keep_every or {"hourly": 10, "daily": 1}[resolution]
        self.test_share = test_share
        self.name = f"azure_{resolution}_{cycles}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.runs.feature_names

    @cached_property
    def runs(self) -> TrajectorySet:
        """All runs."""
        if self.resolution == "hourly":
            telemetry = read_part("telemetry", self.data_dir)
            rows = hourly_rows(telemetry, read_part("errors", self.data_dir))
        else:
            rows = read_daily_rows(self.data_dir)
        return runs_to_failure(
            rows,
            failure_times(read_part("failures", self.data_dir)),
            cycles=self.cycles,
            keep_every=self.keep_every,
            whole_days=self.resolution == "daily",
        )

    def read_splits(self) -> Splits:
        """Deal out the machines, with all runs of each."""
        machine = np.array([name.partition(".")[0] for name in self.runs.names])
        parts = self.deal_out(machine, self.test_share)
        return Splits(*(self.runs.select(np.isin(machine, part)) for part in parts))
