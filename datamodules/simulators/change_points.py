"""CP1, CP2, CP3: a noisy sine whose law changes once; the expert stops just after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from datamodules.simulators.base import check_range
from datamodules.simulators.bayes_filter import Law, best_threshold, stopped_probability
from datamodules.simulators.brownian import cut_at_stop
from lit_ios.checks import check_choice
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

CALIBRATION_PATHS, CALIBRATION_SEED = 20_000, 20_250_303


LAWS = {  # before and after the change
    "CP1": (Law(mean=0.5), Law(mean=5.0)),
    "CP2": (Law(lag1=0.25, lag2=0.05), Law(lag1=0.75, lag2=0.5)),
    "CP3": (Law(deviation=1.0), Law(deviation=5.0)),
}


ChangeProblem = Literal["CP1", "CP2", "CP3"]


@dataclass(frozen=True)
class ChangePoint:
    """A noisy sine whose law changes late in the path; the expert stops one point later.

    The change index is uniform on the integers between 70 % and 90 % of the number of points (36
    … 45 of 51); observation starts uniformly in the first half (0 … 25). The law after the change
    holds from the change index on, and the expert stops at the second such point.

    Args:
        problem: what changes. CP1: the mean of the noise, 0.5 to 5; CP2: the autoregressive
            coefficients, (0.25, 0.05) to (0.75, 0.5); CP3: its standard deviation, 1 to 5.
        points: number of points of a whole path, before the cuts at either end.
    """

    problem: ChangeProblem
    points: int = 51

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_choice("problem", self.problem, ChangeProblem)
        check_range("points", self.points, 12)  # fewer: no room for two post-change points

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The one feature, x."""
        return ("x",)

    @property
    def region(self) -> None:
        """None: the rule needs the history."""
        return None

    @property
    def changes(self) -> IntArray:
        """The possible change indices c, all equally likely; (C,)."""
        return np.arange(-(-7 * self.points // 10), 9 * self.points // 10 + 1)  # ⌈0.7⌉ … ⌊0.9⌋

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw paths from a random first observation to the stop at c + 1."""
        check_range("paths", paths, 1)
        change = rng.choice(self.changes, size=paths)
        start = rng.integers(0, self.points // 2, size=paths, endpoint=True)
        x = self._values(rng.standard_normal((paths, self.points)), change)
        return cut_at_stop(x[:, :, None], change + 1, self.feature_names, start)

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """P(c + 1 is reached | the path's rows so far) less the best threshold; (N,)."""
        return self._stopped_probability(paths) - self.threshold

    @property
    def threshold(self) -> float:
        """The probability at which stopping scores best on paths of its own, fixed seed."""
        return _threshold(self)

    def _values(self, noise: FloatArray, change: IntArray) -> FloatArray:
        """Run the recursion from x_{−1} = x_{−2} = 0 on; (P, T), (P,) → (P, T)."""
        laws = np.array(LAWS[self.problem])  # (2, 4)
        x = np.zeros((len(noise), self.points + 2))  # two zeros in front
        for t in range(self.points):
            mean, deviation, lag1, lag2 = laws[(t >= change).astype(np.int64)].T
            lags = lag1 * x[:, t + 1] + lag2 * x[:, t]
            x[:, t + 2] = np.sin(t) + lags + mean + deviation * noise[:, t]
        return x[:, 2:]

    def _stopped_probability(self, paths: TrajectorySet) -> FloatArray:
        starts = np.arange(self.points // 2 + 1)
        return stopped_probability(paths, *LAWS[self.problem], starts, self.changes)


@cache
def _threshold(simulator: ChangePoint) -> float:
    paths = simulator.simulate(CALIBRATION_PATHS, np.random.default_rng(CALIBRATION_SEED))
    return best_threshold(simulator._stopped_probability(paths), paths)
