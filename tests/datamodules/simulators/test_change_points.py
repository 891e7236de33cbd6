from functools import cache

import numpy as np
import pytest

from datamodules.simulators import ChangePoint
from lit_ios.trajectories import TrajectorySet

PROBLEMS = ["CP1", "CP2", "CP3"]
PATHS = 6000


@cache
def simulated(problem: str) -> TrajectorySet:
    return ChangePoint(problem).simulate(PATHS, np.random.default_rng(0))


def after_change(paths: TrajectorySet) -> np.ndarray:
    """The rows c and c + 1, which are each path's last two."""
    mask = np.zeros(len(paths.states), dtype=bool)
    mask[paths.last_rows] = mask[paths.last_rows - 1] = True
    return mask


@pytest.mark.parametrize("problem", PROBLEMS)
def test_stops_are_one_point_after_a_change_uniform_on_36_to_45(problem):
    paths = simulated(problem)
    changes, counts = np.unique(paths.times[paths.last_rows] - 1, return_counts=True)
    assert changes.tolist() == [c for c in range(51) if 0.7 * 51 <= c <= 0.9 * 51]
    np.testing.assert_allclose(counts / PATHS, 0.1, atol=0.02)
    assert paths.stopped.all()


def test_observation_starts_uniformly_in_the_first_half():
    paths = simulated("CP1")
    starts, counts = np.unique(paths.times[paths.offsets[:-1]], return_counts=True)
    assert starts.tolist() == list(range(26))
    np.testing.assert_allclose(counts / PATHS, 1 / 26, atol=0.01)


def test_start_and_change_are_independent():
    paths = simulated("CP1")
    starts, stops = paths.times[paths.offsets[:-1]], paths.times[paths.last_rows]
    assert abs(np.corrcoef(starts, stops)[0, 1]) < 4 / np.sqrt(PATHS)


@pytest.mark.parametrize(
    ("problem", "before", "after"),
    [("CP1", (0.5, 1.0), (5.0, 1.0)), ("CP3", (0.5, 1.0), (0.5, 5.0))],
)
def test_noise_around_the_sine_has_the_mean_and_deviation_of_its_side(problem, before, after):
    paths = simulated(problem)
    noise = paths.states[:, 0] - np.sin(paths.times)
    late = after_change(paths)
    for rows, (mean, deviation) in ((~late, before), (late, after)):
        error = deviation / np.sqrt(rows.sum())
        assert abs(noise[rows].mean() - mean) < 4 * error
        assert abs(noise[rows].std() - deviation) < 4 * error


def test_cp2_regression_on_its_two_lags_finds_the_coefficients_of_each_side():
    paths = simulated("CP2")
    x, late = paths.states[:, 0], after_change(paths)
    rows = np.flatnonzero(paths.steps >= 2)
    design = np.stack([x[rows - 1], x[rows - 2], np.ones(len(rows))], axis=1)
    target = x[rows] - np.sin(paths.times[rows])
    for side, coefficients in ((~late, [0.25, 0.05, 0.5]), (late, [0.75, 0.5, 0.5])):
        on = side[rows]
        fit, residual, *_ = np.linalg.lstsq(design[on], target[on], rcond=None)
        np.testing.assert_allclose(fit, coefficients, atol=0.05)
        np.testing.assert_allclose(residual[0] / on.sum(), 1, atol=0.05)


def test_cp2_recursion_runs_from_index_zero_before_the_observation():
    paths = simulated("CP2")
    mean, variance = [0.0, 0.0], np.zeros((2, 2))  # of x_{−2}, x_{−1}; covariance of (x_t, x_{t−1})
    step = np.array([[0.25, 0.05], [1.0, 0.0]])
    first = paths.offsets[:-1]
    for t in range(26):
        mean.append(np.sin(t) + 0.25 * mean[-1] + 0.05 * mean[-2] + 0.5)
        variance = step @ variance @ step.T + np.diag([1.0, 0.0])
        start = paths.states[first[paths.times[first] == t], 0]
        assert abs(start.mean() - mean[-1]) < 4 * np.sqrt(variance[0, 0] / len(start))


@pytest.mark.parametrize("points", [12, 20, 31])
def test_any_number_of_points_leaves_room_for_the_stop(points):
    simulator = ChangePoint("CP1", points=points)
    paths = simulator.simulate(500, np.random.default_rng(0))
    assert paths.times.max() <= points - 1
    assert (paths.lengths >= 3).all()
    assert np.isfinite(simulator.oracle(paths)).all()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="problem must be one of CP1, CP2, CP3; got 'CP4'"):
        ChangePoint("CP4")
    with pytest.raises(ValueError, match="points must be at least"):
        ChangePoint("CP1", points=5)
