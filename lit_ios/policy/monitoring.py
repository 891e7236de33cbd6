"""Finished paths of a rule in use, as its monitor takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lit_ios.live.path_scores import PathScores
from lit_ios.live.watched import Claims, Watched
from lit_ios.policy.judging import Judge
from lit_ios.policy.known_paths import each_once, refuse_old
from lit_ios.trajectories import FloatArray, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.tables import Table


def path_scores(margin: FloatArray, distance: FloatArray, paths: TrajectorySet) -> PathScores:
    """Return the largest margin and distance of each path, as plain values.

    Args:
        margin: (N,) of all rows.
        distance: (N,) from the rows of training.
        paths: these rows belong to.
    """
    first = paths.offsets[:-1]
    return PathScores(
        np.maximum.reduceat(margin, first).tolist(),
        np.maximum.reduceat(distance, first).tolist(),
        paths.stopped.tolist(),
    )


class Monitoring(Judge, Watched):
    """Watches whether finished paths still look like those of calibration."""

    @property
    def reference(self) -> dict[str, Any] | None:
        """Largest margin and distance of each calibration path, whatever the threshold is now."""
        return self._about.get("reference")

    def scores(self, paths: TrajectorySet, missing: str | None = None) -> PathScores:
        """Return what a monitor must know of finished paths of raw columns."""
        return path_scores(*self._judged(paths, missing), paths)

    @property
    def claims(self) -> Claims:
        """What a monitor holds paths against."""
        promised = None if self.calibration is None else self.calibration.plain()
        return Claims(self.reference, promised, self.threshold, self.rule.fingerprint, self._new)

    def _new(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> tuple[Sequence[str], PathScores]:
        """Return names and scores of finished paths."""
        paths, _ = self.labelled_paths(data, path, time, **roles)
        if not allow_known_paths:
            refuse_old(paths, self._about)
            paths, _ = each_once(paths)
        return paths.names, self.scores(paths, roles.get("missing"))
