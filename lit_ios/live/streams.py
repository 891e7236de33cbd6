"""Many live paths at once, a row of some of them at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lit_ios.carry import FIRST_STOP, LAST, ROWS, START, THRESHOLD, Missing
from lit_ios.checks import UserError, check_choice
from lit_ios.live.forecast import Remaining
from lit_ios.live.rule import Judged, LiveRule, warn_of_spacing, why_refused
from lit_ios.live.saved import checked_carry, checked_names, checked_start, restore
from lit_ios.times import as_time
from lit_ios.trajectories import BoolArray, FloatArray, IntArray


class Decisions(NamedTuple):
    """What the rule says of the newest rows of several live paths; (B,) each."""

    stop: BoolArray
    margin: FloatArray
    probability: FloatArray  # of stopping; ½ at the threshold
    first_stop: BoolArray  # the first row of its path at which the rule stops
    t: IntArray  # number of the row in its path, from 0
    time: FloatArray  # since the path began, in the data's unit
    familiar: BoolArray  # whether training had rows like this one
    unfamiliar: tuple[tuple[str, ...], ...]  # the features that make a row unlike them
    remaining: Remaining | None = None  # how long is left, where a forecast was learnt


def decisions_of(rule: LiveRule, judged: Judged) -> Decisions:
    """Return what a rule says of rows all of which it could judge.

    Args:
        rule: that judged them.
        judged: margins, carries and so on.
    """
    carry = judged.carry
    t = carry[:, ROWS].astype(np.int64) - 1
    elapsed, first_stop = carry[:, LAST] - carry[:, START], carry[:, FIRST_STOP] == t
    left = None
    if rule.forecast is not None:
        left = rule.forecast(judged.margin, elapsed, first_stop, carry[:, THRESHOLD])
    familiar = np.asarray(judged.distance <= 1)
    names: list[tuple[str, ...]] = [()] * len(familiar)
    for row in np.flatnonzero(~familiar):
        names[row] = rule.strange(judged.shares[row])
    return Decisions(
        judged.stop, judged.margin, judged.probability, first_stop, t, elapsed, familiar,
        tuple(names), left,
    )  # fmt: skip


class Streams:
    """Many live paths, each joining with its first row and leaving when it is ended.

    Args:
        rule: that decides.
        saved: what `state` returned, to go on from there.
        missing: as for `Stream`.
    """

    def __init__(
        self,
        rule: LiveRule,
        saved: Mapping[str, Any] | None = None,
        missing: Missing | None = None,
    ) -> None:
        missing = missing or rule.missing
        check_choice("missing", missing, Missing)
        self._rule, self._missing = rule, missing
        self._start = checked_carry(rule.start, rule)
        self._slot: dict[Hashable, int] = {}
        self._free: list[int] = []
        self._carry = np.zeros((0, len(rule.start)))
        if saved is not None:
            carries = restore(saved, "carries", rule)
            names = checked_names(saved.get("paths"), carries)
            self._start = checked_start(saved.get("start"), rule)
            self._grow(len(names))
            for name, carry in zip(names, carries, strict=True):
                slot = self._slot[name] = self._free.pop()
                self._carry[slot] = checked_carry(carry, rule)

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
            observations: (B, C) raw values in the rule's order, or B mappings by column name.
            times: (B,) times of the rows; by default one usual step after each path's last.
        """
        if isinstance(paths, str):
            raise UserError(f"a list of names is needed, got the text {paths!r}")
        rule, names = self._rule, list(paths)
        if len(set(names)) < len(names):
            raise UserError("a path can take one row at a time, but a name is there twice")
        columns = rule.observations.rows(observations)
        if len(columns) != len(names):
            raise UserError(f"{len(names)} paths, but {len(columns)} observations")
        slots = np.array([self._slot.get(name, -1) for name in names], dtype=int)
        new = slots < 0
        carry = self._carry[slots] if len(self._carry) else np.empty((len(names), self._width))
        carry[new] = self._start
        time = self._times(times, names)
        judged = rule.step(columns, time, carry, self._missing)
        bad = ~np.isfinite(judged.margin)
        if bad.any():
            row = int(np.argmax(bad))
            why = why_refused(rule, columns[row], time[row], carry[row], self._missing)
            raise UserError(f"path {names[row]!r}: {why}")
        slots[new] = self._join([name for name, joins in zip(names, new, strict=True) if joins])
        carry = self._carry[slots] = judged.carry
        if times is not None:
            warn_of_spacing(carry, rule.time_step)
        return decisions_of(rule, judged)

    def end(self, paths: Iterable[Hashable]) -> None:
        """Forget these paths; their places are given to others."""
        names = [paths] if isinstance(paths, str) else list(dict.fromkeys(paths))
        unknown = [name for name in names if name not in self._slot]
        if unknown:
            raise UserError(f"there is no live path {unknown[0]!r}")
        self._free += [self._slot.pop(name) for name in names]

    def state(self) -> dict[str, Any]:
        """Return all there is to know of the live paths; plain JSON if their names are."""
        names = [n.item() if isinstance(n, np.generic) else n for n in self._slot]
        return {
            "rule": self._rule.fingerprint,
            "start": self._start.tolist(),
            "paths": names,
            "carries": self._carry[list(self._slot.values())].tolist(),
        }

    @property
    def _width(self) -> int:
        return len(self._start)

    def _times(self, times: Any | None, names: list[Hashable]) -> FloatArray:
        if times is None:
            return np.full(len(names), np.nan)
        if not hasattr(times, "__len__") or len(times) != len(names):
            raise UserError(f"{len(names)} times are needed, one for each path, got {times!r}")
        return np.array([as_time(time, self._rule.time_unit) for time in times])

    def _join(self, names: list[Hashable]) -> list[int]:
        """Give new paths a place."""
        if len(names) > len(self._free):
            self._grow(max(len(names) - len(self._free), len(self._carry)))
        slots = [self._free.pop() for _ in names]
        self._slot.update(zip(names, slots, strict=True))
        return slots

    def _grow(self, more: int) -> None:
        size = len(self._carry)
        self._carry = np.concatenate([self._carry, np.zeros((more, self._width))])
        self._free += range(size + more - 1, size - 1, -1)
