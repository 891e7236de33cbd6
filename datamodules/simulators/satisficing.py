"""bmY: a Brownian motion whose optimal stop depends on what was gained so far.

The expert earns g(x) = 5·1{x > 0}·Δt a step while continuing, x² on stopping, and is satisfied with
a total of `target`: with y_t = Σ_{k<t} g(x_k) the stop at t is worth

    U_t(x, y) = min(y + x², target) − cost · t · Δt

    V_T = U_T,   V_t(x, y) = max(U_t(x, y), C_t(x, y)),   C_t(x, y) = E[V_{t+1}(x′, y + g(x))]

So |x| must get the farther from 0 the less was gained before, and a path that has gained little and
lies low late is given up. y grows by a fixed amount or not at all: it is counted, and (x, y, t) is
solved exactly, but for functions of x that are linear between the points of a fine grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from datamodules.simulators.base import check_range
from datamodules.simulators.brownian import brownian_motion, cut_at_stop, first_stop
from datamodules.simulators.quadrature import NORMAL_CDF, locate
from lit_ios.trajectories import BoolArray, FloatArray, IntArray, TrajectorySet

RATE = 5.0  # gained in a unit of time above 0
GRID_SIZE, REACH = 600, 6.0  # points on each side of 0, standard deviations of the last row


@dataclass(frozen=True)
class Satisficing:
    """A Brownian motion in one dimension, stopped by an expert who is satisfied with a total.

    Args:
        target: total that satisfies.
        cost: of a unit of time.
        steps: number of time steps; a path has at most one row more, and stops there.
        dt: length of a time step.
    """

    target: float = 1.0
    cost: float = 0.6
    steps: int = 50
    dt: float = 1 / 50

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_range("target", self.target, 0)
        check_range("cost", self.cost, 0)
        check_range("steps", self.steps, 1)
        check_range("dt", self.dt, np.finfo(np.float64).tiny)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The motion; what was gained is not observed."""
        return ("x",)

    @property
    def region(self) -> None:
        """None: the rule needs the history."""
        return None

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw stopped paths."""
        x = brownian_motion(rng, paths, self.steps, 1, self.dt)[..., 0]  # (P, T + 1)
        above = x > 0
        count: IntArray = np.cumsum(above, axis=1) - above  # rows above 0 before this one
        times = np.broadcast_to(np.arange(self.steps + 1.0), x.shape)
        margin = self.margin(x.ravel(), count.ravel(), times.ravel()).reshape(x.shape)
        return cut_at_stop(x[:, :, None], first_stop(margin >= 0), self.feature_names)

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """U − C of each row, knowing what its path has gained; (N,)."""
        return self.margin(paths.states[:, 0], rows_above(paths), paths.times)

    def gained(self, paths: TrajectorySet) -> FloatArray:
        """Return y, what a path has gained before each row; (N,)."""
        return RATE * self.dt * rows_above(paths)

    def margin(self, x: FloatArray, count: IntArray, times: FloatArray) -> FloatArray:
        """U_t − C_t: stop iff it is at least 0; (N,) each.

        Args:
            x: the motion.
            count: rows above 0 before this one.
            times: time index.
        """
        step = np.clip(np.rint(times).astype(np.int64), 0, self.steps)
        now = np.minimum(count, self.enough)
        later = np.minimum(now + (x > 0), self.enough)
        cell, weight = locate(self.grid, x)
        tables = np.append(self.expected, np.full((1, *self.expected.shape[1:]), -np.inf), axis=0)
        value = (1 - weight) * tables[step, later, cell]
        with np.errstate(invalid="ignore"):
            value = value + weight * tables[step, later, cell + 1]
        value = np.where(step == self.steps, -np.inf, value)  # at the horizon every path stops
        return np.asarray(self._stop_value(x, now, step) - value)

    @property
    def enough(self) -> int:
        """Rows above 0 after which the target is reached whatever x is."""
        return math.ceil(self.target / (RATE * self.dt) - 1e-9)

    @cached_property
    def grid(self) -> FloatArray:
        """Values of x, with both sides of the jump of g at 0; (M,)."""
        reach = REACH * math.sqrt(self.steps * self.dt)
        above = np.linspace(0, reach, GRID_SIZE + 1)[1:]
        return np.concatenate([-above[::-1], [0.0, np.nextafter(0.0, 1.0)], above])

    @cached_property
    def expected(self) -> FloatArray:
        """E[V_{t+1}(x′, y)] at the grid, for what is gained after the row; (T, counts, M)."""
        grid, counts = self.grid, np.arange(self.enough + 1)
        transition = gaussian_transition(grid, math.sqrt(self.dt))
        later = np.minimum(counts[:, None] + (grid > 0), self.enough)  # (counts, M)
        expected = np.empty((self.steps, len(counts), len(grid)))
        value = self._stop_value(grid, counts[:, None], self.steps)  # (counts, M)
        for t in reversed(range(self.steps)):
            expected[t] = value @ transition.T
            go_on = np.take_along_axis(expected[t], later, axis=0)
            value = np.maximum(self._stop_value(grid, counts[:, None], t), go_on)
        return expected

    def _stop_value(self, x: FloatArray, count: IntArray, step: IntArray | int) -> FloatArray:
        total = RATE * self.dt * count + x**2
        return np.minimum(total, self.target) - self.cost * self.dt * np.asarray(step)


def rows_above(paths: TrajectorySet) -> IntArray:
    """Count the rows of its path above 0 before each row; (N,)."""
    above: BoolArray = paths.states[:, 0] > 0
    before: IntArray = np.cumsum(above) - above
    return np.asarray(before - np.repeat(before[paths.offsets[:-1]], paths.lengths))


def gaussian_transition(grid: FloatArray, deviation: float) -> FloatArray:
    """Return W with (W f)(x) = E[f(x + deviation·Z)], exact for f linear between grid points.

    f is constant beyond the grid. Over [a, b], ∫ (u − a) φ = (x − a)·P + deviation·(φ(α) − φ(β)).

    Args:
        grid: (M,) increasing; two neighbours may be as close as numbers are, for a jump.
        deviation: of a step.
    """
    scaled = (grid - grid[:, None]) / deviation  # (M from, M to)
    cdf = NORMAL_CDF(scaled)
    density = np.exp(-0.5 * scaled**2) / math.sqrt(2 * math.pi)
    mass = np.diff(cdf, axis=1)  # (M, M − 1) between neighbours
    moment = (grid[:, None] - grid[:-1]) * mass - deviation * np.diff(density, axis=1)
    width = np.diff(grid)
    wide = width > 1e-12
    upper = np.where(wide, moment / np.where(wide, width, 1.0), 0.0)  # weight of the right end
    matrix = np.zeros((len(grid), len(grid)))
    matrix[:, :-1] += mass - upper
    matrix[:, 1:] += upper
    matrix[:, 0] += cdf[:, 0]
    matrix[:, -1] += 1 - cdf[:, -1]
    return matrix
