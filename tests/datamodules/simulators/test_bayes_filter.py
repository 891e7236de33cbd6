from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from datamodules.simulators import ChangePoint
from datamodules.simulators.bayes_filter import best_threshold
from lit_ios.trajectories import Trajectory, TrajectorySet

PROBLEMS = ["CP1", "CP2", "CP3"]
LIMITS = {"CP1": 0.996, "CP2": 0.801, "CP3": 0.913}  # SPEC, section 6


@cache
def full_length(problem: str) -> ChangePoint:
    return ChangePoint(problem)  # shared, so that each threshold is found once


def density(problem: str, changed: bool, t: int, x: float, past: tuple[float, float]) -> float:
    mean, deviation, lags = 0.5, 1.0, (0.0, 0.0)
    if problem == "CP1":
        mean = 5.0 if changed else 0.5
    elif problem == "CP2":
        lags = (0.75, 0.5) if changed else (0.25, 0.05)
    else:
        deviation = 5.0 if changed else 1.0
    return norm.pdf(x, np.sin(t) + lags[0] * past[0] + lags[1] * past[1] + mean, deviation)


def enumerated(problem: str, path: Trajectory, row: int, starts: range, changes: range) -> float:
    """P(c + 1 is reached | rows up to `row`) by writing out the likelihood of each (b, c)."""
    x = path.states[:, 0]
    stopped, total = 0.0, 0.0
    for start in starts:
        for c in changes:
            likelihood = 1.0
            for k in range(2 if problem == "CP2" else 0, row + 1):
                past = (x[k - 1], x[k - 2]) if problem == "CP2" else (0.0, 0.0)
                likelihood *= density(problem, start + k >= c, start + k, x[k], past)
            total += likelihood
            stopped += likelihood * (c + 1 <= start + row)
    return stopped / total


@pytest.mark.parametrize("problem", PROBLEMS)
def test_filter_equals_enumeration_of_starts_and_change_points(problem):
    simulator = ChangePoint(problem, points=20)
    paths = simulator.simulate(5, np.random.default_rng(0))
    scores = simulator.oracle(paths) + simulator.threshold
    for i, path in enumerate(paths):
        for row in range(len(path)):
            exact = enumerated(problem, path, row, range(11), range(14, 19))
            assert scores[paths.offsets[i] + row] == pytest.approx(exact, abs=1e-9)


def test_filter_does_not_look_at_the_clock():
    simulator = full_length("CP1")
    paths = simulator.simulate(20, np.random.default_rng(1))
    moved = TrajectorySet(
        paths.states, paths.times + 1000, paths.offsets, paths.stopped, paths.names
    )
    np.testing.assert_array_equal(simulator.oracle(paths), simulator.oracle(moved))


def test_cp2_rows_without_their_two_predecessors_leave_the_prior_as_it_is():
    rows = Trajectory(np.array([[9.0], [-9.0], [9.0]]))
    simulator = full_length("CP2")
    scores = simulator.oracle(TrajectorySet.from_paths([rows])) + simulator.threshold
    np.testing.assert_allclose(scores[:2], 0.0)  # nobody has stopped by row 26 of 51
    assert scores[2] == pytest.approx(0.0)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_oracle_reaches_the_limit_of_the_process(problem, balanced_accuracy):
    simulator = full_length(problem)
    paths = simulator.simulate(4000, np.random.default_rng(99))
    assert balanced_accuracy(paths, simulator.oracle(paths)) == pytest.approx(
        LIMITS[problem], abs=0.01
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_another_threshold_is_no_better(problem, balanced_accuracy):
    simulator = full_length(problem)
    paths = simulator.simulate(1000, np.random.default_rng(98))
    scores = simulator.oracle(paths)
    best = balanced_accuracy(paths, scores)
    for factor in (0.02, 0.2, 5, 20):
        moved = scores + simulator.threshold * (1 - factor)
        assert balanced_accuracy(paths, moved) < best + 0.002


def test_best_threshold_is_the_best_of_all_in_a_loop(balanced_accuracy):
    paths = ChangePoint("CP1").simulate(12, np.random.default_rng(3))
    paths = TrajectorySet(
        paths.states, paths.times, paths.offsets, np.arange(12) % 4 > 0, paths.names
    )  # three of them censored
    scores = np.random.default_rng(4).integers(0, 40, len(paths.states)) / 40
    scores[paths.last_rows] += 0.6
    loop = max(balanced_accuracy(paths, scores - b) for b in np.unique(scores))
    assert balanced_accuracy(paths, scores - best_threshold(scores, paths)) == loop
