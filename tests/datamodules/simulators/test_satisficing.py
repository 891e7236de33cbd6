"""bmY against other solvers: a random walk of small steps, simulation, limiting cases."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from datamodules.simulators import Satisficing
from datamodules.simulators.bayes_filter import best_threshold
from datamodules.simulators.satisficing import gaussian_transition, rows_above

SIMULATOR = Satisficing()


def histogram_solver(simulator, width=0.02, reach=4.0):
    """Solve by sums over cells of equal width, with the probability of each; a dictionary by n.

    Independent of the solver under test: cells instead of linear functions, values at their
    middles, 0 at the border between two cells.
    """
    middles = np.arange(-reach + width / 2, reach, width)
    edges = np.append(middles - width / 2, middles[-1] + width / 2)
    deviation = math.sqrt(simulator.dt)
    mass = np.diff(norm.cdf((edges - middles[:, None]) / deviation), axis=1)
    gain, most = 5 * simulator.dt, simulator.enough

    def stop_value(count, t):
        return np.minimum(gain * count + middles**2, simulator.target) - (
            simulator.cost * simulator.dt * t
        )

    value = {n: stop_value(n, simulator.steps) for n in range(most + 1)}
    margins = []
    for t in reversed(range(simulator.steps)):
        ahead = {n: mass @ value[n] for n in value}
        now, margin = {}, {}
        for n in value:
            later = np.where(middles > 0, ahead[min(n + 1, most)], ahead[n])
            now[n] = np.maximum(stop_value(n, t), later)
            margin[n] = stop_value(n, t) - later
        value = now
        margins.append(margin)
    return middles, margins[::-1]


def test_margins_are_those_of_a_solver_by_cells():
    middles, margins = histogram_solver(SIMULATOR)
    inside = np.abs(middles) < 2.5
    for t in (0, 10, 25, 40, 49):
        for n in (0, 3, 9, 10):
            times, counts = np.full(len(middles), float(t)), np.full(len(middles), n)
            found = SIMULATOR.margin(middles, counts, times)
            assert np.abs(found - margins[t][n])[inside].max() < 0.004, (t, n)


def test_expectation_is_exact_for_piecewise_linear_functions_and_jumps():
    grid = np.concatenate([np.linspace(-3, 0, 31), [np.nextafter(0, 1)], np.linspace(0, 3, 31)[1:]])
    step = np.where(grid > 0, 1.0, 0.0)
    line = np.abs(grid)
    matrix = gaussian_transition(grid, 0.2)
    inside = np.abs(grid) < 1.5
    np.testing.assert_allclose((matrix @ step)[inside], norm.cdf(grid[inside] / 0.2), atol=1e-9)
    folded = 0.2 * math.sqrt(2 / math.pi) * np.exp(-0.5 * (grid / 0.2) ** 2) + grid * (
        1 - 2 * norm.cdf(-grid / 0.2)
    )
    np.testing.assert_allclose((matrix @ line)[inside], folded[inside], atol=1e-9)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


def outcome(simulator, paths):
    """Return what the expert got out of each path."""
    x, tau = paths.states[paths.last_rows, 0], paths.times[paths.last_rows]
    total = simulator.gained(paths)[paths.last_rows] + x**2
    return np.minimum(total, simulator.target) - simulator.cost * simulator.dt * tau


def test_mean_outcome_of_simulated_paths_is_the_value_at_the_start():
    paths = SIMULATOR.simulate(40_000, np.random.default_rng(0))
    found = outcome(SIMULATOR, paths)
    value = -SIMULATOR.margin(np.zeros(1), np.zeros(1, dtype=int), np.zeros(1))[0]  # U = 0 there
    assert abs(found.mean() - value) < 4 * found.std() / math.sqrt(len(found)) + 1e-3


@pytest.mark.parametrize("shift", [-0.05, 0.05])
def test_another_rule_earns_less(shift):
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.normal(0, math.sqrt(0.02), (20_000, 50)), axis=1)
    x = np.concatenate([np.zeros((20_000, 1)), x], axis=1)
    above = x > 0
    count = np.cumsum(above, axis=1) - above
    times = np.broadcast_to(np.arange(51.0), x.shape)
    margin = SIMULATOR.margin(x.ravel(), count.ravel(), times.ravel()).reshape(x.shape)
    earned = []
    for b in (0.0, shift):
        stop = margin >= b
        stop[:, -1] = True
        tau, rows = stop.argmax(axis=1), np.arange(len(x))
        total = np.minimum(0.1 * count[rows, tau] + x[rows, tau] ** 2, 1.0)
        earned.append(total - 0.6 * 0.02 * tau)
    difference = earned[0] - earned[1]
    assert difference.mean() > 3 * difference.std() / math.sqrt(len(difference))


def test_who_is_satisfied_stops_and_without_cost_nobody_gives_up():
    satisfied = SIMULATOR.margin(np.array([0.3, -1.2]), np.array([10, 0]), np.array([12.0, 3.0]))
    assert (satisfied > 0).all()
    free = Satisficing(cost=0.0)
    x, times = np.linspace(-0.9, 0.9, 19), np.full(19, 30.0)
    assert (free.margin(x, np.zeros(19, dtype=int), times) <= 1e-12).all()


def test_every_path_stops_at_the_horizon():
    paths = SIMULATOR.simulate(2000, np.random.default_rng(2))
    assert paths.stopped.all()
    assert paths.lengths.max() == 51


def test_what_was_gained_counts_the_rows_above_zero_before():
    paths = SIMULATOR.simulate(50, np.random.default_rng(3))
    loop = [sum(x > 0 for x in path.states[:t, 0]) for path in paths for t in range(len(path))]
    np.testing.assert_array_equal(rows_above(paths), loop)


def test_oracle_is_always_right_and_the_clock_is_not(balanced_accuracy):
    paths = SIMULATOR.simulate(1000, np.random.default_rng(4))
    assert balanced_accuracy(paths, SIMULATOR.oracle(paths)) == 1.0
    clock = paths.times - best_threshold(paths.times, paths)
    assert balanced_accuracy(paths, clock) < 0.72


def test_the_same_place_and_time_is_a_stop_or_not_by_what_was_gained():
    place, time = np.full(2, 0.6), np.full(2, 20.0)
    stop = SIMULATOR.margin(place, np.array([2, 8]), time) >= 0
    assert stop.tolist() == [False, True]
