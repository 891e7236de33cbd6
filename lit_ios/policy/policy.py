"""A trained model as a rule that can be relied on: loaded, asked, calibrated, exported."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lit_ios import modules
from lit_ios.batches import path_batch, path_groups
from lit_ios.checkpoints import read_checkpoint, write_checkpoint
from lit_ios.checks import UserError, check_number
from lit_ios.functional import stop_probability
from lit_ios.modules import StoppingModule
from lit_ios.policy.calibration import Calibration, Wish, calibrate
from lit_ios.policy.engine import Engine
from lit_ios.policy.explanations import Explanation, explain
from lit_ios.policy.exports import export
from lit_ios.policy.fleet import Streams
from lit_ios.policy.frontiers import FrontierCurve, frontier_curve
from lit_ios.policy.inputs import Inputs, inputs_of
from lit_ios.policy.live import Missing, Rule, warn_of_spacing
from lit_ios.policy.streams import Stream
from lit_ios.policy.tables import Table, like, open_any, read_features, table_roles
from lit_ios.recognition import known_again
from lit_ios.sampling.states import build_states
from lit_ios.trajectories import FloatArray, IntArray, Trajectory, TrajectorySet

ROWS_AT_ONCE = 65_536


class StoppingPolicy:
    """When to stop: margins, probabilities and decisions in the units of the data.

    Args:
        module: the trained model.
        inputs: how observations become features; by default they are them.
        checkpoint: what the model was loaded from, for `save`.
    """

    def __init__(
        self,
        module: StoppingModule,
        inputs: Inputs | None = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        self.module = copy.deepcopy(module).cpu().double().eval()
        self.module.requires_grad_(False)
        self.lags = int(module.hparams["lags"])
        self.include_time = bool(module.hparams["include_time"])
        self.inputs = inputs or Inputs(module.hparams["feature_names"])
        self.calibration: Calibration | None = None
        self._checkpoint = checkpoint
        self._engine = Engine(self.module)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made of the weights."""
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make it anew."""
        self.__dict__.update(state)
        self._engine = Engine(self.module)

    @classmethod
    def load(
        cls, file: str | Path, module_class: type[StoppingModule] | None = None
    ) -> StoppingPolicy:
        """Read a checkpoint; no trainer and no data are needed.

        Args:
            file: a checkpoint that training or `save` wrote.
            module_class: of a model that is none of this package's.
        """
        content = read_checkpoint(file)
        if "lit_ios" not in content:
            raise UserError(f"{file} is of an older version, which did not say what it is of")
        name = content["lit_ios"]["class"]
        model = module_class or getattr(modules, name, None)
        if model is None:
            raise UserError(f"{file}: the model is of the class {name}: give it as module_class")
        arguments = content["hyper_parameters"].items()  # LightningCLI adds some of its own
        try:
            module = model(**{key: value for key, value in arguments if not key.startswith("_")})
            module.load_state_dict(content["state_dict"])
        except (TypeError, RuntimeError) as error:
            raise UserError(f"{file} does not fit the class {model.__name__}: {error}") from None
        module.on_load_checkpoint(content)
        policy = cls(module, inputs_of(content), content)
        if "calibration" in content:
            policy.calibration = Calibration(**content["calibration"])
        return policy

    def save(self, file: str | Path) -> None:
        """Write a checkpoint with the threshold as it is now."""
        if self._checkpoint is None:
            raise UserError("this policy was not loaded from a checkpoint: save its trainer's")
        content = dict(self._checkpoint)
        threshold = torch.tensor(self.threshold, dtype=torch.float64)
        content["state_dict"] = content["state_dict"] | {"threshold": threshold}
        content.pop("calibration", None)
        if self.calibration is not None:
            content["calibration"] = self.calibration._asdict()
        write_checkpoint(content, file)

    # What it is ----------------------------------------------------------------------------------

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of what an array of observations holds, in order."""
        return self.inputs.names

    @property
    def threshold(self) -> float:
        """Margin b from which on the policy stops."""
        return float(self.module.threshold)

    @threshold.setter
    def threshold(self, value: float) -> None:
        if not isinstance(value, Real) or math.isnan(value):
            raise UserError(f"the threshold must be a number, got {value!r}")
        self.module.threshold.fill_(value)
        self.calibration = None  # what was promised of another threshold

    @property
    def epsilon(self) -> float:
        """Temperature of the stopping probability."""
        return float(self.module.epsilon)

    @property
    def fingerprint(self) -> str:
        """Short name of the weights."""
        digest = hashlib.blake2b(digest_size=8)
        for name, values in sorted(self.module.state_dict().items()):
            if name not in ("threshold", "confidence"):
                digest.update(name.encode() + values.numpy().tobytes())
        return digest.hexdigest()

    @property
    def _table(self) -> dict[str, Any]:
        """What is known of the table it was trained on."""
        known: dict[str, Any] = (self._checkpoint or {}).get("TableData", {})
        return known

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
        pyarrow): path, time, margin, probability, stop, and first_stop on the row where the
        policy ends the path; margin_spread with several members.

        Args:
            table: pandas, polars, pyarrow or a dictionary of columns; or a file.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            **roles: further arguments of TableRoles: sort, missing, time_unit.
        """
        known = table_roles(self.inputs, self._table, path, time, **roles)
        source = open_any(table, known)
        arrow = source.table
        features, rows = read_features(source, known, self.inputs)
        paths = self._states(features)
        columns: dict[str, FloatArray] = {"margin": np.empty(len(rows))}
        if self.module.members > 1:
            columns["margin_spread"] = np.empty(len(rows))
        done = 0
        for batch in self._batches(paths):
            with torch.inference_mode():
                output = self.module(batch)
            found = {"margin": output.margin, "margin_spread": output.spread}
            for name, values in columns.items():
                values[done : done + len(batch.step)] = found[name].numpy()
            done += len(batch.step)
        margin = columns.pop("margin")
        stop = margin >= self.threshold
        before: IntArray = np.cumsum(stop) - stop
        first = stop & (before == np.repeat(before[paths.offsets[:-1]], paths.lengths))
        probability = stop_probability(torch.from_numpy(margin), self.epsilon).numpy()
        made = {"margin": margin, **columns, "probability": probability}
        made |= {"stop": stop, "first_stop": first}
        order = np.argsort(rows, kind="stable")
        result = arrow.select([known.path_column, known.time_column])
        kept = rows[order]
        if len(kept) < result.num_rows:  # rows with missing values were dropped
            result = result.take(pa.array(kept))
        for name, values in made.items():
            result = result.append_column(name, pa.array(values[order]))
        return like(table, result, kept)

    def margins(self, paths: TrajectorySet) -> FloatArray:
        """Return the margin of every row of paths of features; (N,)."""
        return self._margins(self._states(paths)).numpy()

    def _margins(self, states: TrajectorySet) -> torch.Tensor:
        """Return the margins of paths of states."""
        if states.feature_names != self.module.state_names:
            raise UserError(
                f"the policy takes the features {', '.join(self.module.hparams['feature_names'])}, "
                f"not {', '.join(states.feature_names)}"
            )
        with torch.inference_mode():
            return torch.cat([self.module(batch).margin for batch in self._batches(states)])

    @staticmethod
    def _batches(states: TrajectorySet) -> Any:
        groups = path_groups(states, np.arange(len(states)), ROWS_AT_ONCE)
        return (path_batch(states, group) for group in groups)

    def _states(self, paths: TrajectorySet) -> TrajectorySet:
        states = paths.states.astype(np.float64)  # as live paths have them
        self._warn_of_spacing(paths)
        return build_states(paths.with_states(states), self.lags, self.include_time)

    def _warn_of_spacing(self, paths: TrajectorySet) -> None:
        """Say so if rows are much closer or further apart than those of training."""
        within = np.delete(np.diff(paths.times), paths.last_rows[:-1])
        if len(within):
            warn_of_spacing(float(np.median(within)), float(self.module.time_step))

    def paths(
        self, table: Table, path: str | None = None, time: str | None = None, **roles: Any
    ) -> TrajectorySet:
        """Return the paths of a table with the policy's features; arguments as for `predict`."""
        known = table_roles(self.inputs, self._table, path, time, **roles)
        return read_features(open_any(table, known), known, self.inputs)[0]

    def _labelled(
        self, data: Table | TrajectorySet, path: str | None, time: str | None, **roles: Any
    ) -> TrajectorySet:
        """Return paths of states whose stops are known."""
        if isinstance(data, TrajectorySet):
            built = data.feature_names == self.module.state_names
            return data if built else self._states(data)
        if "stop_column" not in roles and "censored_column" not in roles:
            known = self._table
            roles |= {n: known.get(n) for n in ("stop_column", "censored_column")}
        return self._states(self.paths(data, path, time, **roles))

    # Live paths ----------------------------------------------------------------------------------

    def stream(self, saved: Mapping[str, Any] | None = None, missing: Missing = "refuse") -> Stream:
        """Follow one live path, from its beginning or from a saved state."""
        return Stream(self._rule(), saved, missing)

    def stream_many(
        self, saved: Mapping[str, Any] | None = None, missing: Missing = "refuse"
    ) -> Streams:
        """Follow many live paths at once."""
        return Streams(self._rule(), saved, missing)

    def _rule(self) -> Rule:
        return Rule(
            self._engine, self.inputs, self.lags, self.include_time, self.epsilon, self.threshold,
            float(self.module.time_step), self._table.get("time_unit", "hours"), self.fingerprint,
        )  # fmt: skip

    # The threshold -------------------------------------------------------------------------------

    def calibrate(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        *,
        max_event_miss_rate: float | None = None,
        miss_cost: float | None = None,
        time_cost: float | None = None,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> Calibration:
        """Choose the threshold on paths the model was not trained on.

        By `max_event_miss_rate` the highest threshold that keeps the mean miss rate on fresh paths
        at or below it, whatever their law (conformal risk control); by `miss_cost` and
        `time_cost` the cheapest one; by neither the one of the highest balanced accuracy.

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            max_event_miss_rate: level α in (0, 1) of the guarantee.
            miss_cost: cost of a missed event.
            time_cost: cost of one unit of time between the policy's stop and the event.
            allow_known_paths: take paths that look like those of training, too. Where rows hold few
                different numbers, a fresh path can be the same as one that was trained on.
            **roles: further arguments of TableRoles: stop_column, censored_column, sort, missing.
        """
        wish = Wish(max_event_miss_rate, miss_cost, time_cost)
        wish.check()
        states = self._labelled(data, path, time, **roles)
        if not allow_known_paths:
            self._refuse_known_paths(states, "training", "trained on")
        if max_event_miss_rate is not None and not allow_known_paths:
            self._refuse_known_paths(states, "validation", "used to choose the epoch")
        found = calibrate(self._margins(states), path_batch(states), wish)
        self.threshold = found.threshold
        self.calibration = found
        return found

    def _refuse_known_paths(self, states: TrajectorySet, part: str, what: str) -> None:
        features = len(self.module.hparams["feature_names"])
        met = known_again(states, features, self.module._known_paths.get(part, {}))
        if met:
            raise UserError(
                f"{len(met)} of the {len(states)} calibration paths were {what}, e.g. {met[0]!r}: "
                "a threshold chosen on them would promise too much; if they only look the same, "
                "allow_known_paths takes them"
            )

    def frontier(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        *,
        draws: int = 200,
        seed: int = 0,
        **roles: Any,
    ) -> FrontierCurve:
        """Return the trade-off between missed events and lost time (M5), with a bootstrap band.

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            draws: bootstrap samples of paths.
            seed: of the samples.
            **roles: further arguments of TableRoles.
        """
        check_number("draws", draws, at_least=1)
        states = self._labelled(data, path, time, **roles)
        if not states.stopped.any():
            raise UserError("no path was stopped: there is nothing to miss")
        return frontier_curve(
            self._margins(states), path_batch(states), self.threshold, draws, seed
        )

    # Beyond --------------------------------------------------------------------------------------

    def explain(
        self, observation: Any, stream: Stream | None = None, time: float | None = None
    ) -> Explanation:
        """Say what the margin of an observation is made of, by coordinate of the state.

        Args:
            observation: as for `stream.step`.
            stream: the live path it would be the next row of; a new path by default. It is not
                advanced.
            time: of the observation.
        """
        return explain(self, observation, stream, time)

    def explain_row(self, path: Trajectory, row: int) -> Explanation:
        """Say what the margin of one row of a path of features is made of."""
        assert path.times is not None
        plain = self._rule()._replace(inputs=Inputs(self.module.hparams["feature_names"]))
        stream = Stream(plain)
        for i in range(row):
            stream.step(path.states[i], path.times[i])
        return explain(self, path.states[row], stream, path.times[row])

    def export(self, file: str | Path) -> Path:
        """Write the policy for other programs: .onnx, or .pt2 for torch.export."""
        return export(self, Path(file))
