"""What rows of training were like, and which fresh rows are unlike them."""

from functools import partial
from threading import Barrier, Thread

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

from lit_ios.carry import responsible, strangeness
from lit_ios.sampling import fit_familiarity
from lit_ios.trajectories import TrajectorySet


def walks(count: int, seed: int, dim: int = 3, length: int = 20) -> TrajectorySet:
    """Return stationary, correlated paths of unit variance, the first two features alike."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(count, length, dim))
    noise[..., 1] = 0.95 * noise[..., 0] + np.sqrt(1 - 0.95**2) * noise[..., 1]
    states = np.empty_like(noise)
    states[:, 0] = noise[:, 0]
    for t in range(1, length):
        states[:, t] = 0.8 * states[:, t - 1] + 0.6 * noise[:, t]
    return TrajectorySet(
        states.reshape(-1, dim),
        np.tile(np.arange(float(length)), count),
        np.arange(count + 1) * length,
        np.ones(count, dtype=bool),
        tuple(f"{seed}-{i}" for i in range(count)),
    )


def flagged(paths: TrajectorySet, usual) -> np.ndarray:
    """Say which paths have an unfamiliar row."""
    distance, _ = strangeness(np, paths.states, usual)
    return np.maximum.reduceat(distance, paths.offsets[:-1]) > 1


@pytest.mark.parametrize("dim", [3, 12])
def test_about_one_fresh_path_in_a_hundred_has_an_unfamiliar_row(dim):
    shares = [
        flagged(walks(1000, 100 + seed, dim), fit_familiarity([walks(300, seed, dim)])).mean()
        for seed in range(10)
    ]
    assert 0.004 < np.mean(shares) < 0.02


def test_distance_is_that_of_mahalanobis_up_to_its_unit():
    paths = walks(200, 0)
    usual = fit_familiarity([paths])
    shrunk = 3 / (3 + 200)
    covariance = (1 - shrunk) * np.cov(paths.states.T, bias=True) + shrunk * np.eye(3)
    covariance += (1 - shrunk) * np.outer(*[paths.states.mean(0)] * 2)  # about 0
    alone = usual._replace(reach=0 * usual.reach)
    rows = np.random.default_rng(1).normal(size=(20, 3)) * 3
    expected = [mahalanobis(row, np.zeros(3), np.linalg.inv(covariance)) for row in rows]
    found, _ = strangeness(np, rows, alone)
    np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-9)


def test_share_of_a_coordinate_is_what_the_distance_loses_when_it_is_as_expected():
    usual = fit_familiarity([walks(200, 0)])
    alone = usual._replace(reach=0 * usual.reach)
    row = np.array([[2.0, -1.0, 0.5]])
    distance, shares = strangeness(np, row, alone)
    for i in range(3):
        others = np.linspace(-9, 9, 180_001)
        tried = np.repeat(row, len(others), axis=0)
        tried[:, i] = others
        least = strangeness(np, tried, alone)[0].min()
        np.testing.assert_allclose(distance**2 - least**2, shares[:, i] ** 2, rtol=1e-5)


def test_other_units_are_noticed_and_their_feature_named():
    usual, fresh = fit_familiarity([walks(300, 0)]), walks(100, 7)
    fresh.states[:, 2] = fresh.states[:, 2] * 100 + 32
    assert flagged(fresh, usual).all()
    _, shares = strangeness(np, fresh.states[:1], usual)
    assert responsible(np, shares)[0].tolist() == [2, -1, -1]


def test_features_that_no_longer_go_together_are_noticed_though_each_is_in_its_range():
    usual = fit_familiarity([walks(300, 0)])
    distance, shares = strangeness(np, np.array([[2.2, -2.2, 0.0]]), usual)
    assert distance[0] > 1
    assert sorted(responsible(np, shares)[0].tolist()) == [-1, 0, 1]


def test_one_feature_of_many_far_outside_its_range_is_noticed():
    usual = fit_familiarity([walks(300, 0, dim=150)])
    row = walks(1, 3, dim=150).states[:1].copy()
    row[0, 77] = 15.0
    distance, shares = strangeness(np, row, usual)
    assert distance[0] > 1
    assert responsible(np, shares)[0, 0] == 77


def test_more_than_two_hundred_features_are_taken_each_for_itself():
    usual = fit_familiarity([walks(60, 0, dim=201)])
    assert usual.pull.shape == (201,)
    assert flagged(walks(60, 0, dim=201), usual).sum() <= 2
    far = walks(60, 1, dim=201)
    far.states[:, 5] += 12
    assert flagged(far, usual).all()


def test_a_constant_feature_is_ignored():
    paths = walks(100, 0)
    paths.states[:, 1] = 0.0
    usual = fit_familiarity([paths])
    assert usual.reach[1] == 0


def test_processes_that_share_the_paths_learn_what_one_learns():
    paths = walks(90, 0)
    halves = [paths.select(np.arange(45)), paths.select(np.arange(45, 90))]
    meeting, told, found = Barrier(2), [None, None], [None, None]

    def gather(rank, value):
        told[rank] = value
        meeting.wait()
        everything = list(told)
        meeting.wait()
        return everything

    def learn(rank):
        found[rank] = fit_familiarity([halves[rank]], partial(gather, rank))

    threads = [Thread(target=learn, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in found:
        for value, expected in zip(own, fit_familiarity([paths]), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-9)
