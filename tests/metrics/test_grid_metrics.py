"""M6: the recovered region against the true one, on grid points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, jaccard_score

from lit_ios.metrics import GridBalancedAccuracy, GridIoU

METRICS = pytest.mark.parametrize(
    ("make", "reference"),
    [(GridBalancedAccuracy, balanced_accuracy_score), (GridIoU, jaccard_score)],
    ids=["balanced_accuracy", "iou"],
)


def regions(seed: int, points: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(points) < rng.uniform(0.1, 0.9)
    predicted = truth ^ (rng.random(points) < rng.uniform(0.05, 0.6))
    return predicted, truth


@METRICS
@pytest.mark.parametrize("seed", range(10))
def test_grid_metric_equals_scikit_learn(make: type, reference: object, seed: int) -> None:
    predicted, truth = regions(seed)
    metric = make()
    metric.update(torch.from_numpy(predicted), torch.from_numpy(truth))
    assert metric.compute().item() == pytest.approx(reference(truth, predicted), rel=1e-6)


@METRICS
@pytest.mark.parametrize("seed", range(3))
def test_grid_metric_pools_the_grids_of_all_times(make: type, reference: object, seed: int) -> None:
    predicted, truth = regions(seed)
    metric = make()
    for part in np.split(np.arange(300), [0, 1, 120, 121]):
        metric.update(torch.from_numpy(predicted[part]), torch.from_numpy(truth[part]))
    assert metric.compute().item() == pytest.approx(reference(truth, predicted), rel=1e-6)


@pytest.mark.parametrize("make", [GridBalancedAccuracy, GridIoU])
def test_grid_metric_of_the_true_region_is_one(make: type) -> None:
    _, truth = regions(0)
    metric = make()
    metric.update(torch.from_numpy(truth), torch.from_numpy(truth))
    assert metric.compute() == 1


@pytest.mark.parametrize("make", [GridBalancedAccuracy, GridIoU])
def test_grid_metric_of_the_complement_is_zero(make: type) -> None:
    _, truth = regions(0)
    metric = make()
    metric.update(torch.from_numpy(~truth), torch.from_numpy(truth))
    assert metric.compute() == 0


def test_grid_iou_is_symmetric() -> None:
    predicted, truth = map(torch.from_numpy, regions(1))
    one, other = GridIoU(), GridIoU()
    one.update(predicted, truth)
    other.update(truth, predicted)
    assert one.compute() == other.compute()
