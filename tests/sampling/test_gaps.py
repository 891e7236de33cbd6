"""What stands in for missing values, and which columns never change along a path."""

import numpy as np
import pytest

from lit_ios.sampling import fit_fill
from lit_ios.trajectories import TrajectoryError, TrajectorySet


def gappy(**columns):
    states = np.column_stack([np.array(values, dtype=float) for values in columns.values()])
    return TrajectorySet(
        states, np.arange(6.0), np.array([0, 3, 4, 6]), np.ones(3, dtype=bool), ("a", "b", "c"),
        tuple(columns), categories={"colour": ("red", "blue", "green")}, gaps=True,
    )  # fmt: skip


def test_numbers_are_filled_by_the_median_and_text_by_its_most_frequent_category():
    nan = np.nan
    paths = gappy(
        heat=[5, nan, 1, 2, nan, 100], colour=[2, 1, nan, 1, 0, 1], load=[0, 1, 2, 3, 4, 5]
    )
    assert fit_fill(paths) == ({"heat": 3.5, "colour": 1.0, "load": 2.5}, ("heat", "colour"))


def test_a_column_without_any_value_is_refused():
    with pytest.raises(TrajectoryError, match=r"column 'heat': no training row .* drop=\['heat'\]"):
        fit_fill(gappy(heat=[np.nan] * 6, colour=[0] * 6))


def test_static_columns_are_those_that_never_change_along_a_path():
    nan = np.nan
    paths = gappy(
        age=[4, 4, 4, 7, 1, 1], heat=[1, 2, 3, 4, 5, 6], late=[3, 3, 3, 9, 8, 7],
        unknown=[nan, nan, nan, 2, 5, 5], once=[nan, 1, 1, 2, 5, 5],
    )  # fmt: skip
    assert paths.static.tolist() == [True, False, False, True, False]


def test_nothing_is_known_to_be_static_where_all_paths_have_one_row():
    paths = gappy(age=[1, 1, 1, 1, 1, 1]).select([1])
    assert paths.static.tolist() == [False]
