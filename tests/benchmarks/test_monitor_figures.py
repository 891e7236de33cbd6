"""What is measured of the monitor."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import monitor
from datamodules import BoundaryExitData
from lit_ios.live.path_scores import PathScores


@pytest.mark.parametrize(("level", "streams"), [(0.01, 200), (0.1, 200), (0.3, 7)])
def test_allowed_alarms_are_a_quantile_of_the_binomial_law(level, streams):
    assert monitor.allowed(level, streams) == binom.ppf(0.975, streams, level)


def test_shifted_paths_differ_by_standard_deviations_of_their_features():
    simulator = BoundaryExitData(problem="radial", horizon="censor", seed=0).simulator
    paths = simulator.simulate(50, np.random.default_rng(0))
    moved = monitor.shifted(paths, 2.0)
    expected = paths.states.astype(float) + 2 * paths.states.std(axis=0)
    np.testing.assert_allclose(moved.states, expected, rtol=1e-5, atol=1e-5)
    assert moved.names == paths.names


def test_delay_counts_shifted_paths_only():
    """Margins that are all larger than any before: bets win alike in all streams."""
    rng = np.random.default_rng(1)
    same = PathScores(rng.random(400).tolist(), rng.random(400).tolist(), [True] * 400)
    others = same._replace(margin=(2 + rng.random(400)).tolist())
    found = monitor.delay(same, others, before=100, streams=5, length=50)
    assert found["found"] == 1
    assert 3 <= found["10%"] <= found["median"] <= found["90%"] <= 20
    assert found["by"] == {"margin": 5 - found["alarms_before_the_shift"], "distance": 0}


def test_ranks_among_few_fixed_values_alarm_more_often_than_stated_and_online_ranks_do_not():
    found = monitor.unchanged_normal(0.05, streams=60, length=400, calibration=20)
    assert found["alarms"]["all"] <= found["allowed"] < found["alarms"]["calibration alone"]
