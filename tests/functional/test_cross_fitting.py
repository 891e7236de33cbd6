"""Choices of epoch and threshold, measured on paths that did not make them."""

import numpy as np
import pytest
import torch

from lit_ios.batches import path_batch
from lit_ios.functional.cross_fitting import SPLITS, cross_fitted, halves, honest_score
from lit_ios.metrics import CrossFittedScores
from lit_ios.trajectories import Trajectory, TrajectorySet


def naive_balance(maximum, stop, threshold):
    caught = [m >= threshold for m, s in zip(maximum, stop, strict=True) if s]
    passed = [m < threshold for m, s in zip(maximum, stop, strict=True) if not s]
    return (sum(caught) / len(caught) + sum(passed) / len(passed)) / 2


def rows(seed, paths=24, length=5):
    """Return running maxima of paths whose last row is the stop."""
    rng = np.random.default_rng(seed)
    maximum = np.maximum.accumulate(rng.normal(size=(paths, length)), axis=1)
    maximum[:, -1] += rng.exponential(size=paths)
    stop = np.zeros((paths, length), dtype=bool)
    stop[:, -1] = True
    number = np.repeat(np.arange(paths), length)
    return torch.from_numpy(maximum.ravel()), torch.from_numpy(stop.ravel()), torch.tensor(number)


def test_halves_are_of_equal_size_and_cut_each_other_in_half():
    sides = halves(torch.arange(64)).int()
    assert sides.shape == (64, SPLITS)
    assert sides.sum(0).tolist() == [32] * SPLITS
    together = sides.T @ sides
    assert (together - torch.diag(together.diag())).unique().tolist() == [0, 16]


def test_each_half_has_its_best_threshold_and_is_scored_on_both():
    maximum, stop, number = rows(0)
    scores = cross_fitted(maximum, stop, halves(number))
    assert scores.shape == (2 * SPLITS, 2)
    for i, way in enumerate(halves(number).T):
        for j, own in enumerate((way, ~way)):
            m, s = maximum[own].tolist(), stop[own].tolist()
            best = max(naive_balance(m, s, b) for b in m)
            assert scores[2 * i + j, 0] == pytest.approx(best)
            assert 0 <= scores[2 * i + j, 1] <= 1
    assert scores[:, 0].mean() > scores[:, 1].mean()


def test_honest_score_takes_each_halfs_best_epoch_and_the_other_halfs_score():
    history = [
        [[0.9, 0.5], [0.6, 0.7]],
        [[0.8, 0.9], [0.7, 0.6]],
    ]
    assert honest_score(history) == pytest.approx((0.5 + 0.6) / 2)
    assert honest_score(history[:1]) == pytest.approx((0.5 + 0.7) / 2)


def test_honest_score_of_pure_noise_is_a_half_where_the_best_score_is_not():
    history, best = [], 0.0
    for epoch in range(40):
        rng = np.random.default_rng(epoch)
        maximum = torch.from_numpy(rng.normal(size=100))
        stop = torch.arange(100) % 2 == 0
        history.append(cross_fitted(maximum, stop, halves(torch.arange(100) // 2)).tolist())
        best = max(best, *(naive_balance(maximum.tolist(), stop.tolist(), b) for b in maximum))
    assert best > 0.58
    assert abs(honest_score(history) - 0.5) < 0.04


def test_a_half_without_a_stop_neither_chooses_nor_measures():
    maximum, stop, number = rows(1, paths=8)
    stop &= number < 4  # in the third way, one half has all stops
    scores = cross_fitted(maximum, stop, halves(number))
    assert scores[:4].isfinite().all()
    assert scores[4:].isnan().all()
    assert honest_score([scores.tolist()]) == pytest.approx(float(scores[:4, 1].mean()))


def test_without_epochs_or_stops_nothing_can_be_said():
    assert np.isnan(honest_score([]))
    maximum, stop, number = rows(1, paths=8)
    scores = cross_fitted(maximum, torch.zeros_like(stop), halves(number))
    assert np.isnan(honest_score([scores.tolist()]))


@pytest.mark.parametrize("stops", [slice(None, None, 2), slice(None, None, 8), slice(0, 5)])
def test_perfect_margins_have_a_perfect_score_wherever_the_stops_lie(stops):
    paths = [Trajectory(np.zeros((3, 1)), stopped=False, name=str(i)) for i in range(40)]
    for path in paths[stops]:
        object.__setattr__(path, "stopped", True)
    batch = path_batch(TrajectorySet.from_paths(paths))
    margin = torch.full((120,), -1.0)
    margin[batch.last_row[batch.stopped]] = 1.0
    metric = CrossFittedScores()
    for some in (np.arange(25), np.arange(25, 40)):  # in two batches
        part = path_batch(TrajectorySet.from_paths([paths[i] for i in some]))
        rows = torch.isin(batch.path, torch.from_numpy(some))
        metric.update(margin[rows], part)
    assert honest_score([metric.compute().tolist()]) == 1.0
