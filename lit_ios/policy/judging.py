"""Whole paths, judged row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lit_ios.batches import PathBatch, path_batch, path_groups
from lit_ios.carry import Missing
from lit_ios.checks import UserError
from lit_ios.live.rule import warn_if_unusual
from lit_ios.policy.forecast_columns import FORECAST_COLUMNS, ForecastColumns, forecast_columns
from lit_ios.policy.labels import given_labels
from lit_ios.policy.loaded import LoadedRule
from lit_ios.rule import Decisions
from lit_ios.rule.unjudged import refuse_unjudged
from lit_ios.trajectories import FloatArray, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.tables import Table

ROWS_AT_ONCE = 65_536


class Judge(LoadedRule):
    """Judges the rows of tables and of paths."""

    def predict(
        self,
        table: Table,
        path: str | None = None,
        time: str | None = None,
        **roles: Any,
    ) -> Any:
        """Judge every row of a table of paths.

        Returns the rows as they were given, in a table of the same kind (pandas, polars, else
        pyarrow), with the columns that `lit_ios.policy.decision_tables` lists.

        Args:
            table: pandas, polars, pyarrow or a dictionary of columns; or a file.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            **roles: further arguments of TableRoles: sort, missing, time_unit.
        """
        return self._decided(table, path, time, FORECAST_COLUMNS, roles)

    def _decided(
        self,
        table: Table,
        path: str | None,
        time: str | None,
        wanted: ForecastColumns,
        roles: dict[str, Any],
    ) -> Any:
        import pyarrow as pa

        from lit_ios.policy.decision_tables import decision_table, warn_of_strangers
        from lit_ios.policy.tables import open_any, same_kind, table_roles
        from lit_ios.readers.table import source_paths

        known = table_roles(self.rule.encoder, self.table, path, time, **roles)
        source = open_any(table, known)
        named = source.table.select([known.path, known.time])
        paths, rows = source_paths(source, known, training=False)
        decisions = list(self.decide(paths, known.missing))
        left = {}
        if (learnt := self.learnt_forecast) is not None:
            left = forecast_columns(learnt, path_batch(paths), decisions, self.threshold, wanted)
        sorted_already = bool((np.diff(rows) > 0).all())
        order = None if sorted_already else np.argsort(rows, kind="stable")
        if not (sorted_already and len(rows) == len(named)):
            named = named.take(pa.array(rows))
        result = decision_table(named, decisions, self.rule.current_names, order, left)
        warn_of_strangers(result)
        return same_kind(table, result, rows if order is None else rows[order])

    def decide(
        self, paths: TrajectorySet, missing: str | None = None, details: bool = True
    ) -> Iterator[Decisions]:
        """Judge all rows of paths of raw columns, some paths at a time.

        Args:
            paths: of raw columns.
            missing: what to do about gaps; None for what the rule was trained with.
            details: also say gains and how familiar the rows are.
        """
        self._check(paths)
        fills: Missing | None = missing if missing in ("last", "impute") else None  # type: ignore[assignment]
        for batch in _batches(paths):
            with torch.inference_mode():
                decided = self.rule.scan(batch, details=details, missing=fills)
            refuse_unjudged(decided.margin, batch, self.rule.encoder, paths.names)
            yield decided  # outside: whoever does not ask for the rest is not left in that mode

    def margins(self, paths: TrajectorySet) -> FloatArray:
        """Return the margin of every row of paths of raw columns; (N,)."""
        return self._margins(paths).numpy()

    def _margins(self, paths: TrajectorySet, missing: str | None = None) -> Tensor:
        return torch.cat([found.margin for found in self.decide(paths, missing, details=False)])

    def _judged(
        self, paths: TrajectorySet, missing: str | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the margin of every row, and its distance from the rows of training; (N,) each."""
        parts = [
            (found.margin.numpy(), np.asarray(found.distance))
            for found in self.decide(paths, missing)
        ]
        margin, distance = map(np.concatenate, zip(*parts, strict=True))
        return margin, distance

    def _check(self, paths: TrajectorySet) -> None:
        """Refuse paths that the rule was not made for; say so if their rows are spaced oddly."""
        self.rule.encoder.check(paths)
        within = np.delete(np.diff(paths.times), paths.last_rows[:-1])
        if len(within):
            warn_if_unusual(float(np.median(within)), float(self.rule.time_step))

    def paths(
        self, table: Table, path: str | None = None, time: str | None = None, **roles: Any
    ) -> TrajectorySet:
        """Return the paths of a table with the columns of the rule; arguments as for `predict`."""
        from lit_ios.policy.tables import open_any, table_roles
        from lit_ios.readers.table import source_paths

        known = table_roles(self.rule.encoder, self.table, path, time, **roles)
        return source_paths(open_any(table, known), known, training=False)[0]

    def labelled(
        self, table: Table, path: str | None = None, time: str | None = None, **roles: Any
    ) -> TrajectorySet:
        """Return the paths of a table with their stops; arguments as for `calibrate`."""
        return self.labelled_paths(table, path, time, **roles)[0]

    def labelled_paths(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        per: str | Sequence[Any] | None = None,
        **roles: Any,
    ) -> tuple[TrajectorySet, list[str] | None]:
        """Return paths whose stops are known, and the group of each."""
        if isinstance(data, TrajectorySet):
            for name in sorted(set(roles) - {"missing"}):
                raise UserError(f"there is no argument {name} for paths that are not in a table")
            return data, given_labels(per, len(data))
        from lit_ios.policy.labels import group_column, path_labels
        from lit_ios.policy.tables import open_any, table_roles
        from lit_ios.readers.table import source_paths

        if "stop" not in roles and "censored" not in roles:
            trained = self.table
            roles |= {"stop": trained.stop, "censored": trained.censored}
            if "events" not in roles:
                roles.setdefault("event_time", trained.event_time)
        known = table_roles(self.rule.encoder, self.table, path, time, **roles)
        source = open_any(data, known)
        column = group_column(source, per) if isinstance(per, str) else None
        paths, rows = source_paths(source, known, training=False)
        if column is not None:
            return paths, path_labels(column, str(per), paths, rows)
        return paths, given_labels(per, len(paths))


def _batches(paths: TrajectorySet) -> Iterator[PathBatch]:
    groups = path_groups(paths, np.arange(len(paths)), ROWS_AT_ONCE)
    return (path_batch(paths, group) for group in groups)
