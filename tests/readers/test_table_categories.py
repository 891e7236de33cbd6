"""Columns of text → one 0/1 feature per category, found again by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read, read_written, refusal_of, write

from lit_ios.readers import TableError
from lit_ios.trajectories import TrajectorySet

COLOURS = "unit,t,colour,x\na,0,red,1\na,1,blue,2\nb,0,red,3\nb,1,green,4\n"


def assert_colours(paths: TrajectorySet, names: tuple[str, ...]) -> None:
    """Compare with COLOURS, looked up by the name of each feature."""
    assert paths.feature_names == names
    rows = [line.split(",")[2:] for line in COLOURS.split()[1:]]
    for (colour, x), state in zip(rows, paths.states.tolist(), strict=True):
        known = {f"colour={c}": float(c == colour) for c in ("red", "blue", "green")}
        assert state == [(known | {"x": float(x)})[name] for name in names]


def test_text_becomes_one_feature_per_category(tmp_path: Path) -> None:
    names = ("colour=blue", "colour=green", "colour=red", "x")
    assert_colours(read_written(tmp_path, COLOURS), names)


@pytest.mark.parametrize(
    "names",
    [
        ("colour=red", "colour=blue", "colour=green"),
        ("x", "colour=green", "colour=red", "colour=blue"),
        ("colour=red", "x", "colour=blue", "colour=green"),
        ("colour=green", "colour=red", "x", "colour=blue"),
    ],
)
def test_categories_come_in_the_order_of_the_given_names(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    assert_colours(read_written(tmp_path, COLOURS, features=names), names)


def test_categories_between_other_features_do_not_overwrite_them(tmp_path: Path) -> None:
    text = "unit,t,colour,x\na,0,blue,5\na,1,blue,6\n"
    paths = read_written(tmp_path, text, features=("colour=red", "x", "colour=blue"))
    assert paths.states.tolist() == [[0, 5, 1], [0, 6, 1]]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_stored_form_of_text_does_not_matter(tmp_path: Path, kind: pa.DataType) -> None:
    paths = read_written(tmp_path, parquet_table(x=pa.array(["u", "v", "v", "u"]).cast(kind)))
    assert paths.feature_names == ("x=u", "x=v")
    assert paths.states.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]


@pytest.mark.parametrize("value", ["a=b", "=", "a,b", 'say "x"', "two\nlines", "größer", " pad "])
def test_features_are_found_again_by_their_names(tmp_path: Path, value: str) -> None:
    cell = '"' + value.replace('"', '""') + '"'
    text = f"unit,t,x,c\na,0,1,{cell}\na,1,2,other\n"
    first = read_written(tmp_path, text)
    again = read_written(tmp_path, text, features=first.feature_names)
    assert f"c={value}" in first.feature_names
    assert again.feature_names == first.feature_names
    assert np.array_equal(again.states, first.states)


def test_known_category_that_does_not_occur_is_zero(tmp_path: Path) -> None:
    text = "unit,t,c\na,0,red\na,1,red\n"
    states = read_written(tmp_path, text, features=("c=blue", "c=red")).states
    assert states.tolist() == [[0, 1], [0, 1]]


WORDS = [("True", "False"), ("true", "TRUE"), ("2020-01-01T00:00", "2020-01-02T00:00")]


@pytest.mark.parametrize("words", WORDS)
def test_known_categories_are_found_though_the_file_alone_looks_otherwise(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    features = (f"c={words[0]}", f"c={words[1]}", "c=unknown")
    text = f"unit,t,c\na,0,{words[0]}\na,1,{words[1]}\n"
    assert read_written(tmp_path, text, features=features).states.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_unknown_category_is_refused_by_name(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, COLOURS, features=("colour=red", "colour=blue"))
    assert "column 'colour', path 'b', row 4" in message
    assert "'green'" in message


def test_text_column_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,a=b\na,0,u\na,1,v\n")
    assert paths.feature_names == ("a=b=u", "a=b=v")
    assert paths.states.tolist() == [[1, 0], [0, 1]]


def test_category_is_not_mistaken_for_a_column_of_that_name(tmp_path: Path) -> None:
    file = write(tmp_path / "table.csv", "unit,t,c,c=v\na,0,v,3\na,1,v,4\n")
    try:
        states = read(file).states
    except TableError:
        return  # two features of one name may be refused
    assert states.tolist() == [[1, 3], [1, 4]]
