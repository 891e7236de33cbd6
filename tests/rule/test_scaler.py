"""States in units of their spread: the scale that training statistics give."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from lit_ios.rule import Scaler
from lit_ios.sampling import Statistics, fit_statistics
from lit_ios.trajectories import Trajectory, TrajectorySet


@pytest.fixture
def states() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal([0.0, 100.0, -3e5], [1.0, 0.01, 2e4], (200, 3))


def scaler_of(statistics: Statistics) -> Scaler:
    scaler = Scaler(len(statistics.mean))
    scaler.set(*statistics)
    return scaler


def scaled(states: np.ndarray, statistics: Statistics) -> np.ndarray:
    """Return states standardised as those of one path."""
    paths = TrajectorySet.from_paths([Trajectory(states)])
    return scaler_of(statistics).paths(paths).states


def test_scaled_states_equal_scikit_learn(states: np.ndarray) -> None:
    expected = StandardScaler().fit_transform(states)
    found = scaled(states, fit_statistics(states))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_scaled_training_rows_have_mean_zero_and_deviation_one(states: np.ndarray) -> None:
    found = scaled(states, fit_statistics(states)).astype(np.float64)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-6)


def test_scaler_uses_the_statistics_given_and_not_those_of_its_rows() -> None:
    statistics = Statistics(np.array([1.0, -2.0]), np.array([2.0, 4.0]))
    found = scaled(np.array([[5.0, 6.0], [1.0, -2.0]]), statistics)
    assert found.tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_scaler_changes_nothing_before_it_has_statistics(states: np.ndarray) -> None:
    assert np.array_equal(Scaler(3)(torch.from_numpy(states)).numpy(), states)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_paths_are_float32(states: np.ndarray, dtype: type) -> None:
    cast = states.astype(dtype)
    assert scaled(cast, fit_statistics(cast)).dtype == np.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaled_rows_are_double(states: np.ndarray, dtype: torch.dtype) -> None:
    rows = torch.from_numpy(states).to(dtype)
    assert scaler_of(fit_statistics(states))(rows).dtype == torch.float64


def test_scaler_subtracts_before_it_rounds() -> None:
    states = 1e9 + np.arange(5.0)[:, None]  # float32 cannot tell these numbers apart
    found = scaled(states, fit_statistics(states))[:, 0]
    np.testing.assert_allclose(found, (np.arange(5) - 2) / math.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e8 + 0.1, -1e-9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 333, 300_000])
def test_constant_column_is_zero_whatever_comes_later(value: float, dtype: type, rows: int) -> None:
    found = fit_statistics(np.full((rows, 1), value, dtype=dtype))
    later = np.array([[value], [value + 1], [-1e6]])
    assert scaled(later, found).tolist() == [[0.0], [0.0], [0.0]]


def test_scaler_changes_nothing_but_the_states(states: np.ndarray) -> None:
    path = Trajectory(states, times=np.arange(200) * 0.5, stopped=False, name="engine")
    paths = TrajectorySet.from_paths([path, path], ["heat", "speed", "load"])
    found = scaler_of(fit_statistics(states)).paths(paths)
    assert np.array_equal(found.times, paths.times)
    assert np.array_equal(found.offsets, paths.offsets)
    assert np.array_equal(found.stopped, paths.stopped)
    assert found.names == paths.names
    assert found.feature_names == paths.feature_names
