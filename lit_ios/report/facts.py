"""What a report says of one run: the rule, the paths it is judged on, and its run folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lit_ios.batches import PathBatch, path_batch
from lit_ios.checks import UserError
from lit_ios.functional.outcomes import outcome
from lit_ios.leaks import find_leaks
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.calibration import measured_at
from lit_ios.recognition import calibration_note
from lit_ios.rule import Decisions
from lit_ios.settings import Settings, read_settings
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet
from lit_ios.variants import configs_folder

CURVES = {  # tags of TensorBoard, and what they are called
    "val/balanced_accuracy": "validation balanced accuracy",
    "train/q/total": "loss of Q",
    "train/dynamics/total": "loss of the dynamics",
    "train/gain/total": "loss of the gain",
}
FEW = 20  # stopped paths below which figures mean little


class RunFacts:
    """One run and the paths it is judged on.

    Args:
        checkpoint: of the rule.
        policy: read from it.
        paths: of raw columns, with stops.
        of: what the paths are, in words.
    """

    def __init__(
        self, checkpoint: Path, policy: StoppingPolicy, paths: TrajectorySet, of: str
    ) -> None:
        if not paths.stopped.any():
            raise UserError("none of these paths was stopped: there is nothing to report on")
        self.checkpoint, self.policy, self.paths, self.of = checkpoint, policy, paths, of
        inside = checkpoint.absolute().parent
        self.folder = inside.parent if inside.name == "checkpoints" else inside
        self.batch: PathBatch = path_batch(paths, lead=policy.lead)

    @cached_property
    def decisions(self) -> Decisions:
        """Everything the rule says of all rows."""
        parts = list(self.policy.decide(self.paths))
        joined = [None if v[0] is None else torch.cat(v) for v in zip(*parts, strict=True)]
        return Decisions(*joined)  # type: ignore[arg-type]

    @cached_property
    def measured(self) -> dict[str, Any]:
        """What the threshold does on the paths, with intervals."""
        return measured_at(self.decisions.margin, self.batch, self.policy.threshold)

    @cached_property
    def stop_rows(self) -> IntArray:
        """The row of the rule's first stop in each path, −1 for none; (P,)."""
        step = outcome(self.decisions.margin, self.batch, self.policy.threshold).stop_step.numpy()
        return np.where(step < self.paths.lengths, step, -1)

    @property
    def early(self) -> FloatArray:
        """Time from the rule's stop to the expert's, of stopped paths; NaN if missed."""
        first, last = self.paths.offsets[:-1], self.paths.last_rows
        stop = first + np.maximum(self.stop_rows, 0)
        left = self.paths.times[last] - self.paths.times[stop]
        return np.where(self.stop_rows >= 0, left, np.nan)[self.paths.stopped]

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
    def changed_settings(self) -> list[tuple[str, str]]:
        """Settings that differ from the defaults, by their full names."""
        default = dict(_flat(read_settings(configs_folder() / "default.yaml")))
        return [
            (name, str(value))
            for name, value in _flat(self.settings)
            if default.get(name) != value and value is not None
        ]

    def curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return epochs and values of what TensorBoard's files hold of the training."""
        taken = self.metrics.get("candidate")
        folder = self.folder / "candidates" / str(taken) if taken else self.folder
        return read_curves(folder if folder.is_dir() else self.folder)

    # What is odd ---------------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """What looks odd, a sentence each."""
        return [*self._threshold_notes(), *self._data_notes()]

    def _threshold_notes(self) -> list[str]:
        found, note = [], calibration_note(self.paths, self.policy._about)
        if note is not None:
            found.append(f"{note[:1].upper()}{note[1:]}.")
        if (self.stop_rows < 0).all():
            found.append("The rule stops none of these paths: its threshold is out of reach.")
        if (self.stop_rows == 0).all():
            found.append("The rule stops every path at its first row: it says nothing.")
        elif (share := self.measured["stopped_at_first_row"].value) >= 0.2:
            found.append(f"The rule stops {share:.0%} of the paths at their first row.")
        return found

    def _data_notes(self) -> list[str]:
        found, events = [], int(self.paths.stopped.sum())
        if events < FEW:
            found.append(
                f"Only {events} of the paths were stopped: figures mean little below some {FEW}."
            )
        found += [f"Possible leak: {leak.sentence}." for leak in find_leaks(self.paths)]
        gaps = np.isnan(self.paths.states).mean(axis=0)
        named = [
            f"{name} {share:.1%}"
            for name, share in zip(self.paths.feature_names, gaps, strict=True)
            if share > 0
        ]
        if named:
            found.append(f"Missing values: {', '.join(named[:8])}.")
        if (odd := self.unfamiliar) is not None and odd.paths:
            of = f"{odd.paths} of {len(self.paths)} paths"
            found.append(
                f"{of} have rows unlike those of training ({', '.join(odd.features)}): there the "
                "rule guesses."
            )
        return found

    @cached_property
    def unfamiliar(self) -> Unfamiliar | None:
        """Paths with rows unlike those of training; None if the rule cannot tell."""
        if self.decisions.distance is None or self.decisions.responsible is None:
            return None
        odd = self.decisions.distance > 1
        names, counts = self.policy.rule.current_names, Counter[str]()
        for row in self.decisions.responsible[odd].tolist():
            counts.update(names[i] for i in row if i >= 0)
        which = np.unique(self.paths.path_of_row[odd.numpy()])
        return Unfamiliar(len(which), [name for name, _ in counts.most_common(4)])

    def typical_stops(self, most: int = 3) -> list[tuple[int, int]]:
        """Return path and row of caught stops around the median of how early they are."""
        early, stopped = self.early, np.flatnonzero(self.paths.stopped)
        order = np.argsort(np.abs(early - np.nanmedian(early)), kind="stable")
        caught = [i for i in order if np.isfinite(early[i])]
        return [(int(stopped[i]), int(self.stop_rows[stopped[i]])) for i in caught[:most]]


class Unfamiliar(NamedTuple):
    """Paths with rows unlike those of training."""

    paths: int
    features: Sequence[str]


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


def _flat(settings: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return settings by their full names; lists are values."""
    if not isinstance(settings, dict):
        return [(name, settings)]
    pairs = []
    for key, value in settings.items():
        pairs += _flat(value, f"{name}.{key}" if name else str(key))
    return pairs
