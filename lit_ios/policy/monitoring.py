"""What a monitor must know of whole paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lit_ios.checks import UserError
from lit_ios.live.path_scores import PathScores
from lit_ios.recognition import recognised
from lit_ios.trajectories import TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.policy import StoppingPolicy


def path_scores(
    policy: StoppingPolicy, paths: TrajectorySet, missing: str | None = None
) -> PathScores:
    """Return the largest margin and distance of each path, as plain values."""
    decided = list(policy.decide(paths, missing))
    first = paths.offsets[:-1]
    margin = np.concatenate([part.margin.numpy() for part in decided])
    distance = np.concatenate([np.asarray(part.distance) for part in decided])
    return PathScores(
        np.maximum.reduceat(margin, first).tolist(),
        np.maximum.reduceat(distance, first).tolist(),
        paths.stopped.tolist(),
    )


def refuse_known(paths: TrajectorySet, about: Mapping[str, Any]) -> None:
    """Refuse paths that were trained or calibrated on: they say nothing of what came since.

    Args:
        paths: of raw columns.
        about: the entry `lit_ios` of a checkpoint.
    """
    for part, what in {"training": "trained on", "calibrated_on": "calibrated on"}.items():
        met = recognised(paths, about.get(part) or {})
        if met:
            raise UserError(
                f"{len(met)} of these {len(paths)} paths were {what}, e.g. {met[0]!r}: leave them "
                "out; if they only look the same, allow_known_paths takes them"
            )
