"""fatigue against a loop over its rows."""

import math

import numpy as np
import pytest

from datamodules.simulators import Fatigue


def naive_damage(load, exponent):
    return [sum(math.exp(exponent * x) / 40 for x in load[: t + 1]) for t in range(len(load))]


@pytest.mark.parametrize("exponent", [1.2, 0.5])
def test_paths_end_at_the_row_where_the_damage_reaches_one(exponent):
    simulator = Fatigue(exponent)
    paths = simulator.simulate(60, np.random.default_rng(0))
    for path in paths:
        damage = naive_damage(path.states[:, 0], exponent)
        assert all(d < 1 for d in damage[:-1])
        assert (damage[-1] >= 1) == path.stopped
        assert path.stopped or len(path) == 200


def test_damage_is_that_of_the_loop():
    simulator = Fatigue()
    paths = simulator.simulate(20, np.random.default_rng(1))
    loops = np.concatenate([naive_damage(path.states[:, 0], 1.2) for path in paths])
    np.testing.assert_allclose(simulator.damage(paths), loops, rtol=1e-9)


def test_oracle_is_always_right(balanced_accuracy):
    simulator = Fatigue()
    paths = simulator.simulate(300, np.random.default_rng(2))
    assert balanced_accuracy(paths, simulator.oracle(paths)) == 1.0


def test_load_is_the_stationary_process_of_its_law():
    """μ + AR(1): the variance over paths is 0.6² + 0.5²/(1 − 0.8²) once it has settled."""
    simulator = Fatigue(exponent=0.0, steps=39)  # damage t/40: nobody stops before the end
    paths = simulator.simulate(4000, np.random.default_rng(3))
    load = paths.states[:, 0].reshape(4000, 39)
    expected = 0.6**2 + 0.5**2 / (1 - 0.8**2)
    assert load[:, -1].var() == pytest.approx(expected, rel=0.08)
    assert load[:, 0].var() == pytest.approx(0.6**2 + 0.5**2, rel=0.08)
    within = load - load.mean(axis=0)
    change = (within[:, 30:-1] * within[:, 31:]).mean()
    assert change == pytest.approx(0.6**2 + 0.8 * 0.5**2 / (1 - 0.8**2), rel=0.08)


def test_a_limit_that_differs_between_paths_cannot_be_known(balanced_accuracy):
    simulator = Fatigue(limit_spread=0.3)
    paths = simulator.simulate(400, np.random.default_rng(4))
    damage = simulator.damage(paths)[paths.last_rows[paths.stopped]]
    assert np.log(damage).std() == pytest.approx(0.3, rel=0.25)
    assert balanced_accuracy(paths, simulator.oracle(paths)) < 0.95


def test_noise_features_are_noise_and_change_nothing_else():
    plain = Fatigue().simulate(30, np.random.default_rng(5))
    noisy = Fatigue(noise_features=2).simulate(30, np.random.default_rng(5))
    assert noisy.feature_names == ("load", "noise0", "noise1")
    np.testing.assert_array_equal(plain.states[:, 0], noisy.states[:, 0])
    assert abs(np.corrcoef(noisy.states.T)[0, 1]) < 0.1


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"limit_spread": -1}, {"noise_features": -1}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Fatigue(**wrong)
