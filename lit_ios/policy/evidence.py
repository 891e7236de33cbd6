"""What a calibration must know of paths: far less than their rows, so that many files add up.

A threshold stops a path at the first row that reaches it, which is one where the running maximum
of the margin rises. With the rows that say when a path begins, ends and could last be stopped in
time, these give the same threshold and the same figures as all rows, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.batches import PathBatch, event_times, last_in_time
from lit_ios.functional.frontier import running_maximum
from lit_ios.live.path_scores import PathScores
from lit_ios.recognition import Fingerprints
from lit_ios.trajectories import IntArray


class Evidence(NamedTuple):
    """What a calibration must know of P paths."""

    margin: Tensor  # (R,) of the rows of the batch
    batch: PathBatch  # all rows of each path, or those that matter
    labels: list[str] | None  # of the group of each path
    scores: PathScores
    marks: Fingerprints


def without_needless_rows(margin: Tensor, batch: PathBatch) -> tuple[Tensor, PathBatch]:
    """Leave out the rows that no threshold depends on, and all columns.

    Args:
        margin: (N,) of all rows.
        batch: these rows belong to.
    """
    maximum = running_maximum(margin, batch)
    kept = (batch.step == 0) | (maximum > maximum.roll(1))
    kept |= batch.step == last_in_time(batch)[batch.path]
    kept[batch.last_row] = True
    rows = kept.nonzero().squeeze(-1)
    return margin[rows], _rebuilt(batch, rows, torch.arange(len(batch.stopped)))


def joined(parts: Sequence[Evidence], kept: Sequence[IntArray]) -> Evidence:
    """Return the evidence of all parts as one.

    Args:
        parts: of different files.
        kept: numbers of the paths of each that count.
    """
    chosen = [_select(part, numbers) for part, numbers in zip(parts, kept, strict=True)]
    batches = [part.batch for part in chosen]
    before = np.cumsum([0, *(len(batch.stopped) for batch in batches)])
    path = torch.cat([batch.path + at for batch, at in zip(batches, before[:-1], strict=True)])
    every = batches[0]._replace(
        columns=torch.cat([batch.columns for batch in batches]),
        time=torch.cat([batch.time for batch in batches]),
        step=torch.cat([batch.step for batch in batches]),
        stopped=torch.cat([batch.stopped for batch in batches]),
        event_time=torch.cat([event_times(batch) for batch in batches]),
        path=path,
    )
    scores = zip(*(part.scores for part in chosen), strict=True)
    labels = [part.labels for part in chosen if part.labels is not None]
    return Evidence(
        margin=torch.cat([part.margin for part in chosen]),
        batch=_rebuilt(every, torch.arange(len(path)), torch.arange(int(before[-1]))),
        labels=list(chain.from_iterable(labels)) if labels else None,
        scores=PathScores(*(list(chain.from_iterable(values)) for values in scores)),
        marks=_own_marks([part.marks for part in chosen]),
    )


def _select(part: Evidence, numbers: IntArray) -> Evidence:
    """Return the evidence of some of the paths."""
    if len(numbers) == len(part.batch.stopped):
        return part
    which = torch.from_numpy(numbers)
    rows = torch.isin(part.batch.path, which).nonzero().squeeze(-1)
    return Evidence(
        part.margin[rows],
        _rebuilt(part.batch, rows, which),
        None if part.labels is None else [part.labels[i] for i in numbers],
        PathScores(*([values[i] for i in numbers] for values in part.scores)),
        {name: [marks[i] for i in numbers] for name, marks in part.marks.items()},
    )


def _rebuilt(batch: PathBatch, rows: Tensor, paths: Tensor) -> PathBatch:
    """Return some rows of some paths, each of which keeps its first and its last row."""
    number = torch.full((int(batch.path[-1]) + 1,), -1)
    number[paths] = torch.arange(len(paths))
    path = number[batch.path[rows]]
    counts = torch.bincount(path, minlength=len(paths))
    ends = counts.cumsum(0)
    known = batch.event_time
    return batch._replace(
        columns=torch.empty(len(rows), 0),
        time=batch.time[rows],
        step=batch.step[rows],
        first_row=(ends - counts)[path],
        path=path,
        last_row=ends - 1,
        stopped=batch.stopped[paths],
        number=torch.arange(len(paths)),
        event_time=None if known is None else known[paths],
    )


def _own_marks(parts: Sequence[Mapping[str, list[Any]]]) -> Fingerprints:
    """Join fingerprints; rows that paths of two files have tell neither."""
    rows: list[list[int]] = [marks for part in parts for marks in part["rows"]]
    values = np.array(list(chain.from_iterable(rows)), np.uint64)
    found, counts = np.unique(values, return_counts=True)
    shared = set(found[counts > 1].tolist())
    if shared:
        rows = [[mark for mark in marks if mark not in shared] for marks in rows]
    return {"whole": [digest for part in parts for digest in part["whole"]], "rows": rows}
