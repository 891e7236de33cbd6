"""From paths to loaders: what is standardised, what is resampled, and what is left alone."""

from __future__ import annotations

from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from given_data import GivenData, elapsed_states, epoch_rows, random_paths

from lit_ios.sampling import OversamplingError

torch.set_num_threads(1)


def sort_rows(states: np.ndarray) -> np.ndarray:
    return states[np.lexsort(states.T)]


def distance_to_segments(points: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Distance of each point to the nearest segment between two of the ends."""
    nearest = np.full(len(points), np.inf)
    for a, b in combinations(ends.astype(float), 2):
        along = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        gaps = np.linalg.norm(points - a - along[:, None] * (b - a), axis=1)
        nearest = np.minimum(nearest, gaps)
    return nearest


every_oversampling = pytest.mark.parametrize("oversampling", ["none", "smote", "bootstrap"])


# Standardisation --------------------------------------------------------------------------------


def test_statistics_are_mean_and_deviation_of_the_training_rows() -> None:
    data = GivenData()
    states = elapsed_states(data.given.train)
    mean = states.sum(axis=0) / len(states)
    deviation = np.sqrt(((states - mean) ** 2).sum(axis=0) / len(states))
    np.testing.assert_allclose(data.statistics.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(data.statistics.scale, deviation, rtol=1e-12)


def test_statistics_do_not_depend_on_validation_and_test_rows() -> None:
    one = GivenData().statistics
    other = GivenData(val=random_paths(9, 8, 1e3), test=random_paths(9, 9, -1e3)).statistics
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.scale, other.scale)


def test_statistics_do_not_depend_on_synthetic_rows() -> None:
    one, other = GivenData().statistics, GivenData(oversampling="smote").statistics
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.scale, other.scale)


def test_training_states_are_standardised() -> None:
    data = GivenData()
    states = elapsed_states(data.given.train)
    expected = (states - states.mean(axis=0)) / states.std(axis=0)
    found, _, _ = epoch_rows(data)
    np.testing.assert_allclose(sort_rows(found), sort_rows(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_by", ["rows", "paths"])
def test_training_successors_are_standardised_alike(batch_by: str) -> None:
    data = GivenData(batch_by=batch_by)
    follows = {tuple(a): b for a, b in pairwise(data.training_paths.states.tolist())}
    for batch in data.train_batches():
        columns = batch.state.tolist(), batch.action.tolist(), batch.next_state.tolist()
        for state, action, following in zip(*columns, strict=True):
            assert following == (follows[tuple(state)] if action else [0, 0, 0])


# Evaluation -------------------------------------------------------------------------------------


@every_oversampling
@pytest.mark.parametrize("split", ["val", "test", "predict"])
def test_evaluation_rows_are_raw_and_not_resampled(oversampling: str, split: str) -> None:
    data = GivenData(oversampling=oversampling)
    batches = list(getattr(data, f"{split}_dataloader")())
    columns = torch.cat([batch.columns for batch in batches]).numpy()
    given = data.given.val if split == "val" else data.given.test
    assert np.array_equal(columns, given.states)


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_times_and_flags_are_those_of_the_paths(split: str) -> None:
    given = random_paths(9, seed=4, censored=3)
    (batch,) = getattr(GivenData(**{split: given}), f"{split}_dataloader")()
    assert batch.time.tolist() == given.times.tolist()
    assert batch.stopped.tolist() == given.stopped.tolist()


# Oversampling -----------------------------------------------------------------------------------


def test_oversampling_none_leaves_the_rows_as_they_are() -> None:
    data = GivenData(oversampling="none")
    _, actions, synthetic = epoch_rows(data)
    assert (actions == 0).sum() == len(data.given.train)
    assert len(actions) == len(data.given.train.states)
    assert not synthetic.any()


@pytest.mark.parametrize("batch_by", ["rows", "paths"])
@pytest.mark.parametrize("smote_kind", ["regular", "borderline"])
def test_smote_makes_stops_equal_continues_in_an_epoch(batch_by: str, smote_kind: str) -> None:
    data = GivenData(oversampling="smote", batch_by=batch_by, smote_kind=smote_kind)
    _, actions, synthetic = epoch_rows(data)
    assert synthetic.any()
    assert (actions == 0).sum() == (actions == 1).sum()


def test_smote_makes_stops_equal_continues_where_paths_are_censored() -> None:
    data = GivenData(random_paths(20, seed=0, censored=8), oversampling="smote")
    _, actions, _ = epoch_rows(data)  # the last row of a censored path is not among them
    assert (actions == 0).sum() == (actions == 1).sum()


@pytest.mark.parametrize("ratio", [0.5, 0.75])
def test_smote_makes_the_ratio_asked_for(ratio: float) -> None:
    _, actions, _ = epoch_rows(GivenData(oversampling="smote", ratio=ratio))
    assert (actions == 0).sum() == round(ratio * (actions == 1).sum())


@pytest.mark.parametrize("lags", [0, 2])
def test_smote_rows_lie_between_training_stops(lags: int) -> None:
    data = GivenData(oversampling="smote", lags=lags)
    states, actions, synthetic = epoch_rows(data)
    real_stops = states[(actions == 0) & (synthetic == 0)]
    assert len(real_stops) == len(data.given.train)
    assert distance_to_segments(states[synthetic == 1], real_stops).max() < 1e-5


def test_smote_rows_do_not_depend_on_validation_and_test_rows() -> None:
    one = GivenData(oversampling="smote")
    other = GivenData(
        val=random_paths(9, 8, 1e3), test=random_paths(9, 9, -1e3), oversampling="smote"
    )
    assert np.array_equal(one.synthetic_stops, other.synthetic_stops)


def test_smote_rows_follow_the_seed() -> None:
    first, again, other = (
        GivenData(oversampling="smote", seed=seed).synthetic_stops for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_smote_rows_are_the_same_in_every_loader() -> None:
    data = GivenData(oversampling="smote")
    one, other = epoch_rows(data), epoch_rows(data)
    assert np.array_equal(one[0], other[0])


def test_smote_takes_the_neighbours_asked_for() -> None:
    near, far = (
        GivenData(oversampling="smote", neighbors=neighbors).synthetic_stops
        for neighbors in (1, 12)
    )
    assert not np.array_equal(near, far)


def test_smote_takes_the_kind_asked_for() -> None:
    regular, borderline = (
        GivenData(oversampling="smote", smote_kind=kind).synthetic_stops
        for kind in ("regular", "borderline")
    )
    assert not np.array_equal(regular, borderline)


def test_smote_with_one_training_stop_is_refused() -> None:
    data = GivenData(random_paths(20, seed=0, censored=19), oversampling="smote")
    with pytest.raises(OversamplingError, match="got 1"):
        data.train_batches()


@pytest.mark.parametrize("batch_by", ["rows", "paths"])
def test_bootstrap_makes_stops_equal_continues_in_every_batch_with_a_stop(batch_by: str) -> None:
    data = GivenData(
        random_paths(40, seed=0), oversampling="bootstrap", batch_by=batch_by, batch_size=60
    )
    loader = data.train_batches()
    assert len(loader) > 2
    for batch in loader:
        assert batch.copies[batch.action == 0].sum() == batch.copies[batch.action == 1].sum()


def test_bootstrap_makes_no_synthetic_rows() -> None:
    _, _, synthetic = epoch_rows(GivenData(oversampling="bootstrap"))
    assert not synthetic.any()


def test_bootstrap_takes_the_ratio_asked_for() -> None:
    data = GivenData(oversampling="bootstrap", ratio=0.5, batch_size=10_000)
    _, actions, _ = epoch_rows(data)
    assert (actions == 0).sum() == round(0.5 * (actions == 1).sum())


# Samplers by class path -------------------------------------------------------------------------

RANDOM = "imblearn.over_sampling.RandomOverSampler"
ADAPTIVE = "imblearn.over_sampling.ADASYN"
by_class = pytest.mark.parametrize("sampler", [RANDOM, ADAPTIVE])


@by_class
@pytest.mark.parametrize("batch_by", ["rows", "paths"])
def test_sampler_adds_rows_to_those_of_the_paths(sampler: str, batch_by: str) -> None:
    data = GivenData(oversampling=sampler, batch_by=batch_by)
    states, _, synthetic = epoch_rows(data)
    assert synthetic.any()
    own = data.training_paths.states
    assert np.array_equal(sort_rows(states[synthetic == 0]), sort_rows(own))


@by_class
def test_sampler_adds_stops_only(sampler: str) -> None:
    _, actions, synthetic = epoch_rows(GivenData(oversampling=sampler))
    assert (actions[synthetic == 1] == 0).all()


@by_class
def test_rows_of_a_sampler_lie_between_training_stops(sampler: str) -> None:
    data = GivenData(oversampling=sampler)
    train = data.training_paths
    stops = train.states[train.last_rows[train.stopped]]
    assert distance_to_segments(data.synthetic_stops, stops).max() < 1e-5


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_sampler_makes_the_ratio_asked_for_where_paths_are_censored(ratio: float) -> None:
    data = GivenData(random_paths(40, seed=0, censored=30), oversampling=RANDOM, ratio=ratio)
    _, actions, _ = epoch_rows(data)
    assert (actions == 0).sum() == round(ratio * (actions == 1).sum())


def test_sampler_may_be_named_with_or_without_arguments() -> None:
    ways = [RANDOM, {"class_path": RANDOM}, {"class_path": RANDOM, "init_args": {}}]
    first, *others = (GivenData(oversampling=way).synthetic_stops for way in ways)
    assert all(np.array_equal(first, other) for other in others)


def test_sampler_takes_its_arguments() -> None:
    made = [
        GivenData(oversampling={"class_path": ADAPTIVE, "init_args": {"n_neighbors": n}})
        for n in (2, 9)
    ]
    assert not np.array_equal(made[0].synthetic_stops, made[1].synthetic_stops)


@by_class
def test_rows_of_a_sampler_follow_the_seed(sampler: str) -> None:
    first, again, other = (
        GivenData(oversampling=sampler, seed=seed).synthetic_stops for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_sampler_that_drops_rows_is_refused() -> None:
    data = GivenData(oversampling="imblearn.combine.SMOTEENN")
    with pytest.raises(OversamplingError, match="does not keep the original rows first"):
        data.train_batches()


# States, seeds, processes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lags", "include_time", "dim"), [(0, True, 3), (2, True, 7), (1, False, 4)]
)
def test_states_have_lags_and_time_as_asked_for(lags: int, include_time: bool, dim: int) -> None:
    data = GivenData(lags=lags, include_time=include_time)
    assert [data.states(part).states.shape[1] for part in data.splits] == [dim] * 3
    assert (data.states(data.splits.train).feature_names[-1] == "time") == include_time


def test_states_are_the_features_and_the_time_since_the_path_began() -> None:
    data = GivenData()
    for part in data.splits:
        np.testing.assert_allclose(data.states(part).states, elapsed_states(part), rtol=1e-12)


def test_splits_hold_the_columns_as_they_are_read() -> None:
    data = GivenData(lags=2)
    for found, given in zip(data.splits, data.given, strict=True):
        assert found.feature_names == ("heat", "speed")
        assert np.array_equal(found.states, given.states)


def test_batch_order_follows_the_seed() -> None:
    first, again, other = (epoch_rows(GivenData(seed=seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_batch_size_is_that_of_the_loader() -> None:
    data = GivenData(random_paths(64, seed=0, longest=3), batch_size=32)  # 192 rows
    assert [len(batch.state) for batch in data.train_batches()] == [32] * 6


def on_process(rank: int, processes: int) -> GivenData:
    data = GivenData(batch_size=16)
    data.trainer = SimpleNamespace(
        global_rank=rank, world_size=processes, strategy=SimpleNamespace(root_device="cpu")
    )
    return data


def test_training_batches_are_dealt_out_to_the_processes() -> None:
    rows = np.concatenate([epoch_rows(on_process(rank, 2))[0] for rank in range(2)])
    whole = epoch_rows(GivenData(batch_size=16))[0]
    assert np.array_equal(np.unique(rows, axis=0), np.unique(whole, axis=0))
    assert len(rows) < 1.5 * len(whole)


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_paths_are_dealt_out_to_the_processes(split: str) -> None:
    numbers = []
    for rank in range(2):
        for batch in getattr(on_process(rank, 2), f"{split}_dataloader")():
            numbers += batch.number.tolist()
    assert sorted(numbers) == list(range(len(getattr(GivenData().given, split))))


def test_batch_already_on_the_device_is_left_as_it_is() -> None:
    data = GivenData()
    batch = next(iter(data.train_batches()))
    assert data.transfer_batch_to_device(batch, torch.device("cpu"), 0) is batch


@pytest.mark.parametrize("loader", ["train_dataloader", "val_dataloader"])
def test_batch_on_another_device_is_moved_whole(loader: str) -> None:
    data = GivenData(batch_by="paths")
    batch = next(iter(getattr(data, loader)()))
    moved = data.transfer_batch_to_device(batch, torch.device("meta"), 0)
    batches = moved if isinstance(moved, list) else [moved]
    columns = [part for batch in batches for part in batch if isinstance(part, torch.Tensor)]
    assert {column.device.type for column in columns} == {"meta"}


# Bad arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value", "others"),
    [
        ("validation_share", 0.0, {}),
        ("validation_share", 1.0, {}),
        ("validation_share", -0.3, {}),
        ("lags", -1, {}),
        ("batch_size", 0, {}),
        ("ratio", 0.0, {"oversampling": "smote"}),
        ("ratio", -1.0, {"oversampling": "bootstrap"}),
        ("neighbors", 0, {"oversampling": "smote"}),
        ("oversampling", "SMOTE", {}),
        ("smote_kind", "bordeline", {"oversampling": "smote"}),
        ("batch_by", "path", {}),
    ],
    ids=str,
)
def test_bad_argument_is_refused_by_name(argument: str, value: Any, others: dict) -> None:
    with pytest.raises(ValueError, match=argument):
        GivenData(**{argument: value}, **others).train_dataloader()
