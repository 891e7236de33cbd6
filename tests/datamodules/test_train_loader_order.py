"""The order of training batches: a function of (seed, epoch), resumed exactly, dealt to shards."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from datamodules.loaders import Shard, TrainLoader
from lit_ios.batches import TrainBatch
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)

SEEN = np.random.default_rng(2).poisson(1.0, size=(3, 24)).astype(np.float32)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "rows": {"batch_by": "rows"},
    "paths": {"batch_by": "paths"},
    "rows-bootstrap": {"batch_by": "rows", "bootstrap_ratio": 1.0},
    "paths-bootstrap": {"batch_by": "paths", "bootstrap_ratio": 1.0},
    "second-of-three": {"batch_by": "rows", "bootstrap_ratio": 1.0, "shard": Shard(1, 3)},
    "second-of-three-by-paths": {"batch_by": "paths", "shard": Shard(1, 3)},
    "members": {"batch_by": "rows", "bootstrap_ratio": 1.0, "seen": SEEN},
    "members-by-paths": {"batch_by": "paths", "bootstrap_ratio": 1.0, "seen": SEEN},
}
every_way = pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
both_ways = pytest.mark.parametrize("batch_by", ["rows", "paths"])


def make(**options: Any) -> TrainLoader:
    """Return a loader over 24 paths of 1 to 8 rows, some censored, and 20 synthetic rows."""
    rng = np.random.default_rng(0)
    paths = TrajectorySet.from_paths(
        Trajectory(rng.standard_normal((1 + i % 8, 2)), stopped=i % 5 > 0) for i in range(24)
    )
    synthetic = rng.standard_normal((20, 2)).astype(np.float32)
    return TrainLoader(paths, synthetic, **{"batch_size": 10, **options})


def rows(batch: TrainBatch) -> list[Any]:
    """Return everything the batch holds as plain numbers."""
    return [column.tolist() for column in batch if column is not None]


def epoch_of(loader: TrainLoader, epoch: int) -> list[Any]:
    loader.set_epoch(epoch)
    return [rows(batch) for batch in loader]


def state_rows(batches: Iterable[TrainBatch]) -> list[list[float]]:
    return sorted(row for batch in batches for row in batch.state.tolist())


# Seed and epoch ---------------------------------------------------------------------------------


@every_way
def test_order_of_an_epoch_is_the_same_in_every_loader(options: dict[str, Any]) -> None:
    assert epoch_of(make(**options), 2) == epoch_of(make(**options), 2)


@every_way
def test_order_of_an_epoch_does_not_depend_on_the_epochs_before(options: dict[str, Any]) -> None:
    loader = make(**options)
    for epoch in (0, 1, 5):
        epoch_of(loader, epoch)
    assert epoch_of(loader, 2) == epoch_of(make(**options), 2)


@every_way
def test_order_does_not_depend_on_the_global_generators(options: dict[str, Any]) -> None:
    expected = epoch_of(make(**options), 0)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (what must make no difference)
    assert epoch_of(make(**options), 0) == expected


@every_way
def test_loader_does_not_touch_the_global_generators(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    epoch_of(make(**options), 0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


@every_way
def test_order_differs_between_epochs(options: dict[str, Any]) -> None:
    loader = make(**options)
    first, second, third = (epoch_of(loader, epoch) for epoch in range(3))
    assert first != second != third != first


@every_way
def test_order_differs_between_seeds(options: dict[str, Any]) -> None:
    first, second = (epoch_of(make(seed=seed, **options), 0) for seed in (1, 2))
    assert first != second


@both_ways
def test_order_is_not_that_of_the_data(batch_by: str) -> None:
    loader = make(batch_by=batch_by)
    order = [row for batch in loader for row in batch.state.tolist()]
    (ordered,) = make(batch_by=batch_by, batch_size=10_000, seed=0)
    assert order[:40] != sorted(order)[:40]
    assert sorted(order) == sorted(ordered.state.tolist())


# Resuming ---------------------------------------------------------------------------------------


def cut_off(loader: TrainLoader, epoch: int, batches: int) -> dict[str, Any]:
    """Train for some batches of an epoch and return what a checkpoint would keep."""
    loader.set_epoch(epoch)
    iterator = iter(loader)
    for _ in range(batches):
        next(iterator)
    return json.loads(json.dumps(loader.state_dict()))


@every_way
@pytest.mark.parametrize("epoch", [0, 3])
def test_resumed_loader_gives_the_remaining_batches_from_every_position(
    options: dict[str, Any], epoch: int
) -> None:
    whole = epoch_of(make(**options), epoch)
    assert len(whole) > 2
    for position in range(len(whole)):
        resumed = make(**options)
        resumed.load_state_dict(cut_off(make(**options), epoch, position))
        assert epoch_of(resumed, epoch) == whole[position:]  # Lightning announces the epoch again


@every_way
def test_resumed_loader_goes_on_with_the_next_epoch(options: dict[str, Any]) -> None:
    resumed = make(**options)
    resumed.load_state_dict(cut_off(make(**options), 1, 2))
    epoch_of(resumed, 1)
    assert epoch_of(resumed, 2) == epoch_of(make(**options), 2)


@every_way
def test_loader_resumed_at_the_end_of_an_epoch_starts_the_next_one(
    options: dict[str, Any],
) -> None:
    resumed = make(**options)
    resumed.load_state_dict(cut_off(make(**options), 0, len(resumed)))
    assert epoch_of(resumed, 1) == epoch_of(make(**options), 1)


@every_way
def test_loader_that_broke_off_an_epoch_starts_the_next_one_anew(options: dict[str, Any]) -> None:
    loader = make(**options)
    cut_off(loader, 0, 2)
    assert epoch_of(loader, 1) == epoch_of(make(**options), 1)


@every_way
def test_finished_epoch_starts_again_if_no_other_is_announced(options: dict[str, Any]) -> None:
    loader = make(**options)
    assert epoch_of(loader, 1) == epoch_of(loader, 1)


def test_state_moves_with_every_batch() -> None:
    states = [cut_off(make(), 0, position) for position in range(4)]
    assert len({json.dumps(state) for state in states}) == 4


def test_sampler_takes_the_epoch_as_lightning_announces_it() -> None:
    loader = make()
    loader.sampler.set_epoch(4)
    assert [rows(batch) for batch in loader] == epoch_of(make(), 4)


# Shards -----------------------------------------------------------------------------------------


def shards(processes: int, **options: Any) -> list[TrainLoader]:
    return [make(shard=Shard(rank, processes), **options) for rank in range(processes)]


@both_ways
@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("epoch", [0, 2])
def test_shards_together_cover_the_epoch(batch_by: str, processes: int, epoch: int) -> None:
    every_row = {tuple(row) for row in state_rows(make(batch_by=batch_by))}
    seen = set()
    for loader in shards(processes, batch_by=batch_by):
        loader.set_epoch(epoch)
        seen |= {tuple(row) for row in state_rows(loader)}
    assert seen == every_row


@both_ways
@pytest.mark.parametrize("processes", [2, 3, 5, 100])
def test_shards_have_equally_many_batches(batch_by: str, processes: int) -> None:
    counts = {len(list(loader)) for loader in shards(processes, batch_by=batch_by)}
    assert len(counts) == 1
    assert counts.pop() >= 1


@both_ways
@pytest.mark.parametrize("processes", [2, 3, 5])
def test_shards_share_batches_only_to_have_equally_many(batch_by: str, processes: int) -> None:
    whole = [rows(batch) for batch in make(batch_by=batch_by)]
    taken = [rows(batch) for loader in shards(processes, batch_by=batch_by) for batch in loader]
    assert all(batch in taken for batch in whole)
    assert all(batch in whole for batch in taken)
    assert len(taken) - len(whole) < processes


@both_ways
def test_shards_repeat_nothing_where_the_batches_divide_evenly(batch_by: str) -> None:
    processes = 2
    sizes = [
        size for size in range(5, 20) if len(make(batch_by=batch_by, batch_size=size)) % 2 == 0
    ]
    assert sizes
    for size in sizes:
        taken = [
            row
            for part in shards(processes, batch_by=batch_by, batch_size=size)
            for row in state_rows(part)
        ]
        assert sorted(taken) == state_rows(make(batch_by=batch_by, batch_size=size))
