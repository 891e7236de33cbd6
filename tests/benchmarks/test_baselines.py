"""Baselines: margins that mean what they should, on the splits a variant gets."""

import numpy as np
import pytest

from benchmarks import baselines, grid
from benchmarks.baselines import NAMES, cusum, elapsed, measure, time_left
from datamodules import ChangePointData
from lit_ios.trajectories import Trajectory, TrajectorySet

SLOW = (
    "baseline_survival", "baseline_trees", "baseline_trees_folds", "baseline_trees_lags",
    "baseline_boosting_lags", "baseline_svm_lags",
)  # fmt: skip
FAST = [name for name in NAMES if name not in SLOW]


@pytest.mark.parametrize("name", FAST)
def test_baseline_finds_a_change_of_the_mean(name):
    found = measure(name, ChangePointData(problem="CP1", seed=0, paths=80, test_paths=40))
    assert found["balanced_accuracy"] > (0.65 if name == "baseline_clock" else 0.75)
    assert found["val_balanced_accuracy"] >= found["balanced_accuracy"] - 0.15


def test_the_clock_is_the_time_since_a_path_began():
    states = np.zeros((5, 1))
    paths = TrajectorySet.from_paths(
        [Trajectory(states[:3], times=[5.0, 7.0, 8.0]), Trajectory(states[:2], times=[2.0, 3.5])]
    )
    assert elapsed(paths).tolist() == [0.0, 2.0, 3.0, 0.0, 1.5]


def test_with_lags_the_best_number_of_them_is_taken(monkeypatch):
    """A model whose margin is right with four lags only."""
    data = ChangePointData(problem="CP1", paths=40, test_paths=10)
    given = []

    def fitted(name, train, seed):
        given.append(train.feature_names)
        right = "x[-4]" in train.feature_names and "x[-5]" not in train.feature_names

        def margins(paths):
            ends = np.zeros(len(paths.states))
            ends[paths.last_rows] = 1.0
            return ends if right else -ends

        yield margins

    monkeypatch.setattr(baselines, "candidates", fitted)
    assert measure("baseline_svm_lags", data)["balanced_accuracy"] == 1.0
    assert {len(names) - 2 for names in given} == {0, 4, 16}


def test_wide_data_are_not_given_more_lags_than_a_baseline_can_take():
    data = ChangePointData(problem="CP1", paths=10, test_paths=5)
    data.encoder = type("Wide", (), {"feature_names": tuple("abcdefghijklmnopqrstuvwx")})()
    assert baselines._lags("baseline_svm_lags", data) == [0, 4]
    assert baselines._lags("baseline_svm_folds", data) == [0]


def test_survival_forest_finds_it_too():
    pytest.importorskip("sksurv", reason="scikit-survival is an extra")
    data = ChangePointData(problem="CP1", seed=0, paths=80, test_paths=40)
    assert measure("baseline_survival", data)["balanced_accuracy"] > 0.75


def test_cross_validated_margins_are_of_models_that_did_not_see_the_path(monkeypatch):
    """A model that knows the paths it was fitted to says so in its margins."""
    paths = ChangePointData(problem="CP1", paths=40, test_paths=1).splits.train

    def fitted(name, train, seed):
        yield lambda asked: np.isin(asked.states[:, 0], train.states[:, 0]).astype(float)

    monkeypatch.setattr(baselines, "candidates", fitted)
    values, whole = next(baselines._cross_validated("any", paths, 0))
    assert (values == 0).all()
    assert (whole(paths) == 1).all()


def test_baselines_are_fitted_to_the_states_a_variant_is_trained_on(monkeypatch):
    data = ChangePointData(problem="CP1", paths=40, test_paths=10, lags=2)
    given = []

    def fitted(name, train, seed):
        given.append(train)
        yield lambda paths: paths.states[:, 0].astype(float)

    monkeypatch.setattr(baselines, "candidates", fitted)
    measure("any", data)
    np.testing.assert_array_equal(given[0].states, data.training_paths.states)
    assert given[0].feature_names == ("x", "x[-1]", "x[-2]", "time")


def test_cusum_adds_up_what_exceeds_the_slack():
    values = np.array([[0.0, 0], [1.0, 1], [3.0, 2], [-2.0, 3]])
    paths = TrajectorySet.from_paths([Trajectory(values), Trajectory(values[:2])])
    # deviations 0, 1, 3, −2 less 0.5: up 0, 0.5, 3.0, 0.5; down 0, 0, 0, 1.5
    assert cusum(paths, 0.5) == pytest.approx([0, 0.5, 3.0, 1.5, 0, 0.5])


def test_time_left_is_that_to_the_end_of_the_path():
    paths = TrajectorySet.from_paths([
        Trajectory(np.zeros((3, 1)), np.array([0.0, 2, 4])),
        Trajectory(np.zeros((2, 1)), np.array([1.0, 3]), stopped=False),
    ])  # fmt: skip
    target = time_left(paths)
    assert target["time"].tolist() == [6, 4, 2, 4, 2]
    assert target["stopped"].tolist() == [True, True, True, False, False]


def test_options_of_a_data_set_reach_baselines_as_numbers(monkeypatch):
    seen = []

    def measure(name, data):
        seen.append(data)
        return {}

    monkeypatch.setattr(baselines, "measure", measure)
    grid.run(grid.Job("radial3", "baseline_clock", 0, 200))
    grid.run(grid.Job("FD003", "baseline_clock", 0, 40))
    assert seen[0].simulator.dim == 3
    assert seen[1].subset == "FD003"
