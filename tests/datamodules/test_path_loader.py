"""Whole paths for evaluation: each once, raw, in batches of about the rows asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datamodules.loaders import PathLoader, Shard
from lit_ios.batches import PathBatch
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)

LENGTHS = (4, 1, 7, 2, 2, 9, 1, 3)


def raw_paths(lengths: tuple[int, ...] = LENGTHS, dtype: type = np.float64) -> TrajectorySet:
    rng = np.random.default_rng(1)
    return TrajectorySet.from_paths(
        Trajectory(
            rng.normal(1000, 50, (length, 3)).astype(dtype),
            times=rng.uniform(0, 9) + np.cumsum(rng.uniform(0.1, 5, length)),
            stopped=i % 3 != 1,
            name=f"engine-{i}",
        )
        for i, length in enumerate(lengths)
    )


def unpack(batch: PathBatch) -> dict[int, tuple[list, list, bool]]:
    """Return columns, times and flag of each path of a batch by the path's number."""
    found = {}
    for i, number in enumerate(batch.number.tolist()):
        mine = batch.path == i
        found[number] = (
            batch.columns[mine].tolist(),
            batch.time[mine].tolist(),
            bool(batch.stopped[i]),
        )
    return found


sizes = pytest.mark.parametrize("rows_per_batch", [1, 5, 8, 29, 65_536])


@sizes
def test_path_loader_gives_every_path_once_in_its_order(rows_per_batch: int) -> None:
    loader = PathLoader(raw_paths(), rows_per_batch=rows_per_batch)
    numbers = [number for batch in loader for number in batch.number.tolist()]
    assert numbers == list(range(len(LENGTHS)))


@sizes
def test_path_loader_gives_columns_times_and_flags_as_they_are(rows_per_batch: int) -> None:
    paths = raw_paths()
    for batch in PathLoader(paths, rows_per_batch=rows_per_batch):
        for number, (columns, times, stopped) in unpack(batch).items():
            assert columns == paths[number].states.tolist()
            assert times == paths[number].times.tolist()
            assert stopped == paths[number].stopped


@sizes
def test_path_loader_counts_steps_from_the_first_row_of_each_path(rows_per_batch: int) -> None:
    for batch in PathLoader(raw_paths(), rows_per_batch=rows_per_batch):
        lengths = [LENGTHS[number] for number in batch.number.tolist()]
        assert batch.step.tolist() == [t for length in lengths for t in range(length)]
        first = [sum(lengths[:i]) for i, length in enumerate(lengths) for _ in range(length)]
        assert batch.first_row.tolist() == first


@sizes
def test_path_loader_points_to_the_last_row_of_each_path(rows_per_batch: int) -> None:
    for batch in PathLoader(raw_paths(), rows_per_batch=rows_per_batch):
        lengths = [LENGTHS[number] for number in batch.number.tolist()]
        assert batch.last_row.tolist() == (np.cumsum(lengths) - 1).tolist()


@sizes
def test_path_loader_length_is_its_number_of_batches(rows_per_batch: int) -> None:
    loader = PathLoader(raw_paths(), rows_per_batch=rows_per_batch)
    assert len(loader) == sum(1 for _ in loader)


