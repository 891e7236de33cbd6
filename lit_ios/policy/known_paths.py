"""Paths that must not be chosen, learnt or compared on: met before, or there twice."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
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
    for what, met in known_to(paths, about, parts).items():
        refuse_met(met, len(paths), what)


def known_to(
    paths: TrajectorySet, about: Mapping[str, Any], parts: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the names of paths that a rule knows, by what was done with them."""
    return {what: recognised(paths, about.get(part) or {}) for part, what in parts.items()}


def refuse_met(met: Sequence[str], paths: int, what: str) -> None:
    """Refuse paths that the rule knows.

    Args:
        met: their names.
        paths: how many there are in all.
        what: was done with them.
    """
    if met:
        raise UserError(
            f"{len(met)} of the {paths} calibration paths were {what}, e.g. {met[0]!r}: "
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
    warn_of_twins([(paths.names[i], paths.names[j]) for i, j in again.items()], len(paths))
    return without_twins(paths, labels, again)


def without_twins(
    paths: TrajectorySet, labels: list[str] | None, again: Mapping[int, int]
) -> tuple[TrajectorySet, list[str] | None]:
    """Leave out the paths that are earlier ones again; see `twins`."""
    if not again:
        return paths, labels
    kept = [number for number in range(len(paths)) if number not in again]
    return paths.select(kept), None if labels is None else [labels[number] for number in kept]


def warn_of_twins(again: Sequence[tuple[str, str]], paths: int) -> None:
    """Say which paths are left out.

    Args:
        again: names of each with the path that it is.
        paths: how many there are in all.
    """
    if again:
        later, first = again[0]
        warnings.warn(
            f"{len(again)} of the {paths} paths are there twice, e.g. {later!r} has the rows of "
            f"{first!r}: each counts once (allow_known_paths counts all)",
            stacklevel=4,
        )
