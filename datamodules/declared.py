"""What a data set declares: its columns, how they become features, how its paths are dealt out."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytorch_lightning as pl

from lit_ios.carry import Missing
from lit_ios.checks import check_number
from lit_ios.data_record import Inputs, TableColumns
from lit_ios.imports import Spec, as_spec, build
from lit_ios.regions import StoppingRegion
from lit_ios.rule import ColumnEncoder, Encoder, Window
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet


class Splits(NamedTuple):
    """Paths of raw columns, dealt out by path."""

    train: TrajectorySet
    val: TrajectorySet
    test: TrajectorySet


class NamedRows(NamedTuple):
    """How decisions on rows of paths are written down."""

    table: pa.Table  # (N rows) the columns of path and time
    position: IntArray  # (N,) of each row in the user's own file


class DeclaredData(pl.LightningDataModule):
    """A data set gives `name`, `columns` and `read_splits`; here is what follows from them.

    Args:
        lags: how many earlier rows are part of the state.
        include_time: make the time since the path began the last coordinate of the state.
        validation_share: share of the training paths held out to choose the best epoch.
        encoder: class path and arguments of an encoder of your own from raw columns to features.
        seed: decides data, splits, synthetic rows and batches.
    """

    def __init__(
        self,
        lags: int,
        include_time: bool,
        validation_share: float,
        encoder: str | dict[str, Any] | None,
        seed: int,
    ) -> None:
        super().__init__()
        if not 0 < validation_share < 1:
            raise ValueError(f"validation_share must lie between 0 and 1, got {validation_share}")
        check_number("lags", lags, at_least=0)
        self.lags, self.include_time = lags, include_time
        self.validation_share, self.seed = validation_share, seed
        self._own_encoder = None if encoder is None else as_spec("encoder", encoder)
        self._static: tuple[str, ...] | None = None  # as a checkpoint has it

    def __str__(self) -> str:
        """Name the data set."""
        return f"{type(self).__name__}({getattr(self, 'name', '')})"

    name: str  # in run folders and tables

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns, in their order; known before the paths are read."""
        raise NotImplementedError

    def make_encoder(self) -> Encoder:
        """Return what makes features of the raw columns; by default they are the features."""
        return ColumnEncoder(self.columns)

    @property
    def table(self) -> TableColumns:
        """Columns by which the rows of a table are found, where the paths come from one."""
        return TableColumns()

    @property
    def filling(self) -> Missing | None:
        """How gaps in the paths are filled; None for what a rule was trained with."""
        return None

    def find_static(self) -> tuple[str, ...]:
        """Return features that do not change along a path: earlier rows tell nothing new."""
        return ()

    @property
    def region(self) -> StoppingRegion | None:
        """The true stopping region, where the data are simulated and have one."""
        return None

    def hidden(self, paths: TrajectorySet) -> tuple[str, FloatArray] | None:
        """Name and value of what the expert goes by and the state does not show, if simulated."""
        return None

    def read_splits(self) -> Splits:
        """Read or simulate the paths and deal them out."""
        raise NotImplementedError

    @property
    def shared_out(self) -> bool:
        """Whether each of several processes reads a share of the paths, or all of them."""
        return False

    def for_prediction(self) -> None:
        """Offer every path of the user's own file to predict; its stops need not be known."""

    def named_rows(self, paths: TrajectorySet) -> NamedRows:
        """Return path and time of each row, as the user's own data name them."""
        table = self.table
        names = pa.array(paths.names).take(pa.array(paths.path_of_row))
        rows = pa.table({table.path or "path": names, table.time or "time": paths.times})
        return NamedRows(rows, np.arange(len(paths.states)))

    # What follows from it ------------------------------------------------------------------------

    @cached_property
    def encoder(self) -> Encoder:
        """From raw columns to features."""
        made = self.make_encoder()
        if self._own_encoder is None:
            return made
        given = {"columns": made.columns, "categories": made.categories}
        return build("encoder", self._own_encoder, Encoder, **given)

    def read_as(self, rule: Spec) -> None:
        """Read other data as the rule of a checkpoint read its own.

        Args:
            rule: what the checkpoint says of it: its columns, categories and scales.
        """
        self.encoder = build("encoder", rule["encoder"], Encoder)
        self._static = tuple(rule["static"])
        self.forget()

    @property
    def inputs(self) -> Inputs:
        """What a state is made of; known before the paths are read."""
        if self._static is None:
            self._static = self.find_static() if self.lags else ()
        return Inputs(self.encoder.spec, self.lags, self.include_time, self._static)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the encoder makes."""
        return self.encoder.feature_names

    def states(self, paths: TrajectorySet) -> TrajectorySet:
        """Return paths of raw columns as paths of states."""
        _, lags, include_time, static = self.inputs
        window = Window(self.encoder.feature_names, lags, include_time, static)
        return window.paths(self.encoder.paths(paths))

    def forget(self) -> None:
        """Drop what was made of the data: it is made anew when next asked for."""

    def random(self, purpose: int) -> np.random.Generator:
        """Return the generator for one purpose, independent of all others and of the loader's."""
        return np.random.default_rng([0, self.seed, purpose])

    def deal_out(self, groups: npt.NDArray[Any], test_share: float) -> list[npt.NDArray[Any]]:
        """Deal machines or engines, with all their paths, out to training, validation and test."""
        order = self.random(purpose=2).permutation(np.unique(groups))
        known = round(len(order) * (1 - test_share))
        train = round(known * (1 - self.validation_share))
        return np.split(order, [train, known])


def static_features(encoder: Encoder, splits: Splits) -> tuple[str, ...]:
    """Return the features of columns that do not change along any path."""
    if not isinstance(encoder, ColumnEncoder):
        return ()
    still = splits.train.static & splits.val.static
    return tuple(
        name
        for name, column in zip(encoder.feature_names, encoder.sources, strict=True)
        if still[column]
    )
