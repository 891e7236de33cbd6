"""The threshold of a rule: chosen by promises, and what every other one would do."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from lit_ios.batches import path_batch
from lit_ios.checks import UserError, check_number
from lit_ios.policy.calibration import Calibration, Choose, calibrate, short_forms
from lit_ios.policy.evidence import Evidence, without_needless_rows
from lit_ios.policy.frontiers import FrontierCurve, frontier_curve
from lit_ios.policy.judging import Judge
from lit_ios.policy.known_paths import CHOSE_EPOCH, TRAINED, each_once, refuse_chosen_on
from lit_ios.policy.labels import group_masks
from lit_ios.policy.monitoring import path_scores
from lit_ios.promises.base import Promise
from lit_ios.promises.choice import check_promises
from lit_ios.recognition import calibration_note, fingerprints
from lit_ios.trajectories import TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.tables import Table


class Thresholds(Judge):
    """Chooses the threshold of a rule."""

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
        self._check_roles(roles, self.calibrate)
        wanted = [*promises, *short_forms(
            max_event_miss_rate, max_false_alarm_rate, confidence, miss_cost, time_cost, alarm_cost
        )]  # fmt: skip
        check_wanted(wanted, per)
        if choose is not None and wanted:
            raise UserError("choose by promises or by a function, not by both")
        paths, labels = self.labelled_paths(data, path, time, per, **roles)
        if not allow_known_paths:
            refuse_chosen_on(paths, self._about, parts_to_avoid(wanted))
            paths, labels = each_once(paths, labels)
        known = self.evidence(paths, labels, lead, roles.get("missing"))
        return self.choose_threshold(known, wanted, choose)

    def evidence(
        self,
        paths: TrajectorySet,
        labels: list[str] | None = None,
        lead: float | None = None,
        missing: str | None = None,
        reduced: bool = False,
    ) -> Evidence:
        """Return what a calibration must know of paths.

        Args:
            paths: of raw columns.
            labels: of the group of each.
            lead: as for `calibrate`.
            missing: what to do about gaps; None for what the rule was trained with.
            reduced: leave out rows that no threshold depends on.
        """
        batch = path_batch(paths, lead=self.lead if lead is None else lead)
        values, distance = self._judged(paths, missing)
        margin = torch.from_numpy(values)
        if reduced:
            margin, batch = without_needless_rows(margin, batch)
        scores = path_scores(values, distance, paths)
        return Evidence(margin, batch, labels, scores, fingerprints(paths))

    def choose_threshold(
        self, known: Evidence, promises: Sequence[Promise], choose: Choose | None = None
    ) -> Calibration:
        """Take the threshold that paths of which this is known ask for; see `calibrate`."""
        groups = group_masks(known.labels)
        found = calibrate(known.margin, known.batch, promises, choose, groups)
        self.threshold = found.threshold
        self.calibration = found
        self._about["calibrated_on"] = known.marks
        self._about["reference"] = known.scores._asdict()
        return found

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
        self._check_roles(roles, self.frontier)
        check_number("draws", draws, at_least=1)
        paths, _ = self.labelled_paths(data, path, time, **roles)
        if not paths.stopped.any():
            raise UserError("no path was stopped: there is nothing to miss")
        if (note := calibration_note(paths, self._about)) is not None:
            warnings.warn(note, stacklevel=2)
        margins = self._margins(paths, roles.get("missing"))
        batch = path_batch(paths, lead=self.lead if lead is None else lead)
        return frontier_curve(margins, batch, self.threshold, draws, seed)

    @staticmethod
    def _check_roles(roles: dict[str, Any], method: Callable[..., Any]) -> None:
        """Answer misspelt arguments with the nearest one of the method."""
        if roles:
            from lit_ios.policy.tables import check_roles

            own = inspect.signature(method).parameters
            check_roles(roles, set(own) - {"data", "promises", "roles"})


def check_wanted(promises: Sequence[Promise], per: str | Sequence[Any] | None) -> None:
    """Refuse promises that cannot be kept together, and groups without one."""
    check_promises(promises)
    if per is not None and not _keeps(promises):
        raise UserError(
            "per keeps promises within groups: give one, such as MissRate(0.05), or leave per out"
        )


def parts_to_avoid(promises: Sequence[Promise]) -> dict[str, str]:
    """Return which paths nothing may be promised on, and what was done with them."""
    return TRAINED | (CHOSE_EPOCH if _keeps(promises) else {})


def _keeps(promises: Sequence[Promise]) -> bool:
    return any(promise.prefers is not None for promise in promises)
