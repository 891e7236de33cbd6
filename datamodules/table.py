"""The user's own data: a long table of paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datamodules.base import TrajectoryDataModule
from datamodules.declared import NamedRows, Splits, static_features
from lit_ios.carry import Missing as Filled
from lit_ios.data_record import TableColumns
from lit_ios.imports import Spec
from lit_ios.leaks import (
    ask_about_static,
    find_leaks,
    refuse_leaks,
    some_paths,
    static_names,
)
from lit_ios.readers import Duplicates, Missing, TableRoles, Unknown, read_paths
from lit_ios.readers.table import (
    Outline,
    check_trainable,
    holds_dates,
    open_file,
    read_column_names,
    read_rows,
    read_share,
)
from lit_ios.recognition import recognised
from lit_ios.rule import ColumnEncoder, Encoder
from lit_ios.sampling import fit_fill, split_numbers
from lit_ios.times import TimeUnit
from lit_ios.trajectories import (
    BoolArray,
    Categories,
    IntArray,
    TrajectoryError,
    TrajectorySet,
)


class TableData(TrajectoryDataModule):
    """Paths from CSV or Parquet files in long form: one row per path and time.

    Args:
        file: the table: .csv, .csv.gz, .csv.bz2, .csv.zst or .parquet, or a folder of such files.
        path: names the path a row belongs to.
        time: numbers, or dates.
        features: columns the state is made of; null for all that have no other role. Columns of
            text become one 0/1 feature per category.
        drop: columns that are left out of the features.
        keep: features that are meant to be there, however much they tell about the stop.
        stop: 1 where the expert stopped, else 0; or the outcome of a path on all of its rows. A
            path without 1 is censored. Without this column the last row of each path is its stop.
        censored: 1 on the rows of paths that were censored.
        stop_value: value of `stop` that means the stop, where it is not 1, yes, true, on; all
            others mean none.
        events: a second table with one row per path: `path`, and `stop`, `censored`, the time of
            the event (a column named as `time`) or several of them.
        event_time: column of the time of the path's event, the same on all its rows.
        date_format: how dates in `time` are written, e.g. %d.%m.%Y; null for ISO 8601.
        duplicates: what to do about identical rows: refuse them or keep the first.
        val_file: a table of validation paths; null to take a share of the training paths.
        test_file: a table of test paths; null to take a share of all paths.
        test_share: share of the paths held out for the test, without `test_file`.
        missing: what to do about missing and infinite values: refuse them, drop the row, take the
            last value before in the path, or impute one from the training rows.
        sort: put the rows of each path into the order of time, instead of asking for it.
        time_unit: unit of time where the time column holds dates.
        separator: of the columns of a CSV file, e.g. ; or tab; null to find it out.
        decimal: mark of decimals in a CSV file; null to find it out.
        unknown: what to do about categories that were not there in training: refuse them, or take
            them as missing.
        max_rows: that are read of a file; null for what memory allows. A larger file is refused.
        max_bytes: of a file, unpacked, that are read; null for what memory allows.
        **kwargs: see TrajectoryDataModule.
    """

    def __init__(
        self,
        *,
        file: str,
        path: str,
        time: str,
        features: list[str] | None = None,
        drop: list[str] | None = None,
        keep: list[str] | None = None,
        stop: str | None = None,
        censored: str | None = None,
        stop_value: str | None = None,
        events: str | None = None,
        event_time: str | None = None,
        date_format: str | None = None,
        duplicates: Duplicates = "error",
        val_file: str | None = None,
        test_file: str | None = None,
        test_share: float = 0.3,
        missing: Missing = "error",
        sort: bool = False,
        time_unit: TimeUnit = "hours",
        separator: str | None = None,
        decimal: str | None = None,
        unknown: Unknown = "error",
        max_rows: int | None = None,
        max_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < test_share < 1:
            raise ValueError(f"test_share must lie between 0 and 1, got {test_share}")
        self.file, self.val_file, self.test_file = file, val_file, test_file
        self.test_share, self.labelled = test_share, True
        self._read_shares = False  # whether what was read is the share of this process
        self.keep = tuple(keep or ())
        self.name = Path(file).name.split(".")[0] or "table"
        self.roles = TableRoles(
            path=path,
            time=time,
            features=None if features is None else tuple(features),
            drop=tuple(drop or ()),
            stop=stop,
            censored=censored,
            stop_value=stop_value,
            events=events,
            event_time=event_time,
            date_format=date_format,
            duplicates=duplicates,
            missing=missing,
            sort=sort,
            time_unit=time_unit,
            separator=separator,
            decimal=decimal,
            unknown=unknown,
            max_rows=max_rows,
            max_bytes=max_bytes,
        )

    @cached_property
    def _named(self) -> tuple[tuple[str, ...], Categories]:
        """Columns the state is made of, and the categories of those that hold text."""
        known = read_column_names(self.file, self.roles)
        return (self._table.feature_names, self._table.categories) if known is None else known

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns the state is made of."""
        return self._named[0]

    def make_encoder(self) -> Encoder:
        """Make one 0/1 feature of each category of text; fill gaps as training rows suggest."""
        missing = self.roles.missing
        if missing == "error" or missing == "drop":
            return ColumnEncoder(*self._named)
        return ColumnEncoder(*self._named, missing, *fit_fill(self.splits.train))

    @property
    def filling(self) -> Filled | None:
        """How gaps in the table are filled."""
        found = self.roles.missing
        return None if found == "error" or found == "drop" else found

    def find_static(self) -> tuple[str, ...]:
        """Return the features of columns that do not change along any path."""
        return static_features(self.encoder, self.splits)

    def setup(self, stage: str) -> None:
        """Read the data; before training, ask about features that give the stop away.

        Several processes read their shares when they know of each other.
        """
        if self.shared_out and not self._read_shares:
            self.forget()
            self._read_shares = True
        super().setup(stage)
        if stage == "fit":
            self._refuse_known_paths()
            train, val, _ = self.splits
            known = train if train is val else some_paths(train).followed_by(some_paths(val))
            found = self._all_gather(find_leaks(known, self.keep))
            refuse_leaks([leak for leaks in found for leak in leaks])
            static = [set(names) for names in self._all_gather(static_names(known))]
            if self._shard.rank == 0:
                in_all = set.intersection(*static)
                ask_about_static([n for n in known.feature_names if n in in_all], self.keep)

    def _refuse_known_paths(self) -> None:
        """Refuse separate tables for validation or test that hold paths of the others."""
        train, val, test = self.splits
        for name, file, paths, others in (
            ("val_file", self.val_file, val, [train]),
            ("test_file", self.test_file, test, [train] if val is train else [train, val]),
        ):
            if file is None or paths is train:
                continue
            here = {met for known in others for met in recognised(paths, self._fingerprints(known))}
            met = sorted(set().union(*self._all_gather(here)))
            if met:
                raise TrajectoryError(
                    f"{name}: {len(met)} of the {sum(self._all_gather(len(paths)))} paths in "
                    f"{file} are in the training data too, e.g. {met[0]!r}: give others, or leave "
                    f"{name} out for a share of the paths"
                )

    @property
    def table(self) -> TableColumns:
        """Which column of the file means what."""
        roles = self.roles
        names = [name for name in TableColumns._fields if name != "dates"]
        kept = {name: getattr(roles, name) for name in names}
        return TableColumns(**kept, dates=self._dates)

    @cached_property
    def _dates(self) -> bool:
        return holds_dates(self.file, self.roles, self.splits.train.times)

    @property
    def shared_out(self) -> bool:
        """Each of several processes reads a share of the paths; synthetic rows need them all."""
        return self._shard.world_size > 1 and self.labelled and not self.makes_rows

    @cached_property
    def _table(self) -> TrajectorySet:
        """All paths of the main file, until they are split."""
        found, self._rows = read_rows(self.file, self.roles, training=self.labelled)
        return found

    def read_as(self, rule: Spec) -> None:
        """Read the columns that a checkpoint was trained on, coded by its categories."""
        super().read_as(rule)
        made = self.encoder
        self._read_with(replace(self.roles, features=made.columns, categories=made.categories))

    def for_prediction(self) -> None:
        """Read neither stops nor censoring: nobody has decided on these paths yet."""
        self.labelled = False
        self._read_with(
            replace(
                self.roles, stop=None, censored=None, stop_value=None, events=None, event_time=None
            )
        )

    def named_rows(self, paths: TrajectorySet) -> NamedRows:
        """Return path and time of each row as they stand in the file."""
        if self.labelled:  # parts of the file
            return super().named_rows(paths)
        roles = self.roles
        named = open_file(self.file, roles, wanted=[roles.path, roles.time]).table
        return NamedRows(named.take(pa.array(self._rows)), self._rows)

    def _read_with(self, roles: TableRoles) -> None:
        if roles != self.roles:
            self.roles = roles
            self.forget()
            self.__dict__.pop("_table", None)
            self.__dict__.pop("_named", None)

    def read_splits(self) -> Splits:
        """Take the given files, and split by path what was not given."""
        columns, categories = self._named
        roles = replace(self.roles, features=columns, categories=categories)
        files = {"val": self.val_file, "test": self.test_file}
        others = {part: file for part, file in files.items() if file is not None}
        if self.shared_out:
            self.__dict__.pop("_table", None)
            found = self._read_share(self.file, roles, self._deal)
            for part, file in others.items():
                everything = partial(_as_one_part, part)
                found |= self._read_share(file, roles, everything)
            return Splits(**found)
        table = self._table
        del self._table  # which is not needed twice in memory
        if not self.labelled:
            return Splits(table, table, table)
        found = {part: read_paths(file, roles, training=False) for part, file in others.items()}
        found |= {part: table.select(own) for part, own in self._deal(table.stopped).items()}
        return Splits(**found)

    def _deal(self, stopped: BoolArray) -> dict[str, IntArray]:
        """Return the numbers of the paths of each part that comes from the main file."""
        dealt = {"train": np.arange(len(stopped))}
        if self.test_file is None:
            shares = (1 - self.test_share, self.test_share)
            known, test = split_numbers(stopped, shares, self.random(purpose=1))
            dealt = {"train": known, "test": test}
        if self.val_file is None:
            known, shares = dealt["train"], (1 - self.validation_share, self.validation_share)
            train, val = split_numbers(stopped[known], shares, self.random(purpose=2))
            dealt |= {"train": known[train], "val": known[val]}
        return dealt

    def _read_share(
        self, file: str, roles: TableRoles, deal: Callable[[BoolArray], dict[str, IntArray]]
    ) -> dict[str, TrajectorySet]:
        """Read the paths of this process in each part; processes take turns."""
        rank, processes = self._shard

        def choose(outline: Outline) -> IntArray:
            if file == self.file:
                check_trainable(file, outline.stopped, len(outline.codes))
            chosen = np.full(len(outline.stopped), -1)
            for part, numbers in deal(outline.stopped).items():
                if len(numbers) < processes:
                    raise TrajectoryError(
                        f"{file}: {len(numbers)} {part} paths cannot be dealt out to "
                        f"{processes} processes"
                    )
                chosen[numbers[rank::processes]] = Splits._fields.index(part)
            return chosen

        found = read_share(file, roles, choose)
        return {Splits._fields[number]: paths for number, paths in found.items()}


def _as_one_part(part: str, stopped: BoolArray) -> dict[str, IntArray]:
    """Return the numbers of all paths, as those of one part."""
    return {part: np.arange(len(stopped))}
