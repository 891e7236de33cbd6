"""Rows → paths: names, order, stops, censoring and gaps, against loops over rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written, refusal_of

SEEDS = range(8)


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
    paths = read_written(tmp_path, text, stop_column="s")
    assert paths.stopped.tolist() == [True, False, True]
    assert paths.feature_names == ("x",)


@pytest.mark.parametrize("marks", ["11", "01"])
def test_censored_column_marks_whole_paths(tmp_path: Path, marks: str) -> None:
    text = f"unit,t,x,c\na,0,1,{marks[0]}\na,1,2,{marks[1]}\nb,0,3,0\nb,1,4,0\n"
    paths = read_written(tmp_path, text, censored_column="c")
    assert paths.stopped.tolist() == [False, True]


def test_stop_and_censored_columns_may_agree(tmp_path: Path) -> None:
    text = "unit,t,x,s,c\na,0,1,0,0\na,1,2,1,0\nb,0,3,0,1\nb,1,4,0,1\nd,0,3,0,0\nd,1,4,0,0\n"
    paths = read_written(tmp_path, text, stop_column="s", censored_column="c")
    assert paths.stopped.tolist() == [True, False, False]


def test_flags_follow_their_rows_when_sorted(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,1,2,1\nb,3,5,0\na,0,1,0\nb,2,4,0\n"
    paths = read_written(tmp_path, text, stop_column="s", sort=True)
    assert paths.stopped.tolist() == [True, False]
    assert paths.states[:, 0].tolist() == [1, 2, 4, 5]


def random_rows(seed: int, gaps: float) -> list[tuple[str, int, float | None, float | None]]:
    """Return interleaved rows of five paths in the order of time, some cells empty."""
    rng = np.random.default_rng(seed)
    rows = []
    for time in range(12):
        for path in rng.permutation(5)[: rng.integers(1, 6)]:
            cells = [None if rng.random() < gaps else round(rng.normal(), 3) for _ in range(2)]
            rows.append((f"p{path}", time, *cells))
    return rows


def as_csv(rows: list[tuple[str, int, float | None, float | None]]) -> str:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join(["unit,t,x,y", *lines]) + "\n"


def loop_paths(rows, missing: str = "error") -> dict[str, list[tuple[float, ...]]] | None:
    """Group rows, dropping or filling gaps one by one; None where that is impossible."""
    paths: dict[str, list[tuple[float, ...]]] = {}
    ends_in_gap: dict[str, bool] = {}
    for name, time, *cells in rows:
        so_far = paths.setdefault(name, [])
        if missing == "forward_fill":
            before = so_far[-1][1:] if so_far else (None, None)
            cells = [old if new is None else new for old, new in zip(before, cells, strict=True)]
        ends_in_gap[name] = None in cells
        if missing == "forward_fill" and None in cells:
            return None
        if None not in cells:
            so_far.append((time, *cells))
    return None if any(ends_in_gap.values()) else paths


def assert_equal_loop(tmp_path: Path, rows, expected, **options) -> None:
    paths = read_written(tmp_path, as_csv(rows), **options)
    found = {
        path.name: [(t, *x) for t, x in zip(path.times.tolist(), path.states.tolist(), strict=True)]
        for path in paths
    }
    assert list(found) == list(expected)
    assert found == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_grouping_equals_the_loop(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed, gaps=0)
    assert_equal_loop(tmp_path, rows, loop_paths(rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_sort_equals_sorting_the_rows_first(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed, gaps=0)
    mixed = [rows[i] for i in np.random.default_rng(seed + 99).permutation(len(rows))]
    in_order = loop_paths(rows)
    expected = {name: in_order[name] for name in dict.fromkeys(row[0] for row in mixed)}
    assert_equal_loop(tmp_path, mixed, expected, sort=True)


@pytest.mark.parametrize("missing", ["drop", "forward_fill"])
@pytest.mark.parametrize("seed", range(20))
def test_gaps_are_treated_as_in_the_loop(tmp_path: Path, seed: int, missing: str) -> None:
    rows = random_rows(seed, gaps=0.05)
    expected = loop_paths(rows, missing)
    if expected is None:
        refusal_of(tmp_path, as_csv(rows), missing=missing)
    else:
        assert_equal_loop(tmp_path, rows, expected, missing=missing)


@pytest.mark.parametrize("missing", ["drop", "forward_fill"])
def test_gaps_in_shuffled_rows_are_treated_after_sorting(tmp_path: Path, missing: str) -> None:
    rows = [("a", 2, 5.0, None), ("a", 0, 1.0, 2.0), ("a", 1, None, 3.0), ("a", 3, 7.0, 8.0)]
    expected = loop_paths(sorted(rows, key=lambda row: row[1]), missing)
    assert_equal_loop(tmp_path, rows, expected, missing=missing, sort=True)


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "inf", "-inf", "1e999"])
def test_every_spelling_of_nothing_is_a_gap(tmp_path: Path, cell: str) -> None:
    text = f"unit,t,x\na,0,1\na,1,{cell}\na,2,3\n"
    assert read_written(tmp_path, text, missing="drop").times.tolist() == [0, 2]


def test_forward_fill_takes_nothing_from_another_path(tmp_path: Path) -> None:
    text = "unit,t,x\na,0,1\na,1,2\nb,0,\nb,1,4\n"
    message = refusal_of(tmp_path, text, missing="forward_fill")
    assert "column 'x', path 'b', row 3" in message


def test_drop_refuses_to_lose_the_end_of_a_path(tmp_path: Path) -> None:
    text = "unit,t,x\na,0,1\na,1,\nb,0,3\nb,1,4\n"
    assert "column 'x', path 'a', row 2" in refusal_of(tmp_path, text, missing="drop")


def test_drop_does_not_hide_rows_after_a_stop(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\na,1,,1\na,2,3,0\nb,0,1,0\nb,1,1,1\n"
    message = refusal_of(tmp_path, text, missing="drop", stop_column="s")
    assert "column 's', path 'a', row 2" in message


def test_drop_does_not_lose_the_mark_of_censoring(tmp_path: Path) -> None:
    text = "unit,t,x,c\na,0,1,0\na,1,,1\na,2,3,0\nb,0,1,0\nb,1,1,0\n"
    paths = read_written(tmp_path, text, missing="drop", censored_column="c")
    assert paths.stopped.tolist() == [False, True]


@pytest.mark.parametrize(("missing", "x"), [("drop", [1, 3]), ("forward_fill", [1, 2, 3])])
def test_missing_category_is_treated_like_a_missing_number(
    tmp_path: Path, missing: str, x: list[int]
) -> None:
    text = "unit,t,x,c\na,0,1,u\na,1,2,\na,2,3,v\n"
    paths = read_written(tmp_path, text, missing=missing)
    assert paths.states[:, 0].tolist() == x
    assert paths.states[:, 1:].tolist() == [[1, 0]] * (len(x) - 1) + [[0, 1]]


def test_unlabelled_file_needs_no_stop(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\na,1,2,0\n"
    paths = read_written(tmp_path, text, stop_column="s", training=False)
    assert paths.stopped.tolist() == [False]


def test_unlabelled_file_may_hold_single_rows_only(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,x\na,0,1\nb,0,2\n", training=False)
    assert paths.lengths.tolist() == [1, 1]
