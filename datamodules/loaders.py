"""Loaders that yield ready batches from memory.

The order of a training epoch is a function of (seed, epoch) alone and the position in it is the
loader's state, so a resumed run sees the very batches the interrupted one would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.batches import PathBatch, PathRows, TrainBatch
from lit_ios.sampling import bootstrap_stops
from lit_ios.trajectories import CONTINUE, STOP, FloatArray, IntArray, TrajectorySet

BatchBy = Literal["rows", "paths"]


class Shard(NamedTuple):
    """Which part of the batches this process takes."""

    rank: int = 0
    world_size: int = 1


ALL = Shard()


class TrainLoader:
    """Batches of transitions from standardised training paths and synthetic stop rows.

    Args:
        paths: standardised training paths.
        synthetic: (S, D) stop states made by SMOTE.
        batch_size: rows in a batch; by paths, the number of rows at which a batch is full.
        batch_by: `rows` shuffles rows; `paths` shuffles whole paths, which come along.
        bootstrap_ratio: stops per continue row after local bootstrap; None for no bootstrap.
        seed: with the epoch, decides the order.
        shard: every process makes the same plan and takes its share of the batches.
    """

    def __init__(
        self,
        paths: TrajectorySet,
        synthetic: FloatArray | None = None,
        *,
        batch_size: int = 128,
        batch_by: BatchBy = "rows",
        bootstrap_ratio: float | None = None,
        seed: int = 0,
        shard: Shard = ALL,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.batch_size, self.batch_by = batch_size, batch_by
        self.bootstrap_ratio, self.seed, self.shard = bootstrap_ratio, seed, shard
        self._fill_columns(paths, synthetic)
        self.batches = self._count_batches()
        self.epoch = 0
        self.position = 0
        self.sampler = self  # Lightning announces the epoch to `loader.sampler`

    def _fill_columns(self, paths: TrajectorySet, synthetic: FloatArray | None) -> None:
        """Lay out path rows, then synthetic rows, then one zero row, the cemetery."""
        rows, dim = paths.states.shape
        extra = np.empty((0, dim), np.float32) if synthetic is None else synthetic
        cemetery = rows + len(extra)
        actions = np.concatenate([paths.actions, np.full(len(extra), STOP)])
        states = np.concatenate([paths.states, extra, np.zeros((1, dim))])
        successor = np.where(actions == CONTINUE, np.arange(1, cemetery + 1), cemetery)
        censored_end = paths.last_rows[~paths.stopped]
        self.transitions = np.delete(np.arange(rows), censored_end)
        if len(self.transitions) == 0:
            raise ValueError("no transition to train on: every path is censored after one row")
        self.synthetic_rows = np.arange(rows, cemetery)
        self.actions, self.offsets = actions, paths.offsets
        self._state = torch.from_numpy(states.astype(np.float32, copy=False))
        self._action = torch.from_numpy(actions.astype(np.float32))
        self._successor = torch.from_numpy(successor)
        self._step = torch.from_numpy(np.concatenate([paths.steps, np.zeros(len(extra), int)]))
        self._synthetic = torch.from_numpy((np.arange(cemetery) >= rows).astype(np.float32))

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.position = state["epoch"], state["position"]

    def _count_batches(self) -> int:
        """Batches per epoch over all processes: near-equal, of about `batch_size` rows."""
        rows = len(self.transitions) + len(self.synthetic_rows)
        most = rows if self.batch_by == "rows" else len(self.offsets) - 1
        return int(np.clip(round(rows / self.batch_size), 1, most))

    def __len__(self) -> int:
        """Return the number of batches per epoch of this process."""
        return -(-self.batches // self.shard.world_size)

    def __iter__(self) -> Iterator[TrainBatch]:
        """Go through the rest of the epoch, or through all of it if it was finished."""
        self.position %= len(self)
        make = self._row_batch if self.batch_by == "rows" else self._path_batch
        order = self._order()
        while self.position < len(self):
            number = (self.position * self.shard.world_size + self.shard.rank) % self.batches
            self.position += 1
            yield make(number, *(part[number] for part in order))

    def _order(self) -> list[list[IntArray]]:
        """Deal this epoch's rows, or its paths and synthetic rows, out to the batches."""
        rng = np.random.default_rng([1, self.seed, self.epoch])
        if self.batch_by == "rows":
            parts = [np.concatenate([self.transitions, self.synthetic_rows])]
        else:
            parts = [np.arange(len(self.offsets) - 1), self.synthetic_rows]
        return [np.array_split(rng.permutation(part), self.batches) for part in parts]

    def _row_batch(self, number: int, rows: IntArray) -> TrainBatch:
        if self.bootstrap_ratio is not None:
            rows = np.concatenate([rows, rows[self._drawn_again(rows, number)]])
        return self._gather(rows)

    def _path_batch(self, number: int, paths: IntArray, synthetic: IntArray) -> TrainBatch:
        starts, ends = self.offsets[paths], self.offsets[paths + 1]
        lengths = ends - starts
        begins = np.cumsum(lengths) - lengths  # where each path begins in the batch
        path_rows = np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)
        censored_end = (ends - 1)[self.actions[ends - 1] == CONTINUE]
        at = np.flatnonzero(~np.isin(path_rows, censored_end))
        if self.bootstrap_ratio is not None:
            at = np.concatenate([at, at[self._drawn_again(path_rows[at], number)]])
        take = torch.from_numpy(path_rows)
        whole = PathRows(
            state=self._state[take],
            step=self._step[take],
            first_row=torch.from_numpy(np.repeat(begins, lengths)),
        )
        rows = np.concatenate([path_rows[at], synthetic])
        at = np.concatenate([at, np.full(len(synthetic), -1)])
        return self._gather(rows)._replace(paths=whole, at=torch.from_numpy(at))

    def _drawn_again(self, rows: IntArray, number: int) -> IntArray:
        """Return positions in `rows` that local bootstrap adds to batch `number`."""
        rng = np.random.default_rng([2, self.seed, self.epoch, number])
        assert self.bootstrap_ratio is not None
        return bootstrap_stops(self.actions[rows], rng, ratio=self.bootstrap_ratio)

    def _gather(self, rows: IntArray) -> TrainBatch:
        take = torch.from_numpy(rows)
        return TrainBatch(
            state=self._state[take],
            action=self._action[take],
            next_state=self._state[self._successor[take]],
            step=self._step[take],
            synthetic=self._synthetic[take],
        )


