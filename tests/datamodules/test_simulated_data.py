"""DataModules of the simulated problems: sizes, splits, and what the seed decides."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from datamodules import BoundaryExitData, ChangePointData, GainStoppingData, SimulatedData
from lit_ios.trajectories import TrajectorySet

torch.set_num_threads(1)

PROBLEMS = {
    "bmG": GainStoppingData,
    "bmgG": GainStoppingData,
    "CP1": ChangePointData,
    "CP2": ChangePointData,
    "CP3": ChangePointData,
    "radial": BoundaryExitData,
    "star": BoundaryExitData,
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS)
SPLITS = ("train", "val", "test")


@cache
def make(problem: str, **options: Any) -> SimulatedData:
    return PROBLEMS[problem](problem=problem, **options)


def radial(**options: Any) -> SimulatedData:
    return make("radial", **options)


def same(left: TrajectorySet, right: TrajectorySet) -> bool:
    return (
        np.array_equal(left.states, right.states)
        and np.array_equal(left.times, right.times)
        and np.array_equal(left.offsets, right.offsets)
        and np.array_equal(left.stopped, right.stopped)
    )


def contents(paths: TrajectorySet) -> set[bytes]:
    """What tells paths apart, whatever they are called."""
    return {path.states.tobytes() for path in paths}


@every_problem
def test_simulated_data_are_named_as_the_problem(problem: str) -> None:
    assert make(problem).name == problem


@every_problem
def test_simulated_data_have_175_paths_to_learn_from_and_75_to_test(problem: str) -> None:
    splits = make(problem).splits
    assert (len(splits.train) + len(splits.val), len(splits.test)) == (175, 75)


@every_problem
def test_simulated_data_are_split_70_to_30(problem: str) -> None:
    splits = make(problem).splits
    assert abs(len(splits.train) - 0.7 * 175) <= 0.5
    assert abs(len(splits.val) - 0.3 * 175) <= 0.5


@every_problem
def test_simulated_splits_share_no_path(problem: str) -> None:
    train, val, test = map(contents, make(problem).splits)
    assert train.isdisjoint(val)
    assert test.isdisjoint(train | val)


@every_problem
def test_simulated_states_end_with_the_time_since_the_path_began(problem: str) -> None:
    data = make(problem)
    for paths in data.splits:
        for path in data.states(paths):
            assert path.states[:, -1].tolist() == list(range(len(path)))


@every_problem
def test_simulated_states_are_the_features_and_time(problem: str) -> None:
    data = make(problem)
    train = data.splits.train
    assert data.columns == data.feature_names == train.feature_names
    assert data.states(train).feature_names == (*data.feature_names, "time")
    assert np.array_equal(data.states(train).states[:, :-1], train.states)


@every_problem
def test_same_seed_gives_the_same_data(problem: str) -> None:
    again = PROBLEMS[problem](problem=problem).splits
    assert all(same(left, right) for left, right in zip(make(problem).splits, again, strict=True))


@every_problem
@pytest.mark.parametrize("split", SPLITS)
def test_other_seed_gives_other_data(problem: str, split: str) -> None:
    one, other = make(problem).splits, make(problem, seed=1).splits
    assert not same(getattr(one, split), getattr(other, split))


@pytest.mark.parametrize(
    "options",
    [
        {"oversampling": "smote"},
        {"oversampling": "bootstrap", "ratio": 0.5},
        {"batch_by": "paths", "batch_size": 7},
    ],
    ids=str,
)
def test_data_do_not_depend_on_how_batches_are_made(options: dict[str, Any]) -> None:
    changed = BoundaryExitData(problem="radial", **options)
    changed.train_batches()
    expected = radial().splits
    assert all(same(left, right) for left, right in zip(changed.splits, expected, strict=True))


def test_test_paths_do_not_depend_on_the_number_of_other_paths() -> None:
    assert same(radial(paths=20).splits.test, radial().splits.test)


def test_test_paths_do_not_depend_on_the_validation_share() -> None:
    assert same(radial(validation_share=0.5).splits.test, radial().splits.test)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_validation_share_is_that_asked_for(share: float) -> None:
    assert len(radial(validation_share=share, paths=100).splits.val) == 100 * share


def test_number_of_paths_is_that_asked_for() -> None:
    splits = radial(paths=30, test_paths=11).splits
    assert (len(splits.train) + len(splits.val), len(splits.test)) == (30, 11)


def test_smallest_data_set_has_a_path_in_every_split() -> None:
    assert [len(part) for part in radial(paths=2, test_paths=1).splits] == [1, 1, 1]


@pytest.mark.parametrize(
    ("argument", "options"),
    [("paths", {"paths": 1}), ("test_paths", {"test_paths": 0}), ("paths", {"paths": -5})],
    ids=str,
)
def test_too_few_paths_are_refused(argument: str, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=argument):
        BoundaryExitData(**options)


def test_statistics_are_those_of_the_simulated_training_rows() -> None:
    data = radial()
    train = data.splits.train
    states = np.concatenate([train.states, train.steps[:, None]], axis=1)
    np.testing.assert_allclose(data.statistics.mean, states.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(data.statistics.scale, states.std(axis=0))


@pytest.mark.parametrize("problem", ["radial", "CP1"])
def test_smote_makes_as_many_stops_as_continues_in_simulated_data(problem: str) -> None:
    batches = list(make(problem, oversampling="smote").train_batches())
    actions = torch.cat([batch.action for batch in batches])
    assert (actions == 0).sum() == (actions == 1).sum()


def test_horizon_stop_leaves_no_path_censored() -> None:
    assert all(part.stopped.all() for part in radial(horizon="stop", steps=5).splits)


def test_horizon_censor_keeps_the_last_rows_of_censored_paths_out_of_training() -> None:
    data = radial(horizon="censor", steps=5)
    train = data.splits.train
    censored = int((~train.stopped).sum())
    assert 0 < censored < len(train)
    batches = list(data.train_batches())
    assert sum(len(batch.state) for batch in batches) == len(train.states) - censored


def test_default_batches_have_about_128_rows() -> None:
    sizes = [len(batch.state) for batch in radial().train_batches()]
    assert np.mean(sizes) == pytest.approx(128, rel=0.1)
