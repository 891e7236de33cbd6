"""How many paths have a row unlike those of training."""

import pytest
import torch

from lit_ios.metrics import UnfamiliarPaths


def test_unfamiliar_paths_are_those_with_an_unfamiliar_row(path_batch):
    metric = UnfamiliarPaths()
    names = torch.full((len(path_batch.columns), 3), -1)
    names[[0, 1, 5, 20], 0] = 1
    met = {int(path_batch.path[row]) for row in (0, 1, 5, 20)}
    metric.update(names, path_batch)
    metric.update(torch.full_like(names, -1), path_batch)
    assert metric.compute() == pytest.approx(len(met) / (2 * len(path_batch.stopped)))
