from functools import cache

import numpy as np
import pytest

from datamodules.simulators import GainStopping
from lit_ios.regions import StoppingRegion


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


solved = cache(GainStopping)  # one solution for all tests of a problem


def test_bmg_stops_after_about_ten_steps_at_the_default_discount():
    paths = solved("bmG").simulate(5000, rng())
    assert abs(paths.times[paths.last_rows].mean() - 10) < 0.5


def test_bmg_mostly_waits_for_the_horizon_at_discount_0_99():
    paths = solved("bmG", gamma_expert=0.99).simulate(5000, rng())
    assert abs((paths.times[paths.last_rows] == 50).mean() - 0.8) < 0.03


def test_bmgg_stops_on_leaving_the_unit_disc_by_the_classical_reading():
    simulator = solved("bmgG")
    states = 1.5 * rng().standard_normal((20_000, 2))
    radius = np.linalg.norm(states, axis=1)
    stops = simulator.region.stops(states, np.resize(np.arange(50.0), 20_000))
    np.testing.assert_array_equal(stops, radius >= 1)


def test_bmgg_stops_on_leaving_the_unit_disc_by_the_cumulative_reading():
    simulator, gamma = solved("bmgG"), 0.99
    states = np.cumsum(rng().standard_normal((2000, 50, 2)) / np.sqrt(50), axis=1)
    states = np.concatenate([np.zeros((2000, 1, 2)), states], axis=1)[:, :50]  # t = 0 … 49
    radius = np.linalg.norm(states, axis=-1)
    gain = np.where(radius < 1, 0.1, -8.0)
    cumulative = np.cumsum(gamma ** np.arange(50) * gain, axis=1)
    go_on = simulator.rule.continuation(radius.ravel(), np.tile(np.arange(50.0), 2000))
    expected_value = (go_on.reshape(radius.shape) - gain) / gamma
    stops = radius**2 >= cumulative + gamma ** (np.arange(50) + 1) * expected_value
    left = radius >= 1
    np.testing.assert_array_equal(stops.any(axis=1), left.any(axis=1))
    np.testing.assert_array_equal(stops.argmax(axis=1), left.argmax(axis=1))


@pytest.mark.parametrize("problem", ["bmG", "bmgG"])
@pytest.mark.parametrize("expert", ["backward_induction", "lsm"])
@pytest.mark.parametrize("horizon", ["stop", "censor"])
def test_oracle_has_balanced_accuracy_one(problem, expert, horizon, balanced_accuracy):
    simulator = solved(problem, expert=expert, horizon=horizon)
    paths = simulator.simulate(200, rng())
    assert balanced_accuracy(paths, simulator.oracle(paths)) == 1


@pytest.mark.parametrize("expert", ["backward_induction", "lsm"])
def test_region_holds_exactly_the_stop_rows(expert):
    simulator = solved("bmG", expert=expert)
    paths = simulator.simulate(300, rng())
    assert isinstance(simulator.region, StoppingRegion)
    np.testing.assert_array_equal(
        simulator.region.stops(paths.states, paths.times), paths.actions == 0
    )


def test_region_of_the_horizon_is_everything_unless_it_censors():
    centre, horizon = np.zeros((1, 2)), np.array([50.0])
    assert solved("bmG").region.stops(centre, horizon).all()
    assert not solved("bmG", horizon="censor").region.stops(centre, horizon).any()


def test_censoring_horizon_marks_the_paths_inside_the_disc_and_changes_no_row():
    stopping = solved("bmgG").simulate(500, rng())
    censoring = solved("bmgG", horizon="censor").simulate(500, rng())
    np.testing.assert_array_equal(stopping.states, censoring.states)
    assert stopping.stopped.all()
    last = censoring.states[censoring.last_rows]
    np.testing.assert_array_equal(censoring.stopped, np.linalg.norm(last, axis=1) >= 1)
    assert (censoring.lengths[~censoring.stopped] == 51).all()
    assert 0 < (~censoring.stopped).sum() < 500


def test_hindsight_stops_at_the_best_of_the_path():
    simulator = solved("bmG", expert="hindsight", gamma_expert=0.9)
    paths, whole = simulator.simulate(50, rng()), np.zeros((50, 51, 2))
    whole[:, 1:] = np.cumsum(rng().standard_normal((50, 50, 2)) / np.sqrt(50), axis=1)
    for path, states in zip(paths, whole, strict=True):  # g = 0: the largest γ^t G_t wins
        payoff = 0.9 ** np.arange(51) * (states**2).sum(axis=1)
        assert path.times[-1] == payoff.argmax()


def test_hindsight_censors_what_reaches_the_horizon():
    arguments = {"problem": "bmG", "expert": "hindsight", "gamma_expert": 0.99}
    paths = solved(**arguments, horizon="censor").simulate(200, rng())
    np.testing.assert_array_equal(paths.stopped, paths.lengths < 51)
    assert solved(**arguments).simulate(200, rng()).stopped.all()


def test_hindsight_has_no_region_and_no_oracle():
    simulator = solved("bmG", expert="hindsight")
    assert simulator.region is None
    with pytest.raises(ValueError, match="'hindsight' looks at the future"):
        simulator.oracle(simulator.simulate(3, rng()))


def test_rule_is_solved_once():
    simulator = GainStopping("bmG")
    assert simulator.rule is simulator.rule


@pytest.mark.parametrize(
    "wrong",
    [
        {"problem": "BMG"},
        {"expert": "mc"},
        {"horizon": "end"},
        {"gamma_expert": 1.1},
        {"steps": 0},
        {"dt": 0.0},
        {"dim": 0},
    ],
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        GainStopping(**{"problem": "bmG", **wrong})


def test_region_refuses_states_with_time_attached():
    with pytest.raises(ValueError, match=r"features must have shape \(N, 2\)"):
        solved("bmG").region.stops(np.zeros((4, 3)), np.zeros(4))
