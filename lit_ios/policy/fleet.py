"""Many live paths at once, a row of some of them at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lit_ios.checks import UserError, check_choice
from lit_ios.policy.inputs import as_numbers
from lit_ios.policy.live import (
    NOT_TIMED,
    SOME_ROWS,
    TIMED,
    Missing,
    Rule,
    as_time,
    mended,
    restoring,
    warn_of_spacing,
)
from lit_ios.policy.tables import as_arrow
from lit_ios.trajectories import BoolArray, FloatArray, IntArray


class Decisions(NamedTuple):
    """What the policy says of the newest rows of several live paths; (B,) each."""

    stop: BoolArray
    margin: FloatArray
    probability: FloatArray
    t: IntArray
    time: FloatArray


class Streams:
    """Many live paths, each joining with its first row and leaving when it is ended.

    Args:
        rule: of the policy.
        saved: what `state` returned, to go on from there.
        missing: a missing value (NaN) is refused, or the last known one carried on.
    """

    def __init__(
        self, rule: Rule, saved: Mapping[str, Any] | None = None, missing: Missing = "refuse"
    ) -> None:
        check_choice("missing", missing, Missing)
        self._rule, self._missing = rule, missing
        self._slot: dict[Hashable, int] = {}
        self._free: list[int] = []
        features = len(rule.inputs.feature_names)
        self._t = np.zeros(0, dtype=np.int64)
        self._start, self._time = np.zeros(0), np.zeros(0)
        self._timed = np.zeros(0, dtype=bool)
        self._y = np.zeros((0, rule.engine.y_dim))
        self._recent = np.zeros((0, rule.lags + 1, features))
        self._width = (rule.lags + 1) * features
        if saved is not None:
            with restoring(saved, rule):
                self._rule = rule._replace(threshold=float(saved["threshold"]))
                self._grow(len(saved["paths"]))
                for name, path in zip(saved["paths"], saved["states"], strict=True):
                    name = tuple(name) if isinstance(name, list) else name  # JSON knows no tuples
                    slot = self._slot[name] = self._free.pop()
                    self._t[slot], self._start[slot] = path["t"], path["start"]
                    self._time[slot], self._y[slot] = path["time"], path["y"]
                    self._timed[slot] = path["timed"]
                    self._recent[slot] = path["recent"]

    def __len__(self) -> int:
        """Return the number of live paths."""
        return len(self._slot)

    def __contains__(self, name: Hashable) -> bool:
        """Say whether a path is live."""
        return name in self._slot

    @property
    def paths(self) -> list[Hashable]:
        """Names of the live paths."""
        return list(self._slot)

    def step(
        self, paths: Sequence[Hashable], observations: Any, times: Any | None = None
    ) -> Decisions:
        """Take the next row of each of these paths; a name not met before begins a new path.

        Args:
            paths: B names, none of them twice.
            observations: (B, D) features in the policy's order, or B mappings by name; raw units.
            times: (B,) times of the rows; by default one usual step after each path's last.
        """
        if isinstance(paths, str):
            raise UserError(f"a list of names is needed, got the text {paths!r}")
        rule, names = self._rule, list(paths)
        if len(set(names)) < len(names):
            raise UserError("a path can take one row at a time, but a name is there twice")
        features = self._features(observations)
        if len(features) != len(names):
            raise UserError(f"{len(names)} paths, but {len(features)} observations")
        known = np.array([name in self._slot for name in names], dtype=bool)
        live = np.array([self._slot[name] for name in names if name in self._slot], dtype=int)
        features = self._without_missing(features, known, live, names)
        now = self._now(times, known, live, names)
        slots = np.empty(len(names), dtype=int)
        slots[known], slots[~known] = live, self._join(names, known)  # nothing fails from here on
        self._t[slots] += 1
        self._time[slots] = now
        self._start[slots[~known]], self._timed[slots[~known]] = now[~known], times is not None
        if rule.lags:
            self._recent[live, 1:] = self._recent[live, :-1]
        self._recent[live, 0] = features[known]
        self._recent[slots[~known]] = features[~known, None]
        elapsed = now - self._start[slots]
        state = self._recent[slots].reshape(len(names), self._width)
        if rule.include_time:
            state = np.concatenate([state, elapsed[:, None]], axis=1)
        steps = self._t[slots]
        if times is not None:
            self._warn_of_spacing(steps, elapsed)
        margin, self._y[slots] = rule.engine.judge(state, steps, self._y[slots])
        probability = 0.5 + 0.5 * np.tanh(0.5 * margin / rule.epsilon)
        return Decisions(margin >= rule.threshold, margin, probability, steps, elapsed)

    def end(self, paths: Iterable[Hashable]) -> None:
        """Forget these paths; their places are given to others."""
        names = [paths] if isinstance(paths, str) else list(dict.fromkeys(paths))
        unknown = [name for name in names if name not in self._slot]
        if unknown:
            raise UserError(f"there is no live path {unknown[0]!r}")
        self._free += [self._slot.pop(name) for name in names]

    def state(self) -> dict[str, Any]:
        """Return all there is to know of the live paths; plain JSON if their names are."""
        slots = self._slot.values()
        states = [
            {
                "t": int(self._t[slot]),
                "start": float(self._start[slot]),
                "time": float(self._time[slot]),
                "timed": bool(self._timed[slot]),
                "y": self._y[slot].tolist(),
                "recent": self._recent[slot].tolist(),
            }
            for slot in slots
        ]
        names = [n.item() if isinstance(n, np.generic) else n for n in self._slot]
        return {
            "policy": self._rule.fingerprint,
            "threshold": self._rule.threshold,
            "paths": names,
            "states": states,
        }

    def _features(self, observations: Any) -> FloatArray:
        inputs = self._rule.inputs
        if hasattr(observations, "columns"):  # a DataFrame: by name
            observations = as_arrow(observations).to_pylist()
        if isinstance(observations, Mapping):
            raise UserError("a row for each path is needed, got a single mapping")
        if not hasattr(observations, "__len__"):
            raise UserError(f"a row for each path is needed, got {observations!r}")
        if len(observations) and (
            isinstance(observations[0], Mapping) or hasattr(observations[0], "to_dict")
        ):
            return np.array([inputs.row(one) for one in observations])
        if not len(observations):
            return np.zeros((0, len(inputs.feature_names)))
        return inputs.matrix(as_numbers(observations))

    def _without_missing(
        self, features: FloatArray, known: BoolArray, live: IntArray, names: list[Hashable]
    ) -> FloatArray:
        if np.isfinite(features).all():
            return features
        last = np.full_like(features, np.nan)
        last[known] = self._recent[live, 0]
        whole = features.copy()
        for row in np.flatnonzero(~np.isfinite(features).all(axis=1)):
            where = f"path {names[row]!r}, "
            before = last[row] if known[row] else None
            whole[row] = mended(features[row], before, self._rule.inputs, self._missing, where)
        return whole

    def _now(
        self, times: Any | None, known: BoolArray, live: IntArray, names: list[Hashable]
    ) -> FloatArray:
        if times is None:
            if self._rule.include_time and self._timed[live].any():
                row = int(np.flatnonzero(known)[np.argmax(self._timed[live])])
                raise UserError(f"path {names[row]!r}: {TIMED}")
            now = np.zeros(len(names))
            now[known] = self._time[live] + self._rule.time_step
            return now
        if not hasattr(times, "__len__") or len(times) != len(names):
            raise UserError(f"{len(names)} times are needed, one for each path, got {times!r}")
        now = np.array([as_time(time, self._rule.time_unit) for time in times])
        if not self._timed[live].all():
            row = int(np.flatnonzero(known)[np.argmin(self._timed[live])])
            raise UserError(f"path {names[row]!r}: {NOT_TIMED}")
        late = now[known] <= self._time[live]
        if late.any():
            row = int(np.flatnonzero(known)[np.argmax(late)])
            before = self._time[self._slot[names[row]]]
            raise UserError(
                f"path {names[row]!r}: time must increase: {now[row]:g} after {before:g}"
            )
        return now

    def _warn_of_spacing(self, steps: IntArray, elapsed: FloatArray) -> None:
        known = steps == SOME_ROWS + 1
        if known.any():
            warn_of_spacing(float(np.median(elapsed[known] / steps[known])), self._rule.time_step)

    def _join(self, names: list[Hashable], known: BoolArray) -> list[int]:
        """Give new paths a place."""
        new = [name for name, there in zip(names, known, strict=True) if not there]
        if len(new) > len(self._free):
            self._grow(max(len(new) - len(self._free), len(self._t)))
        slots = [self._free.pop() for _ in new]
        self._slot.update(zip(new, slots, strict=True))
        self._t[slots] = -1
        self._y[slots] = 0.0
        return slots

    def _grow(self, more: int) -> None:
        size = len(self._t)
        for name in ("_t", "_start", "_time", "_timed", "_y", "_recent"):
            values = getattr(self, name)
            extra = np.zeros((more, *values.shape[1:]), dtype=values.dtype)
            setattr(self, name, np.concatenate([values, extra]))
        self._free += range(size + more - 1, size - 1, -1)
