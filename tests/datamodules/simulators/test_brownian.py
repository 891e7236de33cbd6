import numpy as np
import pytest

from datamodules.simulators.brownian import NEVER, brownian_motion, cut_at_stop, first_stop


def test_brownian_motion_starts_at_zero_and_has_variance_dt_per_step():
    states = brownian_motion(np.random.default_rng(0), 20_000, steps=5, dim=3, dt=0.04)
    assert states.shape == (20_000, 6, 3)
    assert (states[:, 0] == 0).all()
    steps = np.diff(states, axis=1)
    np.testing.assert_allclose(steps.var(axis=(0, 2)), 0.04, rtol=0.03)
    np.testing.assert_allclose(states[:, -1].var(axis=0), 0.2, rtol=0.05)


def test_brownian_motion_has_independent_coordinates_and_steps():
    states = brownian_motion(np.random.default_rng(0), 20_000, steps=2, dim=2, dt=1.0)
    correlation = np.corrcoef(np.diff(states, axis=1).reshape(20_000, 4).T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=0.03)


def test_first_stop_is_the_first_true_or_never():
    stops = np.array([[False, True, True], [True, False, False], [False, False, False]])
    assert first_stop(stops).tolist() == [1, 0, NEVER]


def test_cut_at_stop_equals_slicing_path_by_path():
    rng = np.random.default_rng(1)
    states = rng.standard_normal((30, 8, 2))
    start = rng.integers(0, 3, 30)
    stop = rng.integers(3, 8, 30)
    stop[::4] = NEVER
    paths = cut_at_stop(states, stop, ("a", "b"), start)
    for i, path in enumerate(paths):
        end = 8 if stop[i] == NEVER else stop[i] + 1
        np.testing.assert_array_equal(path.states, states[i, start[i] : end])
        np.testing.assert_array_equal(path.times, np.arange(start[i], end))
        assert path.stopped == (stop[i] != NEVER)
    assert paths.feature_names == ("a", "b")


def test_brownian_motion_refuses_no_paths():
    with pytest.raises(ValueError, match="paths must be at least 1; got 0"):
        brownian_motion(np.random.default_rng(0), 0, 1, 1, 1.0)
