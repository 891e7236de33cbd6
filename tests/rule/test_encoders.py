"""From raw columns to features: categories of text, and scales of operating conditions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_files import text_of

from lit_ios.checks import UserError
from lit_ios.imports import build
from lit_ios.readers.cmapss import engine_paths, fit_conditions, parse_series
from lit_ios.rule import ColumnEncoder, ConditionEncoder, Encoder
from lit_ios.trajectories import Trajectory, TrajectorySet

COLUMNS = ("heat", "colour", "load", "shape")
CATEGORIES = {"colour": ("red", "blue", "green"), "shape": ("round",)}


def coded_paths(dtype: type = np.float64) -> TrajectorySet:
    """Return paths of numbers and of codes of the categories."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(30, 4))
    states[:, 1], states[:, 3] = rng.integers(3, size=30), 0
    return TrajectorySet(
        states=states.astype(dtype),
        times=np.arange(30.0),
        offsets=np.array([0, 4, 5, 19, 30]),
        stopped=np.array([True, False, True, True]),
        names=("a", "b", "c", "d"),
        feature_names=COLUMNS,
        categories=CATEGORIES,
    )


def raw_engines(conditions: tuple[float, ...] = (0.0, 10.0, 42.0), seed: int = 0) -> Any:
    """Return engines that change between conditions, and what is measured on them."""
    series = parse_series("x", text_of([60, 60], conditions=conditions, seed=seed))
    found = fit_conditions(series)
    return engine_paths(series, found.sensors, step=1), found


def condition_encoder(found: Any) -> ConditionEncoder:
    numbers = (found.conditions.tolist(), found.mean.tolist(), found.scale.tolist())
    return ConditionEncoder(found.columns, *numbers)


# Categories -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_categories_become_zeros_and_ones_as_in_the_loop(dtype: type) -> None:
    paths = coded_paths(dtype)
    expected = []
    for heat, colour, load, _ in paths.states.tolist():
        is_colour = [1.0 if colour == code else 0.0 for code in range(3)]
        expected.append([heat, *is_colour, load, 1.0])
    assert ColumnEncoder(COLUMNS, CATEGORIES).paths(paths).states.tolist() == expected


def test_features_are_named_after_columns_and_categories() -> None:
    names = ("heat", "colour=red", "colour=blue", "colour=green", "load", "shape=round")
    encoder = ColumnEncoder(COLUMNS, CATEGORIES)
    assert encoder.feature_names == names
    assert encoder.paths(coded_paths()).feature_names == names


def test_features_have_no_categories_any_more() -> None:
    assert ColumnEncoder(COLUMNS, CATEGORIES).paths(coded_paths()).categories == {}


def test_numbers_alone_are_the_features() -> None:
    paths = TrajectorySet.from_paths([Trajectory(np.ones((3, 2), np.float32))], ["x", "y"])
    assert ColumnEncoder(("x", "y")).paths(paths) is paths


def test_column_encoder_changes_nothing_but_the_states() -> None:
    paths = coded_paths()
    found = ColumnEncoder(COLUMNS, CATEGORIES).paths(paths)
    assert np.array_equal(found.times, paths.times)
    assert np.array_equal(found.offsets, paths.offsets)
    assert np.array_equal(found.stopped, paths.stopped)
    assert found.names == paths.names


@pytest.mark.parametrize("code", [-1.0, 3.0, 0.5, 1e9])
def test_code_of_no_category_is_refused_where_it_stands(code: float) -> None:
    paths = coded_paths()
    paths.states[9, 1] = code
    with pytest.raises(UserError, match=r"path 'c', row 5: column 'colour': .*'red', 'blue'"):
        ColumnEncoder(COLUMNS, CATEGORIES).paths(paths)


@pytest.mark.parametrize("code", [-1.0, 3.0, 0.5])
def test_code_of_no_category_makes_its_features_alone_unknown(code: float) -> None:
    row = torch.tensor([[2.5, code, 4.0, 0.0]], dtype=torch.double)
    (found,) = ColumnEncoder(COLUMNS, CATEGORIES)(row).tolist()
    assert [found[0], *found[4:]] == [2.5, 4.0, 1.0]
    assert found[1:4] == [np.inf] * 3


