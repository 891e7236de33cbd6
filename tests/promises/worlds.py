"""Paths given by their margins, and what a threshold does to them by a plain loop."""

import math

import numpy as np
import torch

from lit_ios.batches import PathBatch, path_batch
from lit_ios.trajectories import Trajectory, TrajectorySet


def make_paths(margins, stopped, times=None, lead=0.0):
    """Return margins of all rows, and paths that have them."""
    made = [
        Trajectory(np.array(own, dtype=float)[:, None], None if times is None else times[i], stop)
        for i, (own, stop) in enumerate(zip(margins, stopped, strict=True))
    ]
    batch = path_batch(TrajectorySet.from_paths(made), lead=lead)
    return batch.columns[:, 0].double(), batch


def drawn(seed, count=30, longest=7, ties=True, lead=0.0):
    """Draw paths with ties among their margins, at uneven times, a third of them censored."""
    rng = np.random.default_rng(seed)
    margins, times = [], []
    for _ in range(count):
        rows = int(rng.integers(1, longest + 1))
        values = rng.normal(size=rows)
        margins.append(np.round(values, 1) if ties else values)
        times.append(np.cumsum(rng.uniform(0.2, 2.0, rows)))
    return make_paths(margins, [i % 3 > 0 for i in range(count)], times, lead)


def first_stops(margin, batch, threshold):
    """Return of each path the row of its first stop, None if there is none."""
    found = []
    for path in range(len(batch.stopped)):
        rows = (batch.path == path).nonzero().squeeze(-1).tolist()
        found.append(next((row for row in rows if margin[row] >= threshold), None))
    return found


def counts(margin, batch: PathBatch, threshold):
    """Return events missed, censored paths stopped, by a loop."""
    missed = alarms = 0
    for path, row in enumerate(first_stops(margin, batch, threshold)):
        if batch.stopped[path]:
            event = float(batch.time[batch.last_row[path]])
            missed += row is None or float(batch.time[row]) > event - batch.lead + 1e-9
        else:
            alarms += row is not None
    return missed, alarms


def thresholds(margin):
    """Return all margins and ∞, falling."""
    return [math.inf, *sorted(set(margin.tolist()), reverse=True)]


def single_rows(highest, stopped):
    """Return paths of one row with these margins: a path's largest margin is all that counts."""
    margin = torch.as_tensor(highest, dtype=torch.double)
    count = len(margin)
    every, zeros = torch.arange(count), torch.zeros(count, dtype=torch.int64)
    batch = PathBatch(
        columns=margin[:, None], time=zeros.double(), step=zeros, first_row=every, path=every,
        last_row=every, stopped=torch.as_tensor(stopped), number=every,
    )  # fmt: skip
    return margin, batch
