"""M9 as torchmetrics: batches add up, NaN bounds do not count."""

import numpy as np
import pytest
import torch

from lit_ios.batches import path_batch
from lit_ios.forecast_metrics import BoundCoverage, RemainingBrier
from lit_ios.functional.remaining import brier_score, time_left
from lit_ios.metrics import MissingClassWarning
from lit_ios.trajectories import Trajectory, TrajectorySet


def some_paths(seed=0, count=30):
    rng = np.random.default_rng(seed)
    return TrajectorySet.from_paths(
        Trajectory(np.zeros((int(n), 1)), stopped=bool(i % 3), name=str(i))
        for i, n in enumerate(rng.integers(1, 9, count))
    )


def test_brier_score_of_batches_is_that_of_all_paths():
    paths = some_paths()
    whole = path_batch(paths)
    rows = time_left(whole)
    within = torch.rand(len(rows.left), generator=torch.Generator().manual_seed(1)).double()
    metric, begin = RemainingBrier(2.0), 0
    for part in np.split(np.arange(len(paths)), [7, 20]):
        batch = path_batch(paths, part)
        metric.update(within[begin : begin + len(batch.time)], batch)
        begin += len(batch.time)
    ends, seen = (rows.elapsed + rows.left)[whole.last_row], rows.seen[whole.last_row]
    assert float(metric.compute()) == pytest.approx(
        float(brier_score(within, rows, 2.0, ends, seen))
    )


def test_coverage_is_the_share_of_bounds_that_hold():
    paths = some_paths(seed=2)
    low = np.random.default_rng(2).uniform(0, 6, len(paths.states))
    low[::4] = np.nan
    held = rows = 0
    for i, path in enumerate(paths):
        for t in range(len(path)):
            bound = low[paths.offsets[i] + t]
            if bound == bound:
                rows += 1
                held += len(path) - 1 - t >= bound
    metric = BoundCoverage()
    metric.update(torch.from_numpy(low), path_batch(paths))
    assert float(metric.compute()) == pytest.approx(held / rows)


def test_coverage_without_a_bound_is_nan_and_said_once():
    metric, paths = BoundCoverage(), path_batch(some_paths(count=3))
    metric.update(torch.full((len(paths.time),), torch.nan), paths)
    with pytest.warns(MissingClassWarning, match="no rows with a bound"):
        assert torch.isnan(metric.compute())
