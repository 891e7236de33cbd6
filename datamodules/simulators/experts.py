"""Experts who stop a Brownian motion optimally when the gains depend on r = ‖s‖ alone.

    V_T = G,   V_t = max(G, C_t),   C_t(s) = g(s) + γ E[V_{t+1}(s')],   stop iff G(s) ≥ C_t(s)

By symmetry V_t is a function of r. The experts tabulate only the expected excess
E[D_{t+1}(s')], D = V − G ≥ 0: E[G(s')] = r² + dim·Δt is known, the excess is 0 where everybody
stops, and past the last radius of the table it can be held constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.polynomial import Polynomial

from datamodules.simulators.brownian import brownian_motion, first_stop
from datamodules.simulators.quadrature import inside_probability, locate, transition_matrix
from lit_ios.trajectories import FloatArray, IntArray

DISC = 1.0  # radius at which the continuation gain of bmgG jumps
GRID_SIZE = 1501
LSM_PATHS, LSM_DEGREE, LSM_SEED = 20_000, 6, 20_250_303


@dataclass(frozen=True)
class RadialGains:
    """G(r) = r² and g(r), of a Brownian motion in `dim` dimensions with time step `dt`."""

    problem: Literal["bmG", "bmgG"]
    dim: int
    dt: float

    def stop(self, radius: FloatArray) -> FloatArray:
        """G, the gain of stopping."""
        return radius**2

    def go_on(self, radius: FloatArray) -> FloatArray:
        """g, the gain of continuing one step: 0 (bmG), or good inside the disc, bad outside."""
        if self.problem == "bmG":
            return np.zeros_like(radius)
        return np.where(radius < DISC, 5.0, -400.0) * self.dt

    def expected_stop(self, radius: FloatArray) -> FloatArray:
        """E[G(s')], the expected gain of stopping one step later."""
        return radius**2 + self.dim * self.dt


@dataclass(frozen=True, eq=False)
class RadialRule:
    """An expert's rule: stop iff the margin G − C_t is at least 0.

    Args:
        gains: G and g.
        gamma: the expert's discount factor.
        radii: (M,) increasing.
        expected_excess: (T, M) E[V_{t+1}(s') − G(s')] at those radii, t = 0 … T − 1.
    """

    gains: RadialGains
    gamma: float
    radii: FloatArray
    expected_excess: FloatArray

    def continuation(self, radius: FloatArray, times: FloatArray) -> FloatArray:
        """C_t(r) = g + γ E[V_{t+1}]; from the horizon on, that of the step before it; (N,)."""
        step = np.clip(np.rint(times).astype(np.int64), 0, len(self.expected_excess) - 1)
        cell, weight = locate(self.radii, radius)
        table = self.expected_excess
        excess = (1 - weight) * table[step, cell] + weight * table[step, cell + 1]
        value = self.gains.expected_stop(radius) + excess
        return self.gains.go_on(radius) + self.gamma * value

    def margin(self, states: FloatArray, times: FloatArray) -> FloatArray:
        """G − C_t of each row; (N, D), (N,) → (N,)."""
        radius = np.linalg.norm(states, axis=-1)
        return self.gains.stop(radius) - self.continuation(radius, times)


def backward_induction(gains: RadialGains, gamma: float, steps: int) -> RadialRule:
    """Solve on a radial grid, expectations by Gauss–Hermite quadrature.

    The excess jumps at the disc when g does. Quadrature takes its continuous part; the height of
    the jump times the probability of landing inside is added.
    """
    radii = _radial_grid(gains, steps)
    transition = transition_matrix(radii, gains.dim, gains.dt)  # (M, M)
    landing = inside_probability(radii, DISC, gains.dim, gains.dt)  # (M,)
    inside, rim = radii < DISC, np.searchsorted(radii, DISC)
    advance = gains.go_on(radii) + gamma * gains.expected_stop(radii) - gains.stop(radii)
    excess = np.zeros_like(radii)
    expected = np.empty((steps, len(radii)))
    for t in reversed(range(steps)):
        jump = excess[rim - 1] - excess[rim]
        expected[t] = transition @ (excess - jump * inside) + jump * landing
        excess = np.maximum(advance + gamma * expected[t], 0.0)
    return RadialRule(gains, gamma, radii, expected)


def lsm(gains: RadialGains, gamma: float, steps: int) -> RadialRule:
    """Solve by Longstaff–Schwartz regression on paths of its own, drawn from a fixed seed.

    The realised excess is regressed on a polynomial in ‖s_t‖, so the cost does not grow with the
    number of dimensions. States rarer than 1 in 200 at their time take the value at that rim.
    """
    rng = np.random.default_rng(LSM_SEED)
    states = brownian_motion(rng, LSM_PATHS, steps, gains.dim, gains.dt)
    radius = np.linalg.norm(states, axis=-1)  # (P, T + 1)
    radii = _radial_grid(gains, steps)
    expected = np.zeros((steps, len(radii)))
    rule = RadialRule(gains, gamma, radii, expected)
    value = gains.stop(radius[:, steps])  # realised from t + 1 on; (P,)
    for t in reversed(range(steps)):
        excess, now = value - gains.stop(radius[:, t + 1]), radius[:, t]
        rim = np.quantile(now, 0.995)
        fit = Polynomial.fit(now, excess, LSM_DEGREE if rim > 0 else 0, domain=[0, rim or 1])
        expected[t] = np.maximum(fit(np.minimum(radii, rim)), 0.0)
        stop = gains.stop(now) >= rule.continuation(now, np.full_like(now, t))
        value = np.where(stop, gains.stop(now), gains.go_on(now) + gamma * value)
    return rule


def hindsight_stops(stop_gain: FloatArray, gain: FloatArray, gamma: float) -> IntArray:
    """Stop each path knowing its future: first t with G_t ≥ g_t + γ V_{t+1} on it.

    Args:
        stop_gain: (P, T) G along the paths.
        gain: (P, T) g along the paths.
        gamma: discount factor.
    """
    stops = np.ones(stop_gain.shape, dtype=np.bool_)
    value = stop_gain[:, -1]
    for t in reversed(range(stop_gain.shape[1] - 1)):
        go_on = gain[:, t] + gamma * value
        stops[:, t] = stop_gain[:, t] >= go_on
        value = np.maximum(stop_gain[:, t], go_on)
    return first_stop(stops)


def _radial_grid(gains: RadialGains, steps: int) -> FloatArray:
    """Radii out to where no path comes, with both sides of the jump of g; (M,)."""
    spread = np.sqrt(steps * gains.dt)
    radii = np.linspace(0.0, (np.sqrt(gains.dim) + 6.0) * spread, GRID_SIZE)
    return np.union1d(radii, [np.nextafter(DISC, 0.0), DISC])
