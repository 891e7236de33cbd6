"""Stopped paths: what is refused and where, and how the ragged set is read."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet

LENGTHS = [3, 1, 4, 2]
STOPPED = [True, True, False, True]


@pytest.fixture
def paths() -> list[Trajectory]:
    """Return four paths; state (i, t) tells path and step apart."""
    return [
        Trajectory(
            np.array([[i, t] for t in range(length)], dtype=float),
            times=10.0 * i + 0.5 * np.arange(length),
            stopped=stopped,
            name=f"engine-{i}",
        )
        for i, (length, stopped) in enumerate(zip(LENGTHS, STOPPED, strict=True))
    ]


@pytest.fixture
def columns() -> dict[str, Any]:
    """Return the columns of three valid paths of 2, 3 and 1 rows."""
    return {
        "states": np.arange(12.0).reshape(6, 2),
        "times": np.array([0.0, 1, 0, 2, 5, 3]),
        "offsets": np.array([0, 2, 5, 6]),
        "stopped": np.array([True, False, True]),
        "names": ("a", "b", "c"),
    }


def same(left: Trajectory, right: Trajectory) -> bool:
    return (
        np.array_equal(left.states, right.states)
        and np.array_equal(left.times, right.times)
        and left.stopped == right.stopped
        and left.name == right.name
    )


def test_trajectory_counts_time_from_zero_when_left_out() -> None:
    assert Trajectory(np.ones((3, 1))).times.tolist() == [0, 1, 2]


def test_trajectory_is_stopped_unless_said_otherwise() -> None:
    assert Trajectory(np.ones((3, 1))).stopped


def test_trajectory_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Trajectory(np.ones((3, 1))).stopped = False


def test_trajectory_length_is_its_number_of_rows() -> None:
    assert len(Trajectory(np.ones((3, 5)))) == 3


@pytest.mark.parametrize("length", [1, 2, 6])
def test_actions_of_a_stopped_path_are_one_and_zero_at_its_last_row(length: int) -> None:
    assert Trajectory(np.ones((length, 1))).actions.tolist() == [1] * (length - 1) + [0]


@pytest.mark.parametrize("length", [1, 2, 6])
def test_actions_of_a_censored_path_are_all_one(length: int) -> None:
    assert Trajectory(np.ones((length, 1)), stopped=False).actions.tolist() == [1] * length


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trajectory_keeps_the_float_type(dtype: type) -> None:
    assert Trajectory(np.ones((3, 1), dtype=dtype)).states.dtype == dtype


def test_trajectory_turns_integers_into_float64() -> None:
    assert Trajectory(np.ones((3, 1), dtype=np.int32)).states.dtype == np.float64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_trajectory_names_path_and_row_of_a_state_that_is_not_finite(bad: float) -> None:
    states = np.ones((4, 2))
    states[2, 1] = bad
    with pytest.raises(TrajectoryError, match=r"engine-7.*row 3"):
        Trajectory(states, name="engine-7")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_trajectory_names_path_and_row_of_a_time_that_is_not_finite(bad: float) -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*row 3"):
        Trajectory(np.ones((3, 2)), times=np.array([0, 1, bad]), name="engine-7")


@pytest.mark.parametrize("times", [[0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 0.5, 2.0]])
def test_trajectory_names_path_and_row_of_a_time_that_does_not_increase(
    times: list[float],
) -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*row 3"):
        Trajectory(np.ones((4, 2)), times=np.array(times), name="engine-7")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 1), (0, 2)])
def test_trajectory_refuses_states_that_are_not_rows_of_features(shape: tuple[int, ...]) -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*states"):
        Trajectory(np.ones(shape), name="engine-7")


def test_trajectory_refuses_rows_of_different_length() -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*states"):
        Trajectory([[1.0, 2.0], [3.0]], name="engine-7")


def test_trajectory_refuses_text_as_states() -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*states"):
        Trajectory(np.array([["a"], ["b"]]), name="engine-7")


def test_trajectory_refuses_text_as_times() -> None:
    with pytest.raises(TrajectoryError, match=r"engine-7.*times"):
        Trajectory(np.ones((2, 1)), times=np.array(["noon", "night"]), name="engine-7")


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1)])
def test_trajectory_refuses_times_that_do_not_fit_its_states(shape: tuple[int, ...]) -> None:
    with pytest.raises(TrajectoryError, match="times"):
        Trajectory(np.ones((3, 2)), times=np.arange(np.prod(shape)).reshape(shape))


def test_set_actions_are_the_actions_of_its_paths(paths: list[Trajectory]) -> None:
    expected = [a for path in paths for a in path.actions.tolist()]
    assert TrajectorySet.from_paths(paths).actions.tolist() == expected


def test_set_steps_count_from_zero_in_each_path(paths: list[Trajectory]) -> None:
    expected = [t for length in LENGTHS for t in range(length)]
    assert TrajectorySet.from_paths(paths).steps.tolist() == expected


def test_set_path_of_row_names_the_path_of_each_row(paths: list[Trajectory]) -> None:
    expected = [i for i, length in enumerate(LENGTHS) for _ in range(length)]
    assert TrajectorySet.from_paths(paths).path_of_row.tolist() == expected


def test_set_last_rows_are_where_paths_end(paths: list[Trajectory]) -> None:
    assert TrajectorySet.from_paths(paths).last_rows.tolist() == [2, 3, 7, 9]


def test_set_lengths_are_those_of_its_paths(paths: list[Trajectory]) -> None:
    assert TrajectorySet.from_paths(paths).lengths.tolist() == LENGTHS


def test_set_length_is_its_number_of_paths(paths: list[Trajectory]) -> None:
    assert len(TrajectorySet.from_paths(paths)) == 4


@pytest.mark.parametrize("index", [-4, -1, 0, 3])
def test_set_index_returns_one_path(paths: list[Trajectory], index: int) -> None:
    assert same(TrajectorySet.from_paths(paths)[index], paths[index])


@pytest.mark.parametrize("index", [-5, 4])
def test_set_index_beyond_its_paths_is_an_error(paths: list[Trajectory], index: int) -> None:
    with pytest.raises(IndexError):
        TrajectorySet.from_paths(paths)[index]


@pytest.mark.parametrize("indices", [[2], [3, 1, 0], [1, 1, 2, 1], [0, 1, 2, 3]])
def test_select_returns_the_paths_in_the_order_asked(
    paths: list[Trajectory], indices: list[int]
) -> None:
    chosen = TrajectorySet.from_paths(paths).select(indices)
    assert len(chosen) == len(indices)
    assert all(same(path, paths[i]) for path, i in zip(chosen, indices, strict=True))


@pytest.mark.parametrize("index", [-4, -3, -2, -1])
def test_select_counts_negative_indices_from_the_end(paths: list[Trajectory], index: int) -> None:
    (chosen,) = TrajectorySet.from_paths(paths).select([index])
    assert same(chosen, paths[index])


def test_select_keeps_feature_names(paths: list[Trajectory]) -> None:
    named = TrajectorySet.from_paths(paths, ["pressure", "speed"])
    assert named.select([1]).feature_names == ("pressure", "speed")


COLOURS = {"y": ("red", "blue")}


def test_set_holds_numbers_alone_unless_said_otherwise(columns: dict[str, Any]) -> None:
    assert TrajectorySet(**columns).categories == {}


def test_select_keeps_categories(columns: dict[str, Any]) -> None:
    coded = TrajectorySet(**columns, feature_names=("x", "y"), categories=COLOURS)
    assert coded.select([2, 0]).categories == COLOURS


def test_followed_by_keeps_categories(columns: dict[str, Any]) -> None:
    coded = TrajectorySet(**columns, feature_names=("x", "y"), categories=COLOURS)
    assert coded.followed_by(coded).categories == COLOURS


def test_with_states_keeps_categories_of_the_same_columns(columns: dict[str, Any]) -> None:
    coded = TrajectorySet(**columns, feature_names=("x", "y"), categories=COLOURS)
    assert coded.with_states(coded.states + 1).categories == COLOURS


def test_with_states_named_anew_are_numbers_alone(columns: dict[str, Any]) -> None:
    coded = TrajectorySet(**columns, feature_names=("x", "y"), categories=COLOURS)
    assert coded.with_states(coded.states[:, :1], ["z"]).categories == {}


def test_select_of_no_path_is_an_error(paths: list[Trajectory]) -> None:
    with pytest.raises(TrajectoryError, match="at least one path"):
        TrajectorySet.from_paths(paths).select([])


def test_with_states_changes_nothing_but_the_states(paths: list[Trajectory]) -> None:
    whole = TrajectorySet.from_paths(paths, ["pressure", "speed"])
    changed = whole.with_states(2 * whole.states)
    assert np.array_equal(changed.states, 2 * whole.states)
    assert changed.feature_names == whole.feature_names
    back = changed.with_states(whole.states)
    assert all(same(left, right) for left, right in zip(back, paths, strict=True))


def test_with_states_refuses_another_number_of_rows(paths: list[Trajectory]) -> None:
    whole = TrajectorySet.from_paths(paths)
    with pytest.raises(TrajectoryError, match="rows 9"):
        whole.with_states(whole.states[:-1])


def test_with_states_refuses_features_without_names(paths: list[Trajectory]) -> None:
    whole = TrajectorySet.from_paths(paths)
    with pytest.raises(TrajectoryError, match="1 features, but 2 names"):
        whole.with_states(whole.states[:, :1])


def test_from_paths_names_unnamed_paths_by_their_place() -> None:
    unnamed = [Trajectory(np.ones((2, 1))), Trajectory(np.ones((1, 1)))]
    assert TrajectorySet.from_paths(unnamed).names == ("0", "1")


def test_from_paths_without_paths_is_an_error() -> None:
    with pytest.raises(TrajectoryError, match="at least one"):
        TrajectorySet.from_paths([])


def test_from_paths_refuses_different_numbers_of_features() -> None:
    with pytest.raises(TrajectoryError, match="features"):
        TrajectorySet.from_paths([Trajectory(np.ones((2, 1))), Trajectory(np.ones((2, 2)))])


def test_from_paths_keeps_float32() -> None:
    path = Trajectory(np.ones((2, 1), dtype=np.float32))
    assert TrajectorySet.from_paths([path, path]).states.dtype == np.float32


def test_select_keeps_float32() -> None:
    path = Trajectory(np.ones((2, 1), dtype=np.float32))
    assert TrajectorySet.from_paths([path, path]).select([1]).states.dtype == np.float32


def test_set_allows_time_to_fall_from_one_path_to_the_next(columns: dict[str, Any]) -> None:
    assert TrajectorySet(**columns)[1].times.tolist() == [0, 2, 5]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_set_names_path_and_row_of_a_state_that_is_not_finite(
    columns: dict[str, Any], bad: float
) -> None:
    columns["states"][4, 0] = bad
    with pytest.raises(TrajectoryError, match=r"'b'.*row 3"):
        TrajectorySet(**columns)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_set_names_path_and_row_of_a_time_that_is_not_finite(
    columns: dict[str, Any], bad: float
) -> None:
    columns["times"][5] = bad
    with pytest.raises(TrajectoryError, match=r"'c'.*row 1"):
        TrajectorySet(**columns)


@pytest.mark.parametrize(
    ("row", "path", "place"), [(1, "a", 1), (3, "b", 1), (4, "b", 2)], ids=["a1", "b1", "b2"]
)
def test_set_names_path_and_row_of_a_time_that_does_not_increase(
    columns: dict[str, Any], row: int, path: str, place: int
) -> None:
    columns["times"][row] = columns["times"][row - 1]
    with pytest.raises(TrajectoryError, match=rf"'{path}'.*row {place + 1}"):
        TrajectorySet(**columns)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("states", np.ones(6), "states"),
        ("states", np.ones((6, 2, 1)), "states"),
        ("states", np.full((6, 2), "text"), "states"),
        ("states", np.ones((5, 2)), "rows 5"),
        ("times", np.arange(5.0), "times"),
        ("times", np.arange(7.0), "times"),
        ("times", np.full(6, "text"), "times"),
        ("offsets", [0], "offsets"),
        ("offsets", [0, 2, 5], "offsets"),
        ("offsets", [1, 2, 5, 6], "offsets"),
        ("offsets", [0, 2, 2, 6], "'b' has no rows"),
        ("offsets", [0, 5, 2, 6], "no rows"),
        ("stopped", [True, False], "2 stop flags"),
        ("names", ("a", "b"), "2 names"),
        ("names", ("a", "b", "c", "d"), "4 names"),
        ("feature_names", ("x",), "2 features, but 1 names"),
        ("feature_names", ("x", "y", "z"), "2 features, but 3 names"),
    ],
)
def test_set_refuses_columns_that_do_not_fit(
    columns: dict[str, Any], column: str, value: Any, message: str
) -> None:
    with pytest.raises(TrajectoryError, match=message):
        TrajectorySet(**{**columns, column: value})


def test_set_refuses_an_empty_path_that_has_no_name_either(columns: dict[str, Any]) -> None:
    with pytest.raises(TrajectoryError):
        TrajectorySet(**{**columns, "offsets": [0, 2, 6, 6], "names": ("a", "b")})


def test_set_names_features_by_number_when_left_out(columns: dict[str, Any]) -> None:
    assert len(TrajectorySet(**columns).feature_names) == 2


@st.composite
def path_lists(draw: st.DrawFn) -> list[Trajectory]:
    """Draw paths that agree in features and float type."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = 32 if dtype is np.float32 else 64
    features = draw(st.integers(1, 3))
    drawn = []
    for i in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(1, 6))
        numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
        states = draw(hnp.arrays(dtype, (rows, features), elements=numbers))
        gaps = draw(st.lists(st.integers(1, 1000), min_size=rows, max_size=rows))
        times = np.cumsum(gaps) / 8 - 40
        drawn.append(Trajectory(states, times, draw(st.booleans()), f"path {i}"))
    return drawn


@given(path_lists())
@settings(max_examples=60, deadline=None)
def test_from_paths_and_iteration_give_the_paths_back(drawn: list[Trajectory]) -> None:
    back = list(TrajectorySet.from_paths(drawn))
    assert len(back) == len(drawn)
    assert all(same(left, right) for left, right in zip(back, drawn, strict=True))
    assert all(path.states.dtype == drawn[0].states.dtype for path in back)


@given(path_lists(), st.data())
@settings(max_examples=60, deadline=None)
def test_select_equals_indexing_one_by_one(drawn: list[Trajectory], data: st.DataObject) -> None:
    whole = TrajectorySet.from_paths(drawn)
    indices = data.draw(st.lists(st.integers(0, len(drawn) - 1), min_size=1, max_size=8))
    chosen = whole.select(np.array(indices))
    assert all(same(path, drawn[i]) for path, i in zip(chosen, indices, strict=True))
