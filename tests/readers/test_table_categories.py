"""Columns of text → codes, and from them one 0/1 feature per category, found again by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import encoded, parquet_table, read_written, refusal_of

from lit_ios.checks import UserError
from lit_ios.readers import TableRoles
from lit_ios.trajectories import TrajectorySet

COLOURS = "unit,t,colour,x\na,0,red,1\na,1,blue,2\nb,0,red,3\nb,1,green,4\n"


def assert_colours(paths: TrajectorySet, names: tuple[str, ...]) -> None:
    """Compare with COLOURS, looked up by the name of each feature."""
    assert paths.feature_names == names
    rows = [line.split(",")[2:] for line in COLOURS.split()[1:]]
    for (colour, x), state in zip(rows, paths.states.tolist(), strict=True):
        known = {f"colour={c}": float(c == colour) for c in ("red", "blue", "green")}
        assert state == [(known | {"x": float(x)})[name] for name in names]


def test_text_is_coded_in_the_alphabetical_order_of_its_categories(tmp_path: Path) -> None:
    paths = read_written(tmp_path, COLOURS)
    assert paths.feature_names == ("colour", "x")
    assert paths.categories == {"colour": ("blue", "green", "red")}
    assert paths.states.tolist() == [[2, 1], [0, 2], [2, 3], [1, 4]]


def test_text_is_coded_in_the_order_of_the_known_categories(tmp_path: Path) -> None:
    known = {"colour": ("green", "violet", "red", "blue")}
    paths = read_written(tmp_path, COLOURS, categories=known)
    assert paths.categories == known
    assert paths.states.tolist() == [[2, 1], [3, 2], [2, 3], [0, 4]]


def test_numbers_have_no_categories(tmp_path: Path) -> None:
    assert read_written(tmp_path, parquet_table()).categories == {}


def test_text_becomes_one_feature_per_category(tmp_path: Path) -> None:
    names = ("colour=blue", "colour=green", "colour=red", "x")
    assert_colours(encoded(read_written(tmp_path, COLOURS)), names)


@pytest.mark.parametrize(
    ("columns", "colours"),
    [
        (("colour",), ("red", "blue", "green")),
        (("x", "colour"), ("green", "red", "blue")),
        (("colour", "x"), ("red", "blue", "green")),
        (("colour", "x"), ("green", "red", "blue")),
    ],
)
def test_categories_come_in_the_order_of_the_given_names(
    tmp_path: Path, columns: tuple[str, ...], colours: tuple[str, ...]
) -> None:
    paths = read_written(tmp_path, COLOURS, features=columns, categories={"colour": colours})
    names = {"colour": tuple(f"colour={colour}" for colour in colours), "x": ("x",)}
    assert_colours(encoded(paths), sum((names[column] for column in columns), ()))


def test_categories_beside_other_features_do_not_overwrite_them(tmp_path: Path) -> None:
    text = "unit,t,colour,x,shade\na,0,blue,5,pale\na,1,blue,6,pale\n"
    known = {"colour": ("red", "blue"), "shade": ("pale", "dark")}
    columns = ("colour", "x", "shade")
    paths = encoded(read_written(tmp_path, text, features=columns, categories=known))
    assert paths.states.tolist() == [[0, 1, 5, 1, 0], [0, 1, 6, 1, 0]]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_stored_form_of_text_does_not_matter(tmp_path: Path, kind: pa.DataType) -> None:
    table = parquet_table(x=pa.array(["u", "v", "v", "u"]).cast(kind))
    paths = encoded(read_written(tmp_path, table))
    assert paths.feature_names == ("x=u", "x=v")
    assert paths.states.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]


@pytest.mark.parametrize("value", ["a=b", "=", "a,b", 'say "x"', "two\nlines", "größer", " pad "])
def test_features_are_found_again_by_their_names(tmp_path: Path, value: str) -> None:
    cell = '"' + value.replace('"', '""') + '"'
    text = f"unit,t,x,c\na,0,1,{cell}\na,1,2,other\n"
    first = read_written(tmp_path, text)
    known = {"features": first.feature_names, "categories": first.categories}
    again = read_written(tmp_path, text, **known)
    assert f"c={value}" in encoded(first).feature_names
    assert encoded(again).feature_names == encoded(first).feature_names
    assert np.array_equal(encoded(again).states, encoded(first).states)


def test_known_category_that_does_not_occur_is_zero(tmp_path: Path) -> None:
    text = "unit,t,c\na,0,red\na,1,red\n"
    paths = read_written(tmp_path, text, categories={"c": ("blue", "red")})
    assert encoded(paths).states.tolist() == [[0, 1], [0, 1]]


WORDS = [
    ("True", "False"),
    ("true", "TRUE"),
    ("2020-01-01T00:00", "2020-01-02T00:00"),
    ("1", "2"),
    ("007", "7"),
]


@pytest.mark.parametrize("words", WORDS)
def test_known_categories_are_found_though_the_file_alone_looks_otherwise(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    text = f"unit,t,c\na,0,{words[0]}\na,1,{words[1]}\n"
    paths = read_written(tmp_path, text, categories={"c": (*words, "unknown")})
    assert encoded(paths).feature_names == (f"c={words[0]}", f"c={words[1]}", "c=unknown")
    assert encoded(paths).states.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_unknown_category_is_refused_by_name(tmp_path: Path) -> None:
    known = {"colour": ("red", "blue")}
    message = refusal_of(tmp_path, COLOURS, features=("colour",), categories=known)
    assert "column 'colour', path 'b', row 4" in message
    assert "'green' is not one of the 2 categories known from training" in message
    assert "if the rule was trained with missing='impute'" in message
    assert "red" not in message


@pytest.mark.parametrize("missing", ["impute", "last"])
def test_unknown_category_may_be_taken_as_missing(tmp_path: Path, missing: str) -> None:
    known = {"colour": ("red", "blue")}
    paths = read_written(tmp_path, COLOURS, categories=known, unknown="missing", missing=missing)
    np.testing.assert_array_equal(paths.states[:, 0], [0, 1, 0, np.nan])


def test_unknown_category_cannot_be_missing_where_that_is_an_error() -> None:
    with pytest.raises(UserError, match="missing='impute' or missing='last'"):
        TableRoles("unit", "t", unknown="missing")


def test_text_column_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    paths = encoded(read_written(tmp_path, "unit,t,a=b\na,0,u\na,1,v\n"))
    assert paths.feature_names == ("a=b=u", "a=b=v")
    assert paths.states.tolist() == [[1, 0], [0, 1]]


def test_category_is_not_mistaken_for_a_column_of_that_name(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,c,c=v\na,0,v,3\na,1,v,4\n")
    assert paths.categories == {"c": ("v",)}
    assert paths.states.tolist() == [[0, 3], [0, 4]]


def test_category_of_the_name_of_another_column_is_refused(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,c,c=v\na,0,v,3\na,1,v,4\n")
    with pytest.raises(UserError, match="two features of one name: 'c=v'"):
        encoded(paths)