def test_category_that_is_missing_makes_nan_of_its_features_alone() -> None:
    row = torch.tensor([[2.5, np.nan, 4.0, 0.0]], dtype=torch.double)
    (found,) = ColumnEncoder(COLUMNS, CATEGORIES)(row).tolist()
    assert [found[0], *found[4:]] == [2.5, 4.0, 1.0]
    assert np.isnan(found[1:4]).all()


# Gaps -------------------------------------------------------------------------------------------

FILL = {"heat": 7.0, "colour": 1.0, "load": -2.0, "shape": 0.0}


def gappy_paths() -> TrajectorySet:
    paths = coded_paths()
    states = paths.states.copy()
    rng = np.random.default_rng(3)
    states[rng.random(states.shape) < 0.4] = np.nan
    return replace(paths, states=states, gaps=True)


@pytest.mark.parametrize("missing", ["last", "impute"])
def test_gaps_are_filled_as_a_loop_over_rows_fills_them(missing: Any) -> None:
    paths = gappy_paths()
    encoder = ColumnEncoder(COLUMNS, CATEGORIES, missing, FILL, flagged=("heat", "colour"))
    expected = []
    for path in paths:
        known = dict(FILL)
        for row in path.states:
            values = dict(zip(COLUMNS, row, strict=True))
            gaps = {name for name, value in values.items() if np.isnan(value)}
            values |= {name: known[name] for name in gaps}
            known = values if missing == "last" else known
            coded = [float(code == values["colour"]) for code in range(len(CATEGORIES["colour"]))]
            shape = [float(code == values["shape"]) for code in range(len(CATEGORIES["shape"]))]
            flags = [float("heat" in gaps), float("colour" in gaps)]
            expected.append([values["heat"], *coded, values["load"], *shape, *flags])
    found = encoder.paths(paths)
    np.testing.assert_array_equal(found.states, expected)
    assert found.feature_names[-2:] == ("heat missing", "colour missing")
    assert not found.gaps


def test_a_gap_without_anything_to_stand_in_is_refused_where_it_is() -> None:
    paths = coded_paths()
    states = paths.states.copy()
    states[9, 2] = np.nan
    paths = replace(paths, states=states, gaps=True)
    encoder = ColumnEncoder(COLUMNS, CATEGORIES, "impute", {"heat": 7.0})
    with pytest.raises(UserError, match=r"path 'c', row 5: column 'load': missing value.*impute"):
        encoder.paths(paths)


def test_an_unknown_category_is_never_filled_in() -> None:
    paths = coded_paths()
    states = paths.states.copy()
    states[9, 1] = 17.0
    encoder = ColumnEncoder(COLUMNS, CATEGORIES, "last", FILL)
    with pytest.raises(UserError, match="is not the code of a known category"):
        encoder.paths(replace(paths, states=states, gaps=True))


def test_encoder_with_gaps_is_made_again_of_its_plain_values() -> None:
    encoder = ColumnEncoder(COLUMNS, CATEGORIES, "last", FILL, flagged=("load",))
    again = ColumnEncoder(**encoder.spec["init_args"])
    assert again.feature_names == encoder.feature_names
    paths = gappy_paths()
    np.testing.assert_array_equal(again.paths(paths).states, encoder.paths(paths).states)


