"""DataModules of the simulated problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamodules.base import TrajectoryDataModule
from datamodules.declared import Splits
from datamodules.simulators import (
    BoundaryExit,
    ChangePoint,
    ChangeProblem,
    ExitProblem,
    Expert,
    Fatigue,
    GainProblem,
    GainStopping,
    Horizon,
    Satisficing,
    Simulator,
)
from lit_ios.regions import StoppingRegion
from lit_ios.sampling import split_paths
from lit_ios.trajectories import FloatArray, TrajectorySet


class SimulatedData(TrajectoryDataModule):
    """Paths drawn from a simulator whose expert is known.

    Args:
        simulator: process and expert.
        paths: training and validation paths together.
        test_paths: test paths.
        **kwargs: see TrajectoryDataModule.
    """

    def __init__(
        self, simulator: Simulator, paths: int = 175, test_paths: int = 75, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if paths < 2 or test_paths < 1:
            raise ValueError(
                f"paths must be at least 2 and test_paths at least 1, got {paths} and {test_paths}"
            )
        self.simulator, self.paths, self.test_paths = simulator, paths, test_paths

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the simulated features."""
        return self.simulator.feature_names

    @property
    def region(self) -> StoppingRegion | None:
        """The true stopping region, if there is one."""
        return self.simulator.region

    @property
    def grid_times(self) -> FloatArray:
        """Every time step up to the horizon, where there is one."""
        steps = getattr(self.simulator, "steps", None)
        return super().grid_times if steps is None else np.arange(steps + 1.0)

    def read_splits(self) -> Splits:
        """Simulate, then split by path."""
        known = self.simulator.simulate(self.paths, self.random(purpose=0))
        test = self.simulator.simulate(self.test_paths, self.random(purpose=1))
        shares = (1 - self.validation_share, self.validation_share)
        train, val = split_paths(known, shares, self.random(purpose=2))
        return Splits(train, val, test)


class GainStoppingData(SimulatedData):
    """Brownian motion stopped by an expert who maximises gains: bmG and bmgG.

    Args:
        problem: bmG has the stopping gain ‖s‖² alone, bmgG a continuation gain as well.
        expert: exact backward induction, Longstaff–Schwartz, or path by path in hindsight.
        gamma_expert: the expert's discount; null means 0.85 for bmG and 0.99 for bmgG.
        steps: time steps to the horizon.
        dt: length of a time step.
        dim: dimension of the motion.
        horizon: whether a path that gets there stops or is censored.
        **kwargs: see SimulatedData.
    """

    def __init__(
        self,
        *,
        problem: GainProblem = "bmG",
        expert: Expert = "backward_induction",
        gamma_expert: float | None = None,
        steps: int = 50,
        dt: float = 1 / 50,
        dim: int = 2,
        horizon: Horizon = "stop",
        paths: int = 175,
        test_paths: int = 75,
        **kwargs: Any,
    ) -> None:
        simulator = GainStopping(problem, expert, gamma_expert, steps, dt, dim, horizon)
        super().__init__(simulator, paths, test_paths, **kwargs)
        self.problem = self.name = problem


class BoundaryExitData(SimulatedData):
    """Brownian motion stopped on leaving a growing region: radial and star.

    Args:
        problem: a ball, or a five-pointed star.
        dim: dimension of the motion; the star needs 2.
        steps: index of the last point.
        dt: length of a time step.
        horizon: whether a path that gets there stops or is censored.
        **kwargs: see SimulatedData.
    """

    def __init__(
        self,
        *,
        problem: ExitProblem = "radial",
        dim: int = 2,
        steps: int = 49,
        dt: float = 1 / 50,
        horizon: Horizon = "stop",
        paths: int = 175,
        test_paths: int = 75,
        **kwargs: Any,
    ) -> None:
        simulator = BoundaryExit(problem, dim, steps, dt, horizon)
        super().__init__(simulator, paths, test_paths, **kwargs)
        self.problem = self.name = problem


class ChangePointData(SimulatedData):
    """A series whose law changes once; the expert stops at the second point after: CP1–CP3.

    Args:
        problem: the mean changes (CP1), the autoregression (CP2), or the variance (CP3).
        points: length of the series before its beginning is cut off.
        **kwargs: see SimulatedData.
    """

    def __init__(
        self,
        *,
        problem: ChangeProblem = "CP1",
        points: int = 51,
        paths: int = 175,
        test_paths: int = 75,
        **kwargs: Any,
    ) -> None:
        super().__init__(ChangePoint(problem, points), paths, test_paths, **kwargs)
        self.problem = self.name = problem


class FatigueData(SimulatedData):
    """A load that is seen wears a part out, and the damage is not seen.

    Args:
        exponent: how much more a heavy load wears than a light one.
        limit_spread: standard deviation of the logarithm of the damage at which a path is stopped.
        noise_features: features that are pure noise, beside the load.
        steps: number of rows of a path at the most; one that gets there is censored.
        **kwargs: see SimulatedData.
    """

    name = "fatigue"

    def __init__(
        self,
        *,
        exponent: float = 1.2,
        limit_spread: float = 0.0,
        noise_features: int = 0,
        steps: int = 200,
        paths: int = 175,
        test_paths: int = 75,
        **kwargs: Any,
    ) -> None:
        simulator = Fatigue(exponent, limit_spread, noise_features, steps)
        super().__init__(simulator, paths, test_paths, **kwargs)
        self._damage = simulator.damage

    def hidden(self, paths: TrajectorySet) -> tuple[str, FloatArray]:
        """Return the damage up to each row."""
        return "damage", self._damage(paths)


class SatisficingData(SimulatedData):
    """Brownian motion stopped by an expert to whom it matters what was gained so far: bmY.

    Args:
        target: total, of what was gained on the way and x², that satisfies the expert.
        cost: of a unit of time.
        steps: time steps to the horizon, where every path stops.
        dt: length of a time step.
        **kwargs: see SimulatedData.
    """

    name = "bmY"

    def __init__(
        self,
        *,
        target: float = 1.0,
        cost: float = 0.6,
        steps: int = 50,
        dt: float = 1 / 50,
        paths: int = 175,
        test_paths: int = 75,
        **kwargs: Any,
    ) -> None:
        super().__init__(Satisficing(target, cost, steps, dt), paths, test_paths, **kwargs)
