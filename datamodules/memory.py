"""Paths that are in memory already."""

from __future__ import annotations

from typing import Any

from datamodules.base import TrajectoryDataModule
from datamodules.declared import Splits, static_features
from lit_ios.carry import Missing
from lit_ios.data_record import TableColumns
from lit_ios.rule import ColumnEncoder, Encoder
from lit_ios.sampling import fit_fill, split_paths
from lit_ios.trajectories import TrajectorySet


class PathsData(TrajectoryDataModule):
    """Splits a TrajectorySet by path.

    Args:
        paths: of raw columns.
        test_share: share of the paths held out for the test; 0 tests on the validation paths.
        missing: what stands in for values that are missing, where the paths have gaps.
        table: columns of the table they were read from, by which others are found in new tables.
        **kwargs: see TrajectoryDataModule.
    """

    name = "paths"  # they have no name of their own

    def __init__(
        self,
        paths: TrajectorySet,
        test_share: float = 0.0,
        missing: Missing = "error",
        table: TableColumns | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= test_share < 1:
            raise ValueError(f"test_share must lie in [0, 1), got {test_share}")
        self.paths, self.test_share = paths, test_share
        self.missing: Missing = missing
        self._read_from = table or TableColumns()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.paths.feature_names

    @property
    def table(self) -> TableColumns:
        """Columns of the table that the paths were read from."""
        return self._read_from

    def make_encoder(self) -> Encoder:
        """Take numbers as they are and categories by their codes; fill gaps as rows suggest."""
        named = (self.columns, self.paths.categories)
        if self.missing == "error":
            return ColumnEncoder(*named)
        return ColumnEncoder(*named, self.missing, *fit_fill(self.splits.train))

    def find_static(self) -> tuple[str, ...]:
        """Return the features of columns that do not change along any path."""
        return static_features(self.encoder, self.splits)

    def read_splits(self) -> Splits:
        """Split by path."""
        known, test = self.paths, None
        if self.test_share:
            shares = (1 - self.test_share, self.test_share)
            known, test = split_paths(known, shares, self.random(purpose=1))
        shares = (1 - self.validation_share, self.validation_share)
        train, val = split_paths(known, shares, self.random(purpose=2))
        return Splits(train, val, val if test is None else test)