@pytest.mark.parametrize("columns", [COLUMNS[::-1], COLUMNS[:3], (*COLUMNS[:3], "form")])
def test_paths_of_other_columns_are_refused(columns: tuple[str, ...]) -> None:
    categories = {name: CATEGORIES[name] for name in columns if name in CATEGORIES}
    with pytest.raises(UserError, match="heat, colour, load, shape"):
        ColumnEncoder(columns, categories).paths(coded_paths())


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"colour": ("red", "blue")}, "column 'colour': text of"),
        ({"colour": ("blue", "red", "green")}, "column 'colour': text of"),
        ({"load": ("low", "high")}, "column 'load': text of"),
    ],
)
def test_paths_of_other_categories_are_refused(known: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ColumnEncoder(COLUMNS, CATEGORIES | known).paths(coded_paths())


def test_numbers_in_place_of_text_are_refused() -> None:
    with pytest.raises(UserError, match="column 'colour': numbers needed, the paths hold text"):
        ColumnEncoder(COLUMNS, {"shape": ("round",)}).paths(coded_paths())


def test_two_features_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two features of one name: 'colour=red'"):
        ColumnEncoder(("colour", "colour=red"), {"colour": ("red", "blue")})


# Operating conditions ---------------------------------------------------------------------------


def test_sensors_are_standardised_within_each_condition() -> None:
    paths, found = raw_engines()
    features = condition_encoder(found).paths(paths).states
    condition = np.rint(paths.states[:, 0])
    assert set(condition) == {0, 10, 42}
    for value in set(condition):
        rows = features[condition == value]
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(rows.std(axis=0), 1, atol=1e-9)


def test_sensors_of_other_engines_are_scaled_as_in_the_loop() -> None:
    _, found = raw_engines()
    others, _ = raw_engines(seed=5)
    features = condition_encoder(found).paths(others).states
    for row, (setting, *sensors) in zip(features, others.states, strict=True):
        at = found.conditions.tolist().index(round(setting))
        expected = [
            (value - mean) / scale
            for value, mean, scale in zip(sensors, found.mean[at], found.scale[at], strict=True)
        ]
        assert row.tolist() == pytest.approx(expected, rel=1e-9)


def test_features_of_conditions_are_the_sensors() -> None:
    paths, found = raw_engines()
    encoder = condition_encoder(found)
    assert encoder.columns == found.columns == paths.feature_names
    assert encoder.feature_names == encoder.paths(paths).feature_names == found.columns[1:]


def test_condition_that_was_not_seen_is_refused_where_it_stands() -> None:
    paths, found = raw_engines()
    paths.states[67, 0] = 20.0
    message = r"path '2', row 8: column 'setting1': operating condition 20 was not seen in training"
    with pytest.raises(UserError, match=message):
        condition_encoder(found).paths(paths)


def test_engines_of_a_condition_that_was_not_seen_are_refused() -> None:
    _, found = raw_engines(conditions=(0.0,))
    others, _ = raw_engines(conditions=(42.0,))
    with pytest.raises(UserError, match="operating condition 42 was not seen"):
        condition_encoder(found).paths(others)


def test_condition_that_was_not_seen_makes_its_row_alone_unknown() -> None:
    encoder = ConditionEncoder(("s", "x"), [0, 10], [[1.0], [2.0]], [[2.0], [4.0]])
    rows = torch.tensor([[0.2, 5.0], [20.0, 5.0], [9.9, 10.0]], dtype=torch.double)
    first, unseen, last = encoder(rows)[:, 0].tolist()
    assert (first, last) == (2.0, 2.0)
    assert np.isinf(unseen)


@pytest.mark.parametrize("shape", [(2, 2), (1, 1), (3, 1)])
@pytest.mark.parametrize("which", ["mean", "scale"])
def test_numbers_of_another_shape_are_refused(which: str, shape: tuple[int, int]) -> None:
    numbers = {"mean": np.ones((2, 1)), "scale": np.ones((2, 1))} | {which: np.ones(shape)}
    lists = {name: values.tolist() for name, values in numbers.items()}
    with pytest.raises(UserError, match=r"mean and scale must have shape \(2, 1\)"):
        ConditionEncoder(("s", "x"), [0, 10], **lists)


# Kept as plain values ---------------------------------------------------------------------------


def encoders() -> dict[str, tuple[Encoder, TrajectorySet]]:
    engines, found = raw_engines()
    return {
        "numbers": (ColumnEncoder(("x0", "x1")), coded_paths().with_states(np.eye(30, 2), ())),
        "categories": (ColumnEncoder(COLUMNS, CATEGORIES), coded_paths()),
        "conditions": (condition_encoder(found), engines),
    }


@pytest.mark.parametrize("kind", ["numbers", "categories", "conditions"])
def test_encoder_made_again_from_plain_values_gives_the_same_features(kind: str) -> None:
    encoder, paths = encoders()[kind]
    again = build("encoder", json.loads(json.dumps(encoder.spec)), Encoder)
    assert type(again) is type(encoder)
    assert again.spec == encoder.spec
    assert np.array_equal(again.paths(paths).states, encoder.paths(paths).states)