class PathLoader:
    """Batches of whole paths in raw units, in their order, each path once.

    A process without paths of its own still yields one batch, an empty one, so that all
    processes meet at the end of the epoch.

    Args:
        paths: states in raw units.
        rows_per_batch: no path is added to a batch that holds this many rows.
        shard: this process takes every world_size-th path.
    """

    def __init__(
        self, paths: TrajectorySet, *, rows_per_batch: int = 65_536, shard: Shard = ALL
    ) -> None:
        if rows_per_batch < 1:
            raise ValueError(f"rows_per_batch must be at least 1, got {rows_per_batch}")
        self.paths = paths
        mine = np.arange(shard.rank, len(paths), shard.world_size)
        lengths = paths.lengths[mine]
        batch = (np.cumsum(lengths) - lengths) // rows_per_batch
        self._groups = np.split(mine, np.flatnonzero(np.diff(batch)) + 1)

    def __len__(self) -> int:
        """Return the number of batches of this process."""
        return len(self._groups)

    def __iter__(self) -> Iterator[PathBatch]:
        """Go through the paths once."""
        return (self._batch(group) for group in self._groups)

    def _batch(self, numbers: IntArray) -> PathBatch:
        paths = self.paths
        lengths = paths.lengths[numbers]
        begins = np.cumsum(lengths) - lengths
        first_row = np.repeat(begins, lengths)
        rows = np.arange(lengths.sum()) + np.repeat(paths.offsets[numbers] - begins, lengths)
        return PathBatch(
            state=_tensor(paths.states[rows]),
            time=_tensor(paths.times[rows]),
            step=_tensor(np.arange(len(rows)) - first_row),
            first_row=_tensor(first_row),
            path=_tensor(np.repeat(np.arange(len(numbers)), lengths)),
            last_row=_tensor(begins + lengths - 1),
            stopped=_tensor(paths.stopped[numbers]),
            number=_tensor(numbers),
            event_time=_tensor(paths.events[numbers]),
        )


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
