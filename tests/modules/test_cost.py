"""DO-IQS evaluates each row once, however the rows are cut into paths."""

import numpy as np
import pytest
from models import make

from datamodules.loaders import TrainLoader
from lit_ios.modules import DOIQS
from lit_ios.trajectories import Trajectory, TrajectorySet


@pytest.mark.parametrize("length", [5, 50, 500])
def test_rows_seen_by_the_gain_network_for_y_do_not_depend_on_path_length(length):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2000, 2)).astype(np.float32)
    paths = TrajectorySet.from_paths(
        [Trajectory(rows) for rows in np.split(states, 2000 // length)]
    )
    module = make(DOIQS, hidden=[4])
    seen = []
    module.rule.memory.trunk.register_forward_pre_hook(
        lambda _, inputs: seen.append(len(inputs[0]))
    )
    for batch in TrainLoader(paths, batch_by="paths", batch_size=128):
        _ = module.view(batch).h
    assert sum(seen) == 2000


def test_an_epoch_of_long_paths_has_as_many_rows_as_one_of_short_paths():
    rng = np.random.default_rng(0)
    rows = []
    for length in (10, 100):
        states = rng.normal(size=(1000, 1)).astype(np.float32)
        paths = TrajectorySet.from_paths([Trajectory(s) for s in np.split(states, 1000 // length)])
        rows.append(sum(len(batch.state) for batch in TrainLoader(paths, batch_by="paths")))
    assert rows == [1000, 1000]
