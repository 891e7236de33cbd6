"""A learnt rule that can be relied on: loaded, asked, calibrated, exported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lit_ios.carry import Missing
from lit_ios.live import LiveRule, Stream, Streams
from lit_ios.policy.explanations import Explanation, explain
from lit_ios.policy.exports import export
from lit_ios.policy.forecasting import Forecasting
from lit_ios.policy.live import live_rule
from lit_ios.policy.monitoring import Monitoring
from lit_ios.policy.thresholds import Thresholds
from lit_ios.times import as_time
from lit_ios.trajectories import Trajectory


class StoppingPolicy(Thresholds, Forecasting, Monitoring):
    """When to stop: margins, probabilities and decisions in the units of the data.

    What it does is written where its subject is: `loaded` (checkpoints, what the rule is),
    `judging` (tables and paths), `thresholds` (calibrate, frontier), `forecasting`, `monitoring`,
    and here live paths, explanations and exported files.

    Args:
        rule: the learnt rule; it is copied, in double precision.
        about: the entry `lit_ios` of a checkpoint: what the rule was trained on.
        checkpoint: the whole content the rule was loaded from, with which training can go on.
    """

    def stream(
        self, saved: Mapping[str, Any] | None = None, missing: Missing | None = None
    ) -> Stream:
        """Follow one live path, from its beginning or from a saved state; see `Stream`."""
        return Stream(self.live, saved, missing)

    def stream_many(
        self, saved: Mapping[str, Any] | None = None, missing: Missing | None = None
    ) -> Streams:
        """Follow many live paths at once."""
        return Streams(self.live, saved, missing)

    @property
    def live(self) -> LiveRule:
        """The rule as live paths use it, with the threshold as it is now."""
        if self._live is None:
            self._live = live_rule(self.rule, self.time_unit, self.learnt_forecast)
        return self._live

    def explain(
        self, observation: Any, stream: Stream | None = None, time: Any | None = None
    ) -> Explanation:
        """Say what the margin of an observation is made of, by column.

        Args:
            observation: as for `stream.step`.
            stream: the live path it would be the next row of; a new path by default. It is not
                advanced.
            time: of the observation.
        """
        path = self.stream() if stream is None else stream
        path.copy().step(observation, time)  # refuses what cannot be judged
        columns = self.live.observations.row(observation)
        now = math.nan if time is None else as_time(time, self.time_unit)
        given = (columns[None], np.array([now]), path.carry[None])
        return explain(self.rule, *(torch.from_numpy(values) for values in given))

    def explain_row(self, path: Trajectory, row: int) -> Explanation:
        """Say what the margin of one row of a path of raw columns is made of."""
        assert path.times is not None
        stream = self.stream()
        for i in range(row):
            stream.step(path.states[i].astype(np.float64), path.times[i])
        return self.explain(path.states[row].astype(np.float64), stream, path.times[row])

    def export(self, file: str | Path, missing: Missing | None = None) -> Path:
        """Write the policy for other programs: .onnx, or .pt2 for torch.export.

        Args:
            file: to write.
            missing: as for `Stream`.
        """
        return export(self, Path(file), missing)
