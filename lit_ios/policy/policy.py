"""A learnt rule that can be relied on: loaded, asked, calibrated, exported."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lit_ios.batches import PathBatch, path_batch, path_groups
from lit_ios.carry import Missing
from lit_ios.checkpoints import (
    describe,
    read_checkpoint,
    rule_content,
    rule_weights,
    write_checkpoint,
)
from lit_ios.checks import UserError, check_number
from lit_ios.data_record import TableColumns
from lit_ios.live import Forecast, LiveRule, Monitor, Stream, Streams
from lit_ios.live.monitor import open_monitor
from lit_ios.live.path_scores import PathScores
from lit_ios.live.rule import warn_if_unusual
from lit_ios.policy.calibration import Calibration, Choose, calibrate, short_forms
from lit_ios.policy.explanations import Explanation, explain
from lit_ios.policy.exports import export
from lit_ios.policy.forecast_columns import (
    FORECAST_COLUMNS,
    ForecastColumns,
    forecast_columns,
)
from lit_ios.policy.forecasts import kept_forecast, learn, read_forecast
from lit_ios.policy.frontiers import FrontierCurve, frontier_curve
from lit_ios.policy.labels import given_labels, group_masks
from lit_ios.policy.live import live_rule
from lit_ios.policy.monitoring import path_scores, refuse_known
from lit_ios.promises.base import Promise
from lit_ios.promises.choice import check_promises
from lit_ios.recognition import calibration_note, fingerprints, recognised, twins
from lit_ios.rule import Decisions, StoppingRule, load_rule
from lit_ios.times import as_time
from lit_ios.trajectories import FloatArray, Trajectory, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.tables import Table

ROWS_AT_ONCE = 65_536


class StoppingPolicy:
    """When to stop: margins, probabilities and decisions in the units of the data.

    Args:
        rule: the learnt rule; it is copied, in double precision.
        about: the entry `lit_ios` of a checkpoint: what the rule was trained on.
        checkpoint: the whole content the rule was loaded from, with which training can go on.
    """

    def __init__(
        self,
        rule: StoppingRule,
        about: Mapping[str, Any] | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        self.rule = copy.deepcopy(rule).cpu().double().eval()
        self.rule.requires_grad_(False)
        self._about, self._checkpoint = dict(about or {}), checkpoint
        self._live: LiveRule | None = None
        calibration = self._about.get("calibration")
        self.calibration = None if calibration is None else Calibration.from_plain(calibration)
        self.learnt_forecast = read_forecast(self._about, self.rule)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made of the weights."""
        return self.__dict__ | {"_live": None}

    @classmethod
    def load(cls, file: str | Path, allow: Sequence[str] = ()) -> StoppingPolicy:
        """Read a checkpoint; no trainer and no data are needed.

        Args:
            file: a checkpoint that training or `save` wrote, or a run folder.
            allow: packages of your own that the checkpoint may name classes of.
        """
        content = read_checkpoint(file)
        about = content["lit_ios"]
        try:
            rule = load_rule(about["rule"], rule_weights(content), allow)
            return cls(rule, about, content)
        except (UserError, KeyError) as error:
            raise UserError(f"{file}: {str(error)[:500]}") from None
        except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{file} is damaged: its record cannot be read ({type(error).__name__}); take "
                "another copy of it"
            ) from None

    @classmethod
    def of(cls, module: Any) -> StoppingPolicy:
        """Return the policy of a module that was trained in this program."""
        about = describe(module.rule, module.record, type(module).__name__)
        return cls(module.rule, about)

    def save(self, file: str | Path) -> None:
        """Write a checkpoint with the threshold as it is now."""
        content = dict(self._checkpoint or rule_content(self.rule, self._about))
        threshold = torch.tensor(self.threshold, dtype=torch.float64)
        content["state_dict"] = content["state_dict"] | {"rule.threshold": threshold}
        promised = None if self.calibration is None else self.calibration.plain()
        kept = {"calibration": promised, "forecast": kept_forecast(self.learnt_forecast)}
        content["lit_ios"] = content["lit_ios"] | self._about | kept
        write_checkpoint(content, file)

    # What it is ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Say what it decides by, what it was trained on and what it came to."""
        about, members = self._about, self.rule.members
        named = ", ".join(self.columns[:4]) + (", …" if len(self.columns) > 4 else "")
        taken = about.get("candidate", "").replace("none", "no memory")
        parts = [f"{taken} on {named}" if taken else named]
        if "paths" in about:
            table = self.table
            parts += [f"{about['paths']:,} paths ({about['stops']:,} stopped)"]
            parts[-1] += f" of {table.path!r}" if table.path else ""
            parts[-1] += f" over {table.time!r}" if table.time else ""
        parts += [f"{members} members"] if members > 1 else []
        if self.held_out is not None:
            parts += [f"held-out balanced accuracy {self.held_out:.2f}"]
        never = " (never stops)" if self.threshold == math.inf else ""
        return f"StoppingPolicy: {'; '.join(parts)}; threshold {self.threshold:.4g}{never}"

    @property
    def held_out(self) -> float | None:
        """Balanced accuracy (M1) on paths left out in training, where `lit_ios.fit` made it.

        Epoch and threshold were chosen on other paths than those it is measured on.
        """
        found = self._about.get("held_out")
        return None if found is None else float(found)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns it takes, in the order of an array."""
        return self.rule.encoder.columns

    @property
    def threshold(self) -> float:
        """The policy stops when the margin is at least this."""
        return float(self.rule.threshold)

    @threshold.setter
    def threshold(self, value: float) -> None:
        if not isinstance(value, Real) or math.isnan(value):
            raise UserError(f"the threshold must be a number, got {value!r}")
        self.rule.threshold.fill_(value)
        self.calibration = None  # what was promised of another threshold
        self._about["calibrated_on"] = None
        self._live = None

    @property
    def epsilon(self) -> float:
        """Temperature of the stopping probability."""
        return float(self.rule.epsilon)

    @property
    def time_unit(self) -> str:
        """Unit of times that are given as dates."""
        return self.table.time_unit

    @property
    def table(self) -> TableColumns:
        """Columns of the table it was trained on."""
        return TableColumns(**self._about.get("table", {}))

    # Whole paths ---------------------------------------------------------------------------------

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

    def forecast(
        self,
        table: Table,
        path: str | None = None,
        time: str | None = None,
        *,
        horizons: Sequence[float] | None = None,
        quantiles: Sequence[float] = FORECAST_COLUMNS.quantiles,
        **roles: Any,
    ) -> Any:
        """Judge every row as `predict` does, and say how long is left there.

        The columns are `remaining_low`, `remaining_low_at_stop`, `remaining_median` and others of
        the quantiles, and `stop_within_…` of the horizons, in the data's unit of time.

        Args:
            table: as for `predict`.
            path: as for `predict`.
            time: as for `predict`.
            horizons: times left to give probabilities for; by default those of `learn_forecast`.
            quantiles: of the time left.
            **roles: as for `predict`.
        """
        if self.learnt_forecast is None:
            raise UserError("no forecast was learnt: learn_forecast(data), or lit-ios forecast RUN")
        wanted = ForecastColumns(None if horizons is None else tuple(horizons), tuple(quantiles))
        return self._decided(table, path, time, wanted, roles)

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
        order = np.argsort(rows, kind="stable")
        names = self.rule.current_names
        learnt, batch = self.learnt_forecast, path_batch(paths)
        left = forecast_columns(learnt, batch, decisions, self.threshold, wanted)
        result = decision_table(named.take(pa.array(rows)), decisions, names, order, left)
        warn_of_strangers(result)
        return same_kind(table, result, rows[order])

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
            self._refuse_unjudged(decided, batch, paths)
            yield decided  # outside: whoever does not ask for the rest is not left in that mode

    def _refuse_unjudged(self, decided: Decisions, batch: PathBatch, paths: TrajectorySet) -> None:
        """Refuse rows without a margin: with gaps that nothing fills, or numbers that overflow."""
        bad = ~decided.margin.isfinite()
        if bad.any():
            row = int(bad.int().argmax())
            name = paths.names[int(batch.number[batch.path[row]])]
            raw = batch.columns[row].numpy()
            why = "the rule gives no finite margin for these numbers"
            why = self.rule.encoder.gap(raw) if np.isnan(raw).any() else why
            raise UserError(f"path {name!r}, row {int(batch.step[row]) + 1}: {why}")

    def margins(self, paths: TrajectorySet) -> FloatArray:
        """Return the margin of every row of paths of raw columns; (N,)."""
        return self._margins(paths).numpy()

    def _margins(self, paths: TrajectorySet, missing: str | None = None) -> torch.Tensor:
        return torch.cat([found.margin for found in self.decide(paths, missing, details=False)])

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

    def _labelled(
        self,
        data: Table | TrajectorySet,
        path: str | None,
        time: str | None,
        per: str | Sequence[Any] | None = None,
        **roles: Any,
    ) -> tuple[TrajectorySet, list[str] | None]:
        """Return paths whose stops are known, and the group of each."""
        if isinstance(data, TrajectorySet):
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

    # Live paths ----------------------------------------------------------------------------------

    def stream(
        self, saved: Mapping[str, Any] | None = None, missing: Missing | None = None
    ) -> Stream:
        """Follow one live path, from its beginning or from a saved state; see `Stream`."""
        return Stream(self.live, saved, missing)

    def stream_many(
        self, saved: Mapping[str, Any] | None = None, missing: Missing | None = None
    ) -> Streams:
        """Follow many live paths at once."""
        return Streams(self.live, saved, missing)

    @property
    def live(self) -> LiveRule:
        """The rule as live paths use it, with the threshold as it is now."""
        if self._live is None:
            self._live = live_rule(self.rule, self.time_unit, self.learnt_forecast)
        return self._live

    # The threshold -------------------------------------------------------------------------------

    def calibrate(
        self,
        data: Table | TrajectorySet,
        *promises: Promise,
        path: str | None = None,
        time: str | None = None,
        max_event_miss_rate: float | None = None,
        max_false_alarm_rate: float | None = None,
        confidence: float | None = None,
        miss_cost: float | None = None,
        time_cost: float | None = None,
        alarm_cost: float | None = None,
        choose: Choose | None = None,
        lead: float | None = None,
        per: str | Sequence[Any] | None = None,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> Calibration:
        """Choose the threshold on paths the model was not trained on.

            policy.calibrate(fresh, MissRate(0.05, confidence=0.95), FalseAlarms(0.2))

        The threshold keeps all promises (`lit_ios.promises`) on paths exchangeable with these; of
        those that do, the one that serves the goal among them best. Without any, it is the one of
        the highest balanced accuracy. A path that is there twice under two names counts once.

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            *promises: to keep.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            max_event_miss_rate: short for MissRate.
            max_false_alarm_rate: short for FalseAlarms.
            confidence: of the two; None for promises in the mean.
            miss_cost: short for Cost(miss=…), with `time_cost` and `alarm_cost`.
            time_cost: of a unit of time between the policy's stop and the event.
            alarm_cost: of a censored path that is stopped.
            choose: a function of your own from the margins of all rows and their paths (a
                PathBatch) to the threshold; nothing is promised of it.
            lead: time by which a stop must come before the event; by default as in training.
            per: column of groups, or a name for each path: promises are kept within each group
                that is large enough.
            allow_known_paths: take paths that look like those of training, and those that are there
                twice. Where rows hold few different numbers, fresh paths can be the same.
            **roles: further arguments of TableRoles: stop, censored, sort, missing.
        """
        wanted = [*promises, *short_forms(
            max_event_miss_rate, max_false_alarm_rate, confidence, miss_cost, time_cost, alarm_cost
        )]  # fmt: skip
        check_promises(wanted)
        if choose is not None and wanted:
            raise UserError("choose by promises or by a function, not by both")
        paths, labels = self._labelled(data, path, time, per, **roles)
        if not allow_known_paths:
            self._refuse_known_paths(paths, "training", "trained on")
            if any(promise.prefers is not None for promise in wanted):
                self._refuse_known_paths(paths, "validation", "used to choose the epoch")
            paths, labels = _each_once(paths, labels)
        batch = path_batch(paths, lead=self.lead if lead is None else lead)
        margins = self._margins(paths, roles.get("missing"))
        found = calibrate(margins, batch, wanted, choose, group_masks(labels))
        self.threshold = found.threshold
        self.calibration = found
        self._about["calibrated_on"] = fingerprints(paths)
        self._about["reference"] = path_scores(self, paths, roles.get("missing"))._asdict()
        return found

    @property
    def lead(self) -> float:
        """Time by which stops had to come before events where it was validated (M8)."""
        return float(self._about.get("lead", 0.0))

    def _refuse_known_paths(self, paths: TrajectorySet, part: str, what: str) -> None:
        met = recognised(paths, self._about.get(part, {}))
        if met:
            raise UserError(
                f"{len(met)} of the {len(paths)} calibration paths were {what}, e.g. {met[0]!r}: "
                "what is chosen on them would promise too much; if they only look the same, "
                "allow_known_paths=True takes them"
            )

    @property
    def validates_on_training_paths(self) -> bool:
        """Whether members left out folds: every validation path was trained on by some."""
        training = self._about.get("training")
        return bool(training) and training == self._about.get("validation")

    def frontier(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        *,
        draws: int = 200,
        seed: int = 0,
        lead: float | None = None,
        **roles: Any,
    ) -> FrontierCurve:
        """Return the trade-off between missed events, lost time (M5) and false alarms (M7).

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            draws: bootstrap samples of paths.
            seed: of the samples.
            lead: time by which a stop must come before the event; by default as in training.
            **roles: further arguments of TableRoles.
        """
        check_number("draws", draws, at_least=1)
        paths, _ = self._labelled(data, path, time, **roles)
        if not paths.stopped.any():
            raise UserError("no path was stopped: there is nothing to miss")
        if (note := calibration_note(paths, self._about)) is not None:
            warnings.warn(note, stacklevel=2)
        margins = self._margins(paths, roles.get("missing"))
        batch = path_batch(paths, lead=self.lead if lead is None else lead)
        return frontier_curve(margins, batch, self.threshold, draws, seed)

    # In use --------------------------------------------------------------------------------------

    def monitor(
        self,
        saved: Mapping[str, Any] | None = None,
        *,
        alarm_probability: float | None = None,
        seed: int | None = None,
    ) -> Monitor:
        """Watch whether finished paths still look like those of calibration; see `Monitor`.

        Args:
            saved: what `state` of a monitor returned, to go on from there.
            alarm_probability: largest probability that an alarm is ever raised although nothing
                changes; 0.01 by default.
            seed: of the random numbers that decide between equal values; 0 by default.
        """
        promised = None if self.calibration is None else self.calibration.plain()
        about = {"reference": self.reference, "calibration": promised}
        return open_monitor(about, self.threshold, self.rule.fingerprint, saved,
                            alarm_probability, seed, self._scores)  # fmt: skip

    @property
    def reference(self) -> dict[str, Any] | None:
        """Largest margin and distance of each calibration path, whatever the threshold is now."""
        return self._about.get("reference")

    def _scores(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> tuple[Sequence[str], PathScores]:
        """Return names and scores of finished paths."""
        paths, _ = self._labelled(data, path, time, **roles)
        if not allow_known_paths:
            refuse_known(paths, self._about)
        return paths.names, path_scores(self, paths, roles.get("missing"))

    def learn_forecast(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        *,
        confidence: float = 0.9,
        horizons: Sequence[float] = (),
        seed: int = 0,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> Forecast:
        """Learn how long is left at a row (M9), on paths the model was not trained on.

        From then on tables and live paths say it. It depends on the margins, whatever the
        threshold; `docs/policy.md` says what is promised of its lower bounds.

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            confidence: with which lower bounds of the time left hold.
            horizons: times left that `predict` gives probabilities for.
            seed: of the half of the paths that bounds are made of; the other half tests them.
            allow_known_paths: as for `calibrate`.
            **roles: further arguments of TableRoles: stop, censored, sort, missing.
        """
        paths, _ = self._labelled(data, path, time, **roles)
        if not allow_known_paths:
            self._refuse_known_paths(paths, "training", "trained on")
            self._refuse_known_paths(paths, "validation", "used to choose the epoch")
            paths, _ = _each_once(paths, None)
        if met := recognised(paths, self._about.get("calibrated_on") or {}):
            warnings.warn(
                f"the threshold was chosen on {len(met)} of these {len(paths)} paths: what is "
                "promised of first stops may not hold, other bounds do",
                stacklevel=2,
            )
        margins = self._margins(paths, roles.get("missing"))
        self.learnt_forecast = learn(
            margins, path_batch(paths), self.rule.fingerprint, confidence, tuple(horizons), seed
        )
        self._live = None
        return self.learnt_forecast

    # Beyond --------------------------------------------------------------------------------------

    def explain(
        self, observation: Any, stream: Stream | None = None, time: Any | None = None
    ) -> Explanation:
        """Say what the margin of an observation is made of, by coordinate of the state.

        Args:
            observation: as for `stream.step`.
            stream: the live path it would be the next row of; a new path by default. It is not
                advanced.
            time: of the observation.
        """
        path = self.stream() if stream is None else stream
        path.copy().step(observation, time)  # refuses what cannot be judged
        columns = self.live.observations.row(observation)
        now = math.nan if time is None else as_time(time, self.time_unit)
        given = (columns[None], np.array([now]), path.carry[None])
        return explain(self.rule, *(torch.from_numpy(values) for values in given))

    def explain_row(self, path: Trajectory, row: int) -> Explanation:
        """Say what the margin of one row of a path of raw columns is made of."""
        assert path.times is not None
        stream = self.stream()
        for i in range(row):
            stream.step(path.states[i].astype(np.float64), path.times[i])
        return self.explain(path.states[row].astype(np.float64), stream, path.times[row])

    def export(self, file: str | Path, missing: Missing | None = None) -> Path:
        """Write the policy for other programs: .onnx, or .pt2 for torch.export.

        Args:
            file: to write.
            missing: as for `Stream`.
        """
        return export(self, Path(file), missing)


def _batches(paths: TrajectorySet) -> Iterator[PathBatch]:
    groups = path_groups(paths, np.arange(len(paths)), ROWS_AT_ONCE)
    return (path_batch(paths, group) for group in groups)


def _each_once(
    paths: TrajectorySet, labels: list[str] | None
) -> tuple[TrajectorySet, list[str] | None]:
    """Leave out paths that are there under another name as well, and name them."""
    again = twins(paths)
    if not again:
        return paths, labels
    later, first = next(iter(again.items()))
    warnings.warn(
        f"{len(again)} of the {len(paths)} paths are there twice, e.g. {paths.names[later]!r} has "
        f"the rows of {paths.names[first]!r}: each counts once (allow_known_paths counts all)",
        stacklevel=3,
    )
    kept = [number for number in range(len(paths)) if number not in again]
    return paths.select(kept), None if labels is None else [labels[number] for number in kept]
