"""bmG and bmgG: a Brownian motion stopped optimally for given gains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from datamodules.simulators.base import Horizon, MarginRegion, check_range
from datamodules.simulators.brownian import (
    NEVER,
    apply_horizon,
    brownian_motion,
    coordinate_names,
    cut_at_stop,
    stop_by_margin,
)
from datamodules.simulators.experts import (
    RadialGains,
    RadialRule,
    backward_induction,
    hindsight_stops,
    lsm,
)
from lit_ios.checks import check_choice
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

GAMMA_EXPERT = {"bmG": 0.85, "bmgG": 0.99}


GainProblem = Literal["bmG", "bmgG"]
Expert = Literal["backward_induction", "lsm", "hindsight"]


@dataclass(frozen=True)
class GainStopping:
    """A Brownian motion from 0, stopped by an expert who maximises discounted gains.

    Args:
        problem: bmG: stopping gain ‖s‖² alone; bmgG: also a continuation gain, 5·Δt inside the
            unit ball and −400·Δt outside.
        expert: backward_induction: optimal, exact; lsm: optimal up to a Longstaff–Schwartz
            regression; hindsight: path by path, knowing the future (no region, no oracle).
        gamma_expert: the expert's discount factor; left out, 0.85 for bmG and 0.99 for bmgG.
        steps: number of time steps; a path has at most one row more.
        dt: length of a time step.
        dim: number of dimensions.
        horizon: what happens at the last step. stop: the expert stops there; censor: the path is
            censored there, unless it is in the stopping region of the step before.
    """

    problem: GainProblem
    expert: Expert = "backward_induction"
    gamma_expert: float | None = None
    steps: int = 50
    dt: float = 1 / 50
    dim: int = 2
    horizon: Horizon = "stop"

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_choice("problem", self.problem, GainProblem)
        check_choice("expert", self.expert, Expert)
        check_choice("horizon", self.horizon, Horizon)
        check_range("gamma_expert", self.gamma, 0, 1)
        check_range("steps", self.steps, 1)
        check_range("dt", self.dt, np.finfo(np.float64).tiny)
        check_range("dim", self.dim, 1)

    @property
    def gamma(self) -> float:
        """The expert's discount factor, with the problem's default filled in."""
        return GAMMA_EXPERT[self.problem] if self.gamma_expert is None else self.gamma_expert

    @property
    def gains(self) -> RadialGains:
        """The gains G and g the expert maximises."""
        return RadialGains(self.problem, self.dim, self.dt)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per coordinate: x0, x1 and so on."""
        return coordinate_names(self.dim)

    @cached_property
    def rule(self) -> RadialRule:
        """The expert's rule before the horizon, solved at first use."""
        if self.expert == "hindsight":
            raise ValueError(
                "expert 'hindsight' looks at the future and has no rule in the state; "
                "choose 'backward_induction' or 'lsm'"
            )
        solve = backward_induction if self.expert == "backward_induction" else lsm
        return solve(self.gains, self.gamma, self.steps)

    @property
    def region(self) -> MarginRegion | None:
        """Where the expert stops; none for `hindsight`."""
        return None if self.expert == "hindsight" else MarginRegion(self._margin, self.dim)

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw stopped paths."""
        states = brownian_motion(rng, paths, self.steps, self.dim, self.dt)
        if self.expert == "hindsight":
            stop = self._hindsight(states)
        else:
            stop = stop_by_margin(states, self._margin)
        return cut_at_stop(states, stop, self.feature_names)

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """G − C_t of each row, the gain of stopping over that of continuing; (N,)."""
        return self._margin(paths.states, paths.times)

    def _margin(self, states: FloatArray, times: FloatArray) -> FloatArray:
        return apply_horizon(self.rule.margin(states, times), times, self.steps, self.horizon)

    def _hindsight(self, states: FloatArray) -> IntArray:
        radius = np.linalg.norm(states, axis=-1)  # (P, T)
        stop = hindsight_stops(self.gains.stop(radius), self.gains.go_on(radius), self.gamma)
        return np.where((stop == self.steps) & (self.horizon == "censor"), NEVER, stop)
