"""Paths that must not be chosen, learnt or compared on: met before, or there twice."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from lit_ios.checks import UserError
from lit_ios.recognition import recognised, twins
from lit_ios.trajectories import TrajectorySet

TRAINED = {"training": "trained on"}
CHOSE_EPOCH = {"validation": "used to choose the epoch"}
CALIBRATED = {"calibrated_on": "calibrated on"}


def refuse_chosen_on(
    paths: TrajectorySet, about: Mapping[str, Any], parts: Mapping[str, str]
) -> None:
    """Refuse calibration paths that the rule knows: what is chosen on them promises too much.

    Args:
        paths: of raw columns.
        about: the entry `lit_ios` of a checkpoint.
        parts: entries of it that hold fingerprints, and what was done with those paths.
    """
    for part, what in parts.items():
        if met := recognised(paths, about.get(part) or {}):
            raise UserError(
                f"{len(met)} of the {len(paths)} calibration paths were {what}, e.g. {met[0]!r}: "
                "what is chosen on them would promise too much; if they only look the same, "
                "allow_known_paths=True takes them"
            )


def refuse_old(paths: TrajectorySet, about: Mapping[str, Any]) -> None:
    """Refuse paths that were trained or calibrated on: they say nothing of what came since."""
    for part, what in (TRAINED | CALIBRATED).items():
        if met := recognised(paths, about.get(part) or {}):
            raise UserError(
                f"{len(met)} of these {len(paths)} paths were {what}, e.g. {met[0]!r}: leave them "
                "out; if they only look the same, allow_known_paths=True takes them"
            )


def each_once(
    paths: TrajectorySet, labels: list[str] | None = None
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
