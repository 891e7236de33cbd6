"""The best threshold against trying all of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datamodules.loaders import PathLoader
from lit_ios.functional.frontier import balanced_margin
from lit_ios.metrics import BalancedAccuracy
from lit_ios.trajectories import Trajectory, TrajectorySet

path = st.tuples(st.lists(st.integers(-4, 4), min_size=1, max_size=6), st.booleans())


def accuracy(margin, batch, threshold):
    metric = BalancedAccuracy()
    metric.update(margin, batch, torch.tensor(threshold))
    return float(metric.compute())


@given(st.lists(path, min_size=2, max_size=6))
@settings(max_examples=200, deadline=None)
def test_no_threshold_is_better(paths):
    if not any(stopped for _, stopped in paths) or all(s and len(m) == 1 for m, s in paths):
        return
    made = TrajectorySet.from_paths(
        Trajectory(np.array(m, dtype=float)[:, None], stopped=stopped) for m, stopped in paths
    )
    batch = next(iter(PathLoader(made)))
    margin = batch.columns[:, 0]
    every = [*(margin.unique() - 0.25).tolist(), float("inf")]
    best = max(accuracy(margin, batch, b) for b in every)
    assert accuracy(margin, batch, float(balanced_margin(margin, batch))) == pytest.approx(best)