def test_path_loader_can_be_gone_through_again() -> None:
    loader = PathLoader(raw_paths(), rows_per_batch=8)
    first, again = ([unpack(batch) for batch in loader] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_path_loader_keeps_the_float_type_of_raw_columns(dtype: type) -> None:
    (batch,) = PathLoader(raw_paths(dtype=dtype))
    assert batch.columns.numpy().dtype == dtype


def test_path_loader_keeps_times_in_float64() -> None:
    (batch,) = PathLoader(raw_paths())
    assert batch.time.dtype == torch.float64


# Size of batches --------------------------------------------------------------------------------

ROWS = st.lists(st.integers(1, 20), min_size=1, max_size=20).map(tuple)


def batch_lengths(lengths: tuple[int, ...], rows_per_batch: int) -> list[list[int]]:
    """Return the lengths of the paths of each batch."""
    loader = PathLoader(raw_paths(lengths), rows_per_batch=rows_per_batch)
    return [[lengths[number] for number in batch.number.tolist()] for batch in loader]


@given(ROWS, st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_path_batches_exceed_the_rows_asked_for_by_less_than_one_path(
    lengths: tuple[int, ...], rows_per_batch: int
) -> None:
    for batch in batch_lengths(lengths, rows_per_batch):
        assert sum(batch) < rows_per_batch + max(lengths)


@given(ROWS, st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_path_batches_take_no_path_more_once_they_are_full(
    lengths: tuple[int, ...], rows_per_batch: int
) -> None:
    for batch in batch_lengths(lengths, rows_per_batch):
        assert sum(batch[:-1]) < rows_per_batch


def test_path_batches_hold_all_paths_where_they_fit() -> None:
    assert len(PathLoader(raw_paths(), rows_per_batch=sum(LENGTHS) + 1)) == 1


# Shards -----------------------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("processes", [2, 3, 8, 11])
def test_shards_together_give_every_path_once(processes: int, rows_per_batch: int) -> None:
    numbers = []
    for rank in range(processes):
        shard = Shard(rank, processes)
        for batch in PathLoader(raw_paths(), rows_per_batch=rows_per_batch, shard=shard):
            numbers += batch.number.tolist()
    assert sorted(numbers) == list(range(len(LENGTHS)))


@pytest.mark.parametrize("processes", [2, 3])
def test_shards_give_the_paths_as_they_are(processes: int) -> None:
    paths = raw_paths()
    for rank in range(processes):
        for batch in PathLoader(paths, rows_per_batch=5, shard=Shard(rank, processes)):
            for number, (columns, _, stopped) in unpack(batch).items():
                assert columns == paths[number].states.tolist()
                assert stopped == paths[number].stopped


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_shards_differ_by_at_most_one_path(processes: int) -> None:
    counts = [
        sum(len(batch.number) for batch in PathLoader(raw_paths(), shard=Shard(rank, processes)))
        for rank in range(processes)
    ]
    assert max(counts) - min(counts) <= 1


def test_shard_without_paths_gives_one_empty_batch() -> None:
    (batch,) = PathLoader(raw_paths(), shard=Shard(8, 9))
    assert batch.judges is None
    assert [len(column) for column in batch[:-2]] == [0] * (len(batch) - 2)


def test_empty_batch_has_the_columns_and_types_of_a_full_one() -> None:
    (empty,) = PathLoader(raw_paths(), shard=Shard(8, 9))
    (full,) = PathLoader(raw_paths())
    assert empty.judges is full.judges is None
    assert [column.dtype for column in empty[:-2]] == [column.dtype for column in full[:-2]]
    assert empty.columns.shape == (0, 3)


def test_shard_without_paths_has_length_one() -> None:
    assert len(PathLoader(raw_paths(), shard=Shard(8, 9))) == 1


# Judges -----------------------------------------------------------------------------------------


def random_judges() -> np.ndarray:
    return np.random.default_rng(4).random((3, len(LENGTHS))) < 0.5


def test_path_loader_has_all_members_judge_all_paths_by_default() -> None:
    assert all(batch.judges is None for batch in PathLoader(raw_paths(), rows_per_batch=5))


@sizes
@pytest.mark.parametrize("processes", [1, 3])
def test_path_loader_gives_the_judges_of_each_path(processes: int, rows_per_batch: int) -> None:
    judges = random_judges()
    for rank in range(processes):
        options = {"rows_per_batch": rows_per_batch, "shard": Shard(rank, processes)}
        for batch in PathLoader(raw_paths(), judges, **options):
            expected = [[own[number] for number in batch.number.tolist()] for own in judges]
            assert batch.judges.tolist() == expected


def test_empty_batch_has_judges_for_no_path() -> None:
    (batch,) = PathLoader(raw_paths(), random_judges(), shard=Shard(8, 9))
    assert batch.judges.shape == (3, 0)
    assert batch.judges.dtype == torch.bool
