"""Rows → paths: names, order, stops and censoring."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written


def test_interleaved_rows_are_brought_together_by_path(tmp_path: Path) -> None:
    text = "unit,t,x\nb,5,1\na,0,2\nb,6,3\nc,9,4\na,1,5\nb,7,6\n"
    paths = read_written(tmp_path, text)
    assert paths.names == ("b", "a", "c")
    assert paths.times.tolist() == [5, 6, 7, 0, 1, 9]
    assert paths.states[:, 0].tolist() == [1, 3, 6, 2, 5, 4]
    assert paths.offsets.tolist() == [0, 3, 5, 6]


@pytest.mark.parametrize(
    "names",
    [
        ("1", "2"),
        ("007", "7"),
        ("1", "1.0"),
        ("1.50", "1.5"),
        ("12345678901234567890", "12345678901234567891"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("true", "TRUE"),
        ("1", "true"),
        ("0x10", "16"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("+5", "5"),
        ("2020-01-01T00:00:00Z", "2020-01-01 00:00:00Z"),
        ("12:30", "12:30:00"),
        ("a", "A"),
        ("a", "a "),
        ("é", "e\u0301"),
        ("a\0", "a"),
    ],
    ids=ascii,
)
def test_path_names_are_the_text_of_the_file(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = names
    text = f"unit,t,x\n{first},0,1\n{first},1,2\n{second},2,3\n{second},3,4\n"
    assert read_written(tmp_path, text).names == names


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
def test_path_names_may_be_parquet_integers(tmp_path: Path, kind: pa.DataType) -> None:
    table = parquet_table(unit=pa.array([7, 7, 12, 12], kind))
    assert read_written(tmp_path, table).names == ("7", "12")


def test_coded_integers_name_paths_as_plain_ones_do(tmp_path: Path) -> None:
    numbers = pa.array([7, 7, -12, -12], pa.int32())
    table = parquet_table(unit=numbers.dictionary_encode())
    assert read_written(tmp_path, table).names == ("7", "-12")


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_path_names_may_be_stored_in_any_form_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    table = parquet_table(unit=pa.array(["007", "007", "7", "7"]).cast(kind))
    assert read_written(tmp_path, table).names == ("007", "7")


def test_last_row_is_the_stop_without_flags(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,x\na,0,1\na,1,2\nb,0,3\n")
    assert paths.stopped.tolist() == [True, True]


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("true", "false"), ("1.0", "0.0")])
def test_stop_column_tells_stopped_from_censored(tmp_path: Path, yes: str, no: str) -> None:
    text = f"unit,t,x,s\na,0,1,{no}\na,1,2,{yes}\nb,0,3,{no}\nb,1,3,{no}\nc,0,4,{yes}\n"
    paths = read_written(tmp_path, text, stop="s")
    assert paths.stopped.tolist() == [True, False, True]
    assert paths.feature_names == ("x",)


@pytest.mark.parametrize("marks", ["11", "01"])
def test_censored_column_marks_whole_paths(tmp_path: Path, marks: str) -> None:
    text = f"unit,t,x,c\na,0,1,{marks[0]}\na,1,2,{marks[1]}\nb,0,3,0\nb,1,4,0\n"
    paths = read_written(tmp_path, text, censored="c")
    assert paths.stopped.tolist() == [False, True]


def test_stop_and_censored_columns_may_agree(tmp_path: Path) -> None:
    text = "unit,t,x,s,c\na,0,1,0,0\na,1,2,1,0\nb,0,3,0,1\nb,1,4,0,1\nd,0,3,0,0\nd,1,4,0,0\n"
    paths = read_written(tmp_path, text, stop="s", censored="c")
    assert paths.stopped.tolist() == [True, False, False]


def test_flags_follow_their_rows_when_sorted(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,1,2,1\nb,3,5,0\na,0,1,0\nb,2,4,0\n"
    paths = read_written(tmp_path, text, stop="s", sort=True)
    assert paths.stopped.tolist() == [True, False]
    assert paths.states[:, 0].tolist() == [1, 2, 4, 5]


def test_unlabelled_file_needs_no_stop(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\na,1,2,0\n"
    paths = read_written(tmp_path, text, stop="s", training=False)
    assert paths.stopped.tolist() == [False]


def test_unlabelled_file_may_hold_single_rows_only(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,x\na,0,1\nb,0,2\n", training=False)
    assert paths.lengths.tolist() == [1, 1]
