"""What a report says of one run: the rule, the paths it is judged on, and its run folder."""

from __future__ import annotations

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lit_ios.baseline import accuracy_interval, path_counts
from lit_ios.batches import PathBatch, path_batch
from lit_ios.checks import UserError
from lit_ios.functional.outcomes import outcome
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.calibration import Estimate, measured_at
from lit_ios.policy.frontiers import FrontierCurve, frontier_curve
from lit_ios.rule import Decisions
from lit_ios.settings import Settings, read_settings
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

CURVES = {  # tags of TensorBoard, and what they are called
    "val/balanced_accuracy": "validation accuracy",
    "train/q/total": "loss of Q",
    "train/dynamics/total": "loss of the dynamics",
    "train/gain/total": "loss of the gain",
}
SCORES = ("balanced_accuracy", "event_miss_rate", "false_alarm_rate", "stopped_at_first_row")
SAME = 1e-6  # by which the score of a rule differs from that which its run wrote down


class Typical(NamedTuple):
    """A stop that is worth explaining."""

    kind: str
    path: int
    row: int


class RunFacts:
    """One run and the paths it is judged on.

    Args:
        checkpoint: of the rule.
        policy: read from it.
        paths: of raw columns, with stops.
        table: what these are called where they are not the run's own test paths.
    """

    def __init__(
        self,
        checkpoint: Path,
        policy: StoppingPolicy,
        paths: TrajectorySet,
        table: str | None = None,
    ) -> None:
        if not paths.stopped.any():
            raise UserError("none of these paths was stopped: there is nothing to report on")
        self.checkpoint, self.policy, self.paths, self.table = checkpoint, policy, paths, table
        inside = checkpoint.absolute().parent
        self.folder = inside.parent if inside.name == "checkpoints" else inside
        self.batch: PathBatch = path_batch(paths, lead=policy.lead)
        self.unit = policy.table.time_name

    @property
    def of(self) -> str:
        """What the paths are, in words."""
        whose = "its test paths" if self.table is None else f"the paths of {self.table}"
        return f"{whose}: {len(self.paths)}, {int(self.paths.stopped.sum())} of them stopped"

    @cached_property
    def decisions(self) -> Decisions:
        """Everything the rule says of all rows."""
        parts = list(self.policy.decide(self.paths))
        joined = [None if v[0] is None else torch.cat(v) for v in zip(*parts, strict=True)]
        return Decisions(*joined)  # type: ignore[arg-type]

    @cached_property
    def measured(self) -> dict[str, Any]:
        """What the threshold does on the paths, with intervals."""
        margin, threshold = self.decisions.margin, self.policy.threshold
        counts = path_counts(margin, self.batch, threshold)
        found = measured_at(margin, self.batch, threshold)
        return found | {"balanced_accuracy": accuracy_interval(counts)}

    @cached_property
    def frontier(self) -> FrontierCurve:
        """What every threshold would do on the paths."""
        margin = self.decisions.margin
        return frontier_curve(margin, self.batch, self.policy.threshold, draws=100)

    @cached_property
    def stop_rows(self) -> IntArray:
        """The row of the rule's first stop in each path, −1 for none; (P,)."""
        step = outcome(self.decisions.margin, self.batch, self.policy.threshold).stop_step.numpy()
        return np.where(step < self.paths.lengths, step, -1)

    @property
    def elapsed(self) -> FloatArray:
        """Time from the beginning of each path to the rule's stop; NaN for none; (P,)."""
        first = self.paths.offsets[:-1]
        stop = first + np.maximum(self.stop_rows, 0)
        elapsed = self.paths.times[stop] - self.paths.times[first]
        return np.where(self.stop_rows >= 0, elapsed, np.nan)

    @property
    def lasted(self) -> FloatArray:
        """Time from the beginning of each path to its last row; (P,)."""
        return self.paths.times[self.paths.last_rows] - self.paths.times[self.paths.offsets[:-1]]

    @property
    def early(self) -> FloatArray:
        """Time from the rule's stop to the expert's, of stopped paths; NaN if missed."""
        return (self.lasted - self.elapsed)[self.paths.stopped]

    def typical_stops(self) -> list[Typical]:
        """Return stops to explain: an ordinary one, an early and a late one, and a false alarm."""
        early, stopped = self.early, np.flatnonzero(self.paths.stopped)
        found: dict[int, str] = {}
        for kind, share in (
            ("An ordinary stop", 0.5),
            ("An early stop", 0.9),
            ("A late stop", 0.1),
        ):
            if np.isfinite(early).any():
                distance = np.abs(early - np.nanquantile(early, share))
                found.setdefault(int(stopped[np.nanargmin(distance)]), kind)
        alarms = np.flatnonzero(~self.paths.stopped & (self.stop_rows >= 0))
        if len(alarms):
            found[int(alarms[0])] = "A false alarm"
        return [Typical(kind, path, int(self.stop_rows[path])) for path, kind in found.items()]

    # The run folder ------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """The settings of the run; empty if they are not beside the checkpoint."""
        file = self.folder / "config.yaml"
        return read_settings(file) if file.is_file() else {}

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What the run wrote of itself when it ended."""
        file = self.folder / "metrics.json"
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def baseline(self) -> dict[str, Estimate]:
        """What gradient boosting got on the same paths, by the names of metrics."""
        if self.table is not None:
            return {}
        found = {
            name: self._estimate(f"baseline_{name}") for name in (*SCORES, "time_to_event_mean")
        }
        return {name: estimate for name, estimate in found.items() if estimate is not None}

    @property
    def ahead(self) -> Estimate | None:
        """How far the rule is ahead of gradient boosting, where this rule was compared with it."""
        own = self.metrics.get("test/balanced_accuracy")
        tested = isinstance(own, int | float) and math.isclose(
            own, self.measured["balanced_accuracy"].value, abs_tol=SAME
        )
        return self._estimate("baseline_difference") if tested and self.table is None else None

    def _estimate(self, name: str) -> Estimate | None:
        """Return a number of metrics.json with its interval, NaN where there is none."""
        ends = [self.metrics.get(f"test/{name}{end}") for end in ("", "_low", "_high")]
        if not isinstance(ends[0], int | float):
            return None
        return Estimate(*(float(x) if isinstance(x, int | float) else math.nan for x in ends))

    def curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return epochs and values of what TensorBoard's files hold of the training."""
        taken = self.metrics.get("candidate")
        folder = self.folder / "candidates" / str(taken) if taken else self.folder
        return read_curves(folder if folder.is_dir() else self.folder)


def read_curves(folder: Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return epochs and values of each curve that TensorBoard's files in a folder hold."""
    if not any(folder.glob("events.out.tfevents*")):
        return {}
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), {"scalars": 0}).Reload()
    known = set(events.Tags()["scalars"])
    found: dict[str, tuple[FloatArray, FloatArray]] = {}
    for tag, name in CURVES.items():
        if tag in known:
            points = {event.step: event.value for event in events.Scalars(tag)}
            steps = np.array(sorted(points), dtype=np.float64)
            found[name] = (steps, np.array([points[step] for step in sorted(points)]))
    return found
