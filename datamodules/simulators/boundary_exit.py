"""radial and star: a Brownian motion stopped on leaving a shape that grows with time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from datamodules.simulators.base import Horizon, MarginRegion, check_range
from datamodules.simulators.brownian import (
    apply_horizon,
    brownian_motion,
    coordinate_names,
    cut_at_stop,
    stop_by_margin,
)
from lit_ios.checks import check_choice
from lit_ios.trajectories import FloatArray, TrajectorySet

TIPS, INNER, ROTATION = 5, 0.5, 0.32  # of the star; inner radius as a share of the outer one


ExitProblem = Literal["radial", "star"]


@dataclass(frozen=True)
class BoundaryExit:
    """A Brownian motion from 0, stopped when it leaves a shape of radius 0.5 + 0.05 t.

    Args:
        problem: radial: a ball; star: a star of five tips in the plane, its inner radius half of
            the outer one, rotated by 0.32 rad.
        dim: number of dimensions; a star needs 2.
        steps: number of time steps t; a path has at most one row more.
        dt: length of a time step.
        horizon: what happens at the last step to a path still inside. stop: the expert stops
            there; censor: the path is censored there.
    """

    problem: ExitProblem
    dim: int = 2
    steps: int = 49
    dt: float = 1 / 50
    horizon: Horizon = "stop"

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_choice("problem", self.problem, ExitProblem)
        check_choice("horizon", self.horizon, Horizon)
        check_range("dim", self.dim, 1)
        check_range("steps", self.steps, 1)
        check_range("dt", self.dt, np.finfo(np.float64).tiny)
        if self.problem == "star" and self.dim != 2:
            raise ValueError(f"dim must be 2 for problem 'star'; got {self.dim}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per coordinate: x0, x1 and so on."""
        return coordinate_names(self.dim)

    @property
    def region(self) -> MarginRegion:
        """The outside of the shape; everything at the horizon unless it censors."""
        return MarginRegion(self._margin, self.dim)

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw stopped paths."""
        states = brownian_motion(rng, paths, self.steps, self.dim, self.dt)
        return cut_at_stop(states, stop_by_margin(states, self._margin), self.feature_names)

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """Distance past the edge, negative inside; at the horizon at least 0; (N,)."""
        return self._margin(paths.states, paths.times)

    def _margin(self, states: FloatArray, times: FloatArray) -> FloatArray:
        outside = radial_margin if self.problem == "radial" else star_margin
        margin = outside(states, outer_radius(times))
        return apply_horizon(margin, times, self.steps, self.horizon)


def outer_radius(times: FloatArray) -> FloatArray:
    """Radius of the ball, and of the star's tips, at time index t."""
    return 0.5 + 0.05 * times


def radial_margin(states: FloatArray, radius: FloatArray) -> FloatArray:
    """Distance past the sphere, negative inside; (N, D), (N,) → (N,)."""
    return np.asarray(np.linalg.norm(states, axis=-1) - radius)


def star_margin(states: FloatArray, radius: FloatArray) -> FloatArray:
    """Distance past the star's edge, negative inside; (N, 2), (N,) → (N,).

    Rotations and reflections fold the star onto the half of one tip: the wedge of angles
    0 (tip) … π/5 (notch). Its one edge runs from (1, 0) to the notch, times the radius.
    """
    wedge = np.pi / TIPS
    angle = np.arctan2(states[:, 1], states[:, 0]) - ROTATION
    folded = np.abs((angle + wedge) % (2 * wedge) - wedge)  # (N,)
    notch_x, notch_y = INNER * np.cos(wedge), INNER * np.sin(wedge)
    normal = np.array([notch_y, 1 - notch_x]) / np.hypot(notch_y, 1 - notch_x)
    norm = np.linalg.norm(states, axis=-1)
    along = normal[0] * np.cos(folded) + normal[1] * np.sin(folded)
    return np.asarray(norm * along - radius * normal[0])
