"""From features to states: lags and time against a loop over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lit_ios.rule import Window
from lit_ios.trajectories import Trajectory, TrajectorySet

LENGTHS = (4, 1, 6, 2, 9)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def paths(request: pytest.FixtureRequest) -> TrajectorySet:
    """Return paths of random features at uneven times, of which none starts at 0."""
    rng = np.random.default_rng(11)
    return TrajectorySet.from_paths(
        (
            Trajectory(
                rng.normal(size=(length, 3)).astype(request.param),
                times=rng.integers(5, 50) + np.cumsum(rng.integers(1, 9, length)) / 4,
                stopped=i != 2,
                name=f"engine-{i}",
            )
            for i, length in enumerate(LENGTHS)
        ),
        ["pressure", "speed", "heat"],
    )


def states_of(paths: TrajectorySet, *options: Any, **more: Any) -> TrajectorySet:
    return Window(paths.feature_names, *options, **more).paths(paths)


def loop_states(paths: TrajectorySet, lags: int, include_time: bool) -> np.ndarray:
    rows = []
    for path in paths:
        for t in range(len(path)):
            row = list(path.states[t])
            for k in range(1, lags + 1):
                row += list(path.states[t - k if t >= k else 0])
            if include_time:
                row.append(path.times[t] - path.times[0])
            rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("lags", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("include_time", [False, True])
def test_states_equal_the_loop(paths: TrajectorySet, lags: int, include_time: bool) -> None:
    built = states_of(paths, lags, include_time)
    assert np.array_equal(built.states, loop_states(paths, lags, include_time))


def test_states_are_features_and_time_by_default(paths: TrajectorySet) -> None:
    assert np.array_equal(states_of(paths).states, loop_states(paths, 0, True))


@pytest.mark.parametrize("lags", [1, 3])
def test_states_repeat_the_first_row_at_the_start(paths: TrajectorySet, lags: int) -> None:
    for path in states_of(paths, lags, include_time=False):
        assert np.array_equal(path.states[0], np.tile(path.states[0, :3], lags + 1))


@pytest.mark.parametrize("lags", [1, 4])
def test_states_of_a_path_do_not_depend_on_the_other_paths(paths: TrajectorySet, lags: int) -> None:
    together = states_of(paths, lags)
    for i in range(len(paths)):
        alone = states_of(paths.select([i]), lags)
        assert np.array_equal(together[i].states, alone.states)


def test_states_do_not_look_ahead(paths: TrajectorySet) -> None:
    changed = paths.states.copy()
    changed[paths.steps >= 3] += 100
    before = states_of(paths, 2).states[paths.steps < 3]
    after = states_of(paths.with_states(changed), 2).states[paths.steps < 3]
    assert np.array_equal(before, after)


def test_states_have_the_time_since_the_first_row_as_last_column(paths: TrajectorySet) -> None:
    for built, path in zip(states_of(paths, 2), paths, strict=True):
        assert np.array_equal(built.states[:, -1], path.times - path.times[0])


def test_states_do_not_depend_on_when_the_clock_started(paths: TrajectorySet) -> None:
    later = TrajectorySet.from_paths(
        Trajectory(path.states, path.times + 1024, path.stopped, path.name) for path in paths
    )
    assert np.array_equal(states_of(later, 1).states, states_of(paths, 1).states)


def test_window_changes_nothing_but_the_states(paths: TrajectorySet) -> None:
    built = states_of(paths, 2)
    assert np.array_equal(built.times, paths.times)
    assert np.array_equal(built.offsets, paths.offsets)
    assert np.array_equal(built.stopped, paths.stopped)
    assert built.names == paths.names


def test_window_keeps_the_float_type(paths: TrajectorySet) -> None:
    assert states_of(paths, 2).states.dtype == paths.states.dtype


def test_state_names_are_features_then_lags_then_time() -> None:
    assert Window(("x", "y"), 2, True).state_names == (
        "x",
        "y",
        "x[-1]",
        "y[-1]",
        "x[-2]",
        "y[-2]",
        "time",
    )


def test_state_names_without_lags_and_time_are_the_features() -> None:
    assert Window(("x", "y"), 0, False).state_names == ("x", "y")


def test_state_name_of_time_is_told_apart_from_a_feature_named_time() -> None:
    names = Window(("time", "x"), 1, True).state_names
    assert names == ("time", "x", "time[-1]", "x[-1]", "time since the start")


@pytest.mark.parametrize("lags", [0, 3])
@pytest.mark.parametrize("include_time", [False, True])
def test_built_states_carry_the_names(paths: TrajectorySet, lags: int, include_time: bool) -> None:
    built = states_of(paths, lags, include_time)
    assert built.feature_names == Window(paths.feature_names, lags, include_time).state_names


def test_window_refuses_negative_lags() -> None:
    with pytest.raises(ValueError, match=r"lags.*-1"):
        states_of(TrajectorySet.from_paths([Trajectory(np.ones((2, 1)))]), -1)
