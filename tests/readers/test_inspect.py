"""What `lit-ios inspect` says of a file: counts and kinds, and no cell of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written, write

from lit_ios.inspect import describe_columns, describe_paths, inspect_table
from lit_ios.readers.dialects import Dialect

TEXT = (
    "unit,day,heat,sex,died,name,ward,empty\n"
    "a,2020-01-01,1.5,f,no,Smith,3,\n"
    "a,2020-01-03,,f,no,Jones,3,\n"
    "b,2020-01-02,2.5,,yes,,3,\n"
    "b,2020-01-05,4,m,yes,Brown,3,\n"
)


def lines_of(file: Path, path: str | None = "unit", **written: str) -> dict[str, str]:
    """Return what is said of each column."""
    lines = list(describe_columns(str(file), path, Dialect(**written)))[1:]
    return {line.split()[0]: line for line in lines}


@pytest.fixture
def said(tmp_path: Path) -> dict[str, str]:
    return lines_of(write(tmp_path / "table.csv", TEXT))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("heat", "numbers 25.00% missing 3 distinct"),
        ("sex", "text 25.00% missing 2 distinct (static)"),
        ("died", "yes or no 0.00% missing 2 distinct (static)"),
        ("name", "text 25.00% missing 3 distinct"),
        ("day", "dates 0.00% missing 4 distinct 2020-01-01 to 2020-01-05"),
        ("ward", "numbers 0.00% missing 1 distinct (constant)"),
        ("empty", "nothing 100.00% missing 0 distinct"),
        ("unit", "text 0.00% missing 2 distinct"),
    ],
)
def test_column_is_described_by_kind_and_counts(
    said: dict[str, str], column: str, words: str
) -> None:
    assert " ".join(said[column].split()[1:]) == words


def test_no_text_of_a_cell_is_shown(said: dict[str, str]) -> None:
    assert not any(word in line for line in said.values() for word in ("Smith", "Jones", "Brown"))


def test_no_column_is_static_where_paths_are_not_known(tmp_path: Path) -> None:
    file = write(tmp_path / "table.csv", TEXT)
    assert not any("static" in line for line in lines_of(file, None).values())


def test_column_that_each_path_has_once_is_not_called_static(tmp_path: Path) -> None:
    file = write(tmp_path / "table.csv", "unit,day,once\na,1,\na,2,5\nb,1,\nb,2,6\n")
    assert "static" not in lines_of(file)["once"]


def test_inspect_asks_whether_static_features_are_known_at_the_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"p{i},{day},{i % 2},{day * i}\n" for i in range(4) for day in (1, 2, 3))
    file = write(tmp_path / "table.csv", f"unit,day,sex,heat\n{rows}")
    inspect_table(str(file), {"path": "unit", "time": "day"}, tmp_path / "figure.png")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("static")]
    assert line.startswith("static     sex: the same on all rows of a path; leave out (--drop)")


def test_columns_of_every_kind_are_described(tmp_path: Path) -> None:
    kinds = parquet_table(
        lists=pa.array([[1], [2], None, [3]]), nan=[1.0, np.nan, np.inf, 2.0],
        flag=[True, False, True, False], coded=pa.array(["u", "v", None, "u"]).dictionary_encode(),
        when=pa.array(range(4), pa.timestamp("s")), large=pa.array(["p"] * 4, pa.large_string()),
    )  # fmt: skip
    said = lines_of(write(tmp_path / "table.parquet", kinds))
    words = {"lists": "list", "nan": "50.00% missing", "flag": "yes or no", "coded": "2 distinct",
             "when": "1970-01-01 00:00:00 to 1970-01-01 00:00:03", "large": "text"}  # fmt: skip
    for column, word in words.items():
        assert word in said[column]


def test_separator_may_be_given(tmp_path: Path) -> None:
    file = write(tmp_path / "table.csv", TEXT.replace(",", "|"))
    assert "numbers" in lines_of(file, separator="|", decimal=".")["heat"]


def test_paths_with_gaps_and_text_are_described(tmp_path: Path) -> None:
    text = "unit,t,x,c\na,0,1,u\na,1,,v\nb,0,3,\nb,5,5,v\n"
    lines = list(describe_paths(read_written(tmp_path, text, missing="impute")))
    assert " ".join(lines[-2].split()) == "x mean 3 sd 1.633 min 1 max 5 25.00% missing"
    assert " ".join(lines[-1].split()) == "c text of 2 categories 25.00% missing"


def test_durations_have_a_unit_and_dates_are_shown_as_dates(tmp_path: Path) -> None:
    text = "unit,t,x\na,2020-01-01,1\na,2020-01-03T12:00,2\n"
    lines = list(describe_paths(read_written(tmp_path, text, time_unit="days"), "days"))
    assert "durations  2.5 to 2.5, median 2.5 days" in lines
    assert "dates      2020-01-01T00:00 to 2020-01-03T12:00" in lines
