"""Loaders that yield ready batches from memory.

The order of a training epoch is a function of (seed, epoch) alone and the position in it is the
loader's state, so a resumed run sees the very batches the interrupted one would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lit_ios.batches import PathBatch, TrainBatch, path_batch, path_groups
from lit_ios.sampling import balance_stops, bootstrap_stops
from lit_ios.trajectories import STOP, BoolArray, FloatArray, IntArray, TrajectorySet

BatchBy = Literal["rows", "paths"]


class Shard(NamedTuple):
    """Which part of the batches this process takes."""

    rank: int = 0
    world_size: int = 1


ALL = Shard()
NO_TRANSITION = -1  # in the place of an action: the last row of a censored path
GATHERED = 64  # batches whose columns are gathered at once


class Plan(NamedTuple):
    """One epoch: rows in their order, and where the batches begin."""

    rows: IntArray  # (E,)
    bounds: IntArray  # (batches + 1,)
    copies: npt.NDArray[np.float32]  # (E,), or (K, E) where members differ
    first: IntArray | None  # (E,) position of the first row of the row's path
    seen: npt.NDArray[np.float32] | None  # (K, E) how often each member sees the row's path


def _equal_parts(count: int, parts: int) -> IntArray:
    """Return where near-equal parts begin, the longer ones first, and the end."""
    size, longer = divmod(count, parts)
    number = np.arange(parts + 1)
    return number * size + np.minimum(number, longer)


class TrainLoader:
    """Batches of transitions from standardised training paths and synthetic stop rows.

    An epoch is planned at once; batches are then cut from columns gathered for many of them.

    Args:
        paths: standardised training paths.
        synthetic: (S, D) stop states made by SMOTE.
        believed: (S,) how much each of them counts; None for 1.
        batch_size: rows in a batch; by paths, the number of rows at which a batch is full.
        batch_by: `rows` shuffles rows; `paths` shuffles whole paths, which come along.
        bootstrap_ratio: stops per continue row after local bootstrap; None for no bootstrap.
        seen: (K, P) how often each member sees each path; None if all see all of them.
        seed: with the epoch, decides the order.
        shard: every process makes the same plan and takes its share of the batches.
        together: returns what all processes that have paths of their own have; they agree on the
            number of batches.
        device: where the columns lie and the batches are made.
    """

    def __init__(
        self,
        paths: TrajectorySet,
        synthetic: FloatArray | None = None,
        *,
        believed: FloatArray | None = None,
        batch_size: int = 128,
        batch_by: BatchBy = "rows",
        bootstrap_ratio: float | None = None,
        seen: FloatArray | None = None,
        seed: int = 0,
        shard: Shard = ALL,
        together: Callable[[IntArray], list[IntArray]] = lambda value: [value],
        device: torch.device | str = "cpu",
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.batch_size, self.batch_by = batch_size, batch_by
        self.bootstrap_ratio, self.seed, self.shard = bootstrap_ratio, seed, shard
        # synthetic rows, of path −1, are seen by all
        self.seen = None if seen is None else np.pad(seen, ((0, 0), (0, 1)), constant_values=1)
        self.device = torch.device(device)
        self._fill_columns(paths, synthetic)
        self.believed = believed
        self.batches = self._count_batches(together)
        self.epoch = 0
        self.position = 0
        self.sampler = self  # Lightning announces the epoch to `loader.sampler`

    def _fill_columns(self, paths: TrajectorySet, synthetic: FloatArray | None) -> None:
        """Lay out path rows, then synthetic rows."""
        rows, dim = paths.states.shape
        extra = np.empty((0, dim), np.float32) if synthetic is None else synthetic
        self.names = paths.names
        self.offsets, self.synthetic_rows = paths.offsets, np.arange(rows, rows + len(extra))
        self.actions = np.full(rows + len(extra), STOP, dtype=np.int8)
        self.actions[:rows] = paths.actions
        self.actions[paths.last_rows[~paths.stopped]] = NO_TRANSITION
        if (self.actions[:rows] == NO_TRANSITION).all():
            raise ValueError("no transition to train on: every path is censored after one row")
        states = np.concatenate([paths.states, extra]) if len(extra) else paths.states
        self._state = self._column(states, torch.float32)  # not copied where it is already
        none = np.zeros(len(extra), np.int32)
        self._step = self._column(np.concatenate([paths.steps, none]), torch.int32)
        self.path_of_row = np.concatenate([paths.path_of_row, none - 1])
        self._stop = self._column(self.actions == STOP, torch.bool)

    def _column(self, values: Any, dtype: torch.dtype) -> Tensor:
        return torch.as_tensor(values, dtype=dtype).to(self.device)

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

    def _count_batches(self, together: Callable[[IntArray], list[IntArray]]) -> int:
        """Batches per epoch of one plan: near-equal, of about `batch_size` rows."""
        rows = int((self.actions != NO_TRANSITION).sum())
        most = rows if self.batch_by == "rows" else len(self.offsets) - 1
        plans = np.array(together(np.array([rows, most])))  # (processes, 2)
        return int(np.clip(round(plans[:, 0].mean() / self.batch_size), 1, plans[:, 1].min()))

    def __len__(self) -> int:
        """Return the number of batches per epoch of this process."""
        return -(-self.batches // self.shard.world_size)

    def __iter__(self) -> Iterator[TrainBatch]:
        """Go through the rest of the epoch, or through all of it if it was finished."""
        self.position %= len(self)
        plan = self._plan()
        numbers = self._numbers(np.arange(self.position, len(self)))
        for some in np.split(numbers, np.arange(GATHERED, len(numbers), GATHERED)):
            for batch in self._gather(plan, some):
                self.position += 1
                yield batch

    def _numbers(self, turns: IntArray) -> IntArray:
        """Return which batches of the plan come in these turns of this process."""
        return (turns * self.shard.world_size + self.shard.rank) % self.batches

    def path_of(self, turn: int, row: int) -> str | None:
        """Return the path that a row of this epoch's batch came from; None if SMOTE made it.

        Args:
            turn: of the batch, from 0.
            row: in the batch.
        """
        plan = self._plan()
        begin = plan.bounds[self._numbers(np.array([turn]))[0]]
        path = int(self.path_of_row[plan.rows[begin + row]])
        return None if path < 0 else self.names[path]

    def _plan(self) -> Plan:
        """Deal this epoch's rows out to the batches."""
        rng = np.random.default_rng([1, self.seed, self.epoch])
        if self.batch_by == "rows":
            rows = rng.permutation(np.flatnonzero(self.actions != NO_TRANSITION))
            bounds, first = _equal_parts(len(rows), self.batches), None
        else:
            rows, bounds, first = self._deal_out_paths(rng)
        actions = self.actions[rows]
        copies = (actions != NO_TRANSITION).astype(np.float32)
        if self.believed is not None:
            made = rows >= self.offsets[-1]
            copies[made] *= self.believed[rows[made] - self.offsets[-1]]
        if self.bootstrap_ratio is not None:
            rng = np.random.default_rng([2, self.seed, self.epoch])
            drawn = bootstrap_stops(actions, rng, ratio=self.bootstrap_ratio, bounds=bounds)
            copies += np.bincount(drawn, minlength=len(rows))
        if self.seen is None:
            return Plan(rows, bounds, copies, first, None)
        seen = self.seen[:, self.path_of_row[rows]].astype(np.float32)
        copies = seen * copies
        if self.bootstrap_ratio is not None:
            ratio = self.bootstrap_ratio
            copies = balance_stops(seen, copies, actions, bounds, ratio)
        return Plan(rows, bounds, copies, first, seen)

    def _deal_out_paths(self, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Return all rows path by path, where the batches begin, and each path's first position."""
        paths = rng.permutation(len(self.offsets) - 1)
        synthetic = rng.permutation(self.synthetic_rows)
        lengths = np.diff(self.offsets)[paths]
        ends = np.cumsum(lengths)
        first = np.repeat(ends - lengths, lengths)
        rows = np.arange(len(first)) + np.repeat(self.offsets[paths], lengths) - first
        bounds = np.append(0, ends)[_equal_parts(len(paths), self.batches)]
        if len(synthetic):  # after the paths of each batch
            parts = _equal_parts(len(synthetic), self.batches)
            at = np.repeat(bounds[1:], np.diff(parts))
            first = np.insert(first + np.repeat(parts[:-1], np.diff(bounds)), at, 0)
            rows, bounds = np.insert(rows, at, synthetic), bounds + parts
            own = rows >= self.offsets[-1]
            first[own] = np.flatnonzero(own)
        return rows, bounds, first

    def _gather(self, plan: Plan, numbers: IntArray) -> Iterator[TrainBatch]:
        """Gather the columns of several batches at once and cut them apart."""
        parts = [slice(plan.bounds[n], plan.bounds[n + 1]) for n in numbers]
        sizes = [part.stop - part.start for part in parts]
        rows = self._column(np.concatenate([plan.rows[part] for part in parts]), torch.int64)
        stop = self._stop[rows]
        following = self._state[(rows + 1).clamp_max(len(self._state) - 1)]
        columns = [
            self._state[rows],
            (~stop).float(),
            following.masked_fill_(stop[:, None], 0.0),  # the cemetery
            self._step[rows].long(),
            (rows >= int(self.offsets[-1])).float(),
        ]
        cut: list[Any] = [torch.split(column, sizes) for column in columns]
        cut.append(torch.split(self._weights(plan.copies, parts), sizes, -1))
        if plan.first is None:
            cut.append([None] * len(parts))
        else:
            first = np.concatenate([plan.first[part] - part.start for part in parts])
            cut.append(torch.split(self._column(first, torch.int64), sizes))
        if plan.seen is not None:
            cut.append(torch.split(self._weights(plan.seen, parts), sizes, -1))
        return (TrainBatch(*batch) for batch in zip(*cut, strict=True))

    def _weights(self, weights: npt.NDArray[np.float32], parts: list[slice]) -> Tensor:
        """Return weights of rows, or of members and rows, of several batches."""
        gathered = np.concatenate([weights[..., part] for part in parts], axis=-1)
        return self._column(gathered, torch.float32)


class Chunks:
    """Several training batches at a time, so that what a trainer does between calls costs little.

    Args:
        loader: makes the batches.
        size: batches in a chunk.
    """

    def __init__(self, loader: TrainLoader, size: int) -> None:
        if size < 1:
            raise ValueError(f"batches_per_call must be at least 1, got {size}")
        self.loader, self.size = loader, size
        self.sampler = loader
        self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict
        self.path_of = loader.path_of

    def __len__(self) -> int:
        """Return the number of chunks per epoch of this process."""
        return -(-len(self.loader) // self.size)

    def __iter__(self) -> Iterator[list[TrainBatch]]:
        """Go through the rest of the epoch, or through all of it if it was finished."""
        batches = iter(self.loader)
        while chunk := list(islice(batches, self.size)):
            yield chunk


class PathLoader:
    """Batches of whole paths in raw units, in their order, each path once.

    A process without paths of its own still yields one batch, an empty one, so that all
    processes meet at the end of the epoch.

    Args:
        paths: of raw columns.
        judges: (K, P) which members judge each path; None for all.
        rows_per_batch: no path is added to a batch that holds this many rows.
        shard: this process takes every world_size-th path.
        lead: required between a stop and the event, in the data's unit.
    """

    def __init__(
        self,
        paths: TrajectorySet,
        judges: BoolArray | None = None,
        *,
        rows_per_batch: int = 65_536,
        shard: Shard = ALL,
        lead: float = 0.0,
    ) -> None:
        if rows_per_batch < 1:
            raise ValueError(f"rows_per_batch must be at least 1, got {rows_per_batch}")
        self.paths, self.judges, self.lead = paths, judges, lead
        mine = np.arange(shard.rank, len(paths), shard.world_size)
        self._groups = path_groups(paths, mine, rows_per_batch)
        self._only: PathBatch | None = None  # batch that there is, kept for the next epoch

    def __len__(self) -> int:
        """Return the number of batches of this process."""
        return len(self._groups)

    def __iter__(self) -> Iterator[PathBatch]:
        """Go through the paths once."""
        if len(self._groups) > 1:
            return map(self._batch, self._groups)
        if self._only is None:
            self._only = self._batch(self._groups[0])
        return iter([self._only])

    def _batch(self, group: IntArray) -> PathBatch:
        return path_batch(self.paths, group, self.judges, self.lead)
