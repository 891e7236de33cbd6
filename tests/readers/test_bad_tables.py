"""Bad tables: one error each, which names the file and where it applies column, path and row."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written, refusal_of, write

from lit_ios.checks import UserError
from lit_ios.readers import TableError, TableRoles, read_paths

GOOD = "unit,t,x\na,0,1\na,1,2\nb,0,3\nb,1,4\n"


@pytest.mark.parametrize(
    "roles",
    [
        {"features": ("x", "speed")},
        {"features": ("speed",), "categories": {"speed": ("high",)}},
        {"stop": "speed"},
        {"censored": "speed"},
    ],
)
def test_absent_column_is_named(tmp_path: Path, roles: dict) -> None:
    assert "no column 'speed'" in refusal_of(tmp_path, GOOD, **roles)


@pytest.mark.parametrize("role", ["path", "time"])
def test_absent_path_or_time_column_is_named(tmp_path: Path, role: str) -> None:
    roles = TableRoles(**({"path": "unit", "time": "t"} | {role: "speed"}))
    with pytest.raises(TableError, match=r"table\.csv: no column 'speed'"):
        read_paths(write(tmp_path / "table.csv", GOOD), roles)


def test_absent_columns_are_all_named(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, GOOD, features=("speed", "x", "heat"))
    assert "'speed'" in message
    assert "'heat'" in message


def test_table_without_features_is_refused(tmp_path: Path) -> None:
    assert "feature" in refusal_of(tmp_path, "unit,t\na,0\na,1\n")


def test_feature_named_twice_is_refused(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, GOOD, features=("x", "x"))
    assert "a feature is named twice: 'x'" in message


def test_column_of_two_roles_is_refused(tmp_path: Path) -> None:
    assert "two roles" in refusal_of(tmp_path, GOOD, stop="t")


@pytest.mark.parametrize("cell", ["two", "1.2.3", "1;5", "--", "1 000", "1_000", '"1,5"', "1\0"])
def test_text_in_a_numeric_feature_is_named(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,3", f"b,0,{cell}"))
    assert "column 'x', path 'b', row 3" in message
    assert repr(cell.strip('"')) in message


@pytest.mark.parametrize("missing", ["drop", "last", "impute"])
def test_text_in_a_numeric_feature_is_no_gap(tmp_path: Path, missing: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,3", "b,0,two"), missing=missing)
    assert "column 'x', path 'b', row 3" in message


@pytest.mark.parametrize("cell", ["", '""', "NaN", "NA", "inf", "-inf", "1e999"])
def test_missing_or_infinite_value_is_named(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,3", f"b,0,{cell}"))
    assert "column 'x', path 'b', row 3" in message
    assert "missing or infinite" in message
    assert all(f"missing={way!r}" in message for way in ("impute", "last", "drop"))


@pytest.mark.parametrize("value", [None, np.nan, np.inf, -np.inf])
def test_missing_or_infinite_parquet_value_is_named(tmp_path: Path, value: float | None) -> None:
    message = refusal_of(tmp_path, parquet_table(y=[1.0, 2.0, 3.0, value]))
    assert "column 'y', path 'b', row 4" in message


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.string(), pa.null()])
def test_feature_that_is_missing_everywhere_is_named(tmp_path: Path, kind: pa.DataType) -> None:
    message = refusal_of(tmp_path, parquet_table(y=pa.nulls(4, kind)))
    assert "column 'y', path 'a', row 1" in message


def test_missing_category_is_named_as_missing(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,c\na,0,u\na,1,\n")
    assert "column 'c', path 'a', row 2" in message
    assert "missing" in message


def test_missing_value_is_named_by_the_whole_name_of_its_column(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,p=q\na,0,1\na,1,\n")
    assert "column 'p=q', path 'a', row 2" in message


def test_row_of_an_error_is_that_of_the_file_though_paths_are_interleaved(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,x\na,0,1\nb,0,2\na,1,\nb,1,4\n")
    assert "column 'x', path 'a', row 3" in message


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize(("first", "second"), [("1", "1"), ("1", "1.0"), ("0.0", "-0.0")])
def test_repeated_time_is_named(tmp_path: Path, sort: bool, first: str, second: str) -> None:
    text = f"unit,t,x\na,0,1\na,1,2\nb,{first},3\na,2,5\nb,{second},4\n"
    message = refusal_of(tmp_path, text, sort=sort)
    assert "column 't', path 'b', row 5" in message
    assert "row 3" in message
    assert "same time" in message


@pytest.mark.parametrize(("asked", "meant"), [("unti", "unit"), ("Unit", "unit"), ("tt", "t")])
def test_nearest_name_is_proposed(tmp_path: Path, asked: str, meant: str) -> None:
    message = refusal_of(tmp_path, GOOD, features=("x", asked))
    assert f"no column {asked!r}; did you mean {meant!r}?" in message


def test_only_some_of_many_columns_are_listed(tmp_path: Path) -> None:
    names = [f"x{i}" for i in range(100)]
    text = ",".join(["unit", "t", *names]) + "\na,0" + ",1" * 100 + "\n"
    message = refusal_of(tmp_path, text, features=("speed",))
    assert "'x17' and 82 more" in message
    assert "'x18'" not in message


def test_time_out_of_order_is_named(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,x\na,0,1\na,1,2\nb,5,3\na,2,5\nb,4,4\n")
    assert "column 't', path 'b', row 5" in message
    assert "sort" in message


@pytest.mark.parametrize("cell", ["", '""', '"  "', '"\t"', "\u3000"])
def test_empty_path_name_is_named(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,", f"{cell},0,"))
    assert "column 'unit', row 3" in message


@pytest.mark.parametrize(
    "names",
    [
        pa.array(["a", "a", None, "b"]),
        pa.array(["a", "a", "", "b"]),
        pa.array([1, 1, None, 2]),
        pa.array([1.0, 1.0, np.nan, 2.0]),
    ],
    ids=["null", "empty", "integer", "nan"],
)
def test_empty_parquet_path_name_is_named(tmp_path: Path, names: pa.Array) -> None:
    assert "column 'unit', row 3" in refusal_of(tmp_path, parquet_table(unit=names))


@pytest.mark.parametrize("cell", ["", "soon", "inf", "NaN", "2020-13-01"])
def test_bad_time_is_named(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,", f"b,{cell},"))
    assert "column 't', path 'b', row 3" in message


@pytest.mark.parametrize(
    "content", ["unit,t,x\na,false,1\na,true,2\n", parquet_table(t=[False, True] * 2)]
)
def test_truth_is_no_time(tmp_path: Path, content: str | pa.Table) -> None:
    assert "column 't'" in refusal_of(tmp_path, content)


def test_missing_date_is_named(tmp_path: Path) -> None:
    text = "unit,t,x\na,2020-01-01,1\na,,2\na,2020-01-03,2\n"
    assert "column 't', path 'a', row 2" in refusal_of(tmp_path, text)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32(), pa.int32(), pa.float64()])
def test_missing_parquet_time_is_named(tmp_path: Path, kind: pa.DataType) -> None:
    table = parquet_table(t=pa.array([0, 1, None, 1], kind))
    assert "column 't', path 'b', row 3" in refusal_of(tmp_path, table)


def test_bad_date_among_dates_is_named(tmp_path: Path) -> None:
    text = "unit,t,x\na,2020-01-01,1\na,2020-01-02,2\na,2020-02-31,2\n"
    assert "column 't', path 'a', row 3" in refusal_of(tmp_path, text)


@pytest.mark.parametrize("cell", ["2", "-1", "0.5", "yes", ""])
@pytest.mark.parametrize("role", ["stop", "censored"])
def test_bad_flag_is_named(tmp_path: Path, cell: str, role: str) -> None:
    text = f"unit,t,x,s\na,0,1,0\na,1,2,{cell}\nb,0,1,0\nb,1,1,1\n"
    assert "column 's', path 'a', row 2" in refusal_of(tmp_path, text, **{role: "s"})


def test_row_after_the_stop_is_named(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\nb,0,3,1\na,1,2,1\nb,1,4,0\n"
    assert "column 's', path 'b', row 2" in refusal_of(tmp_path, text, stop="s")


def test_path_both_stopped_and_censored_is_named(tmp_path: Path) -> None:
    text = "unit,t,x,s,c\na,0,1,0,0\na,1,2,1,0\nb,0,3,0,1\nb,1,4,1,1\n"
    message = refusal_of(tmp_path, text, stop="s", censored="c")
    assert "column 'c', path 'b', row 4" in message


@pytest.mark.parametrize("roles", [{"stop": "s"}, {"censored": "c"}])
def test_table_without_a_stop_is_refused(tmp_path: Path, roles: dict) -> None:
    text = "unit,t,x,s,c\na,0,1,0,1\na,1,2,0,1\nb,0,3,0,1\n"
    assert "no path is stopped" in refusal_of(tmp_path, text, features=("x",), **roles)


def test_table_of_single_rows_is_refused(tmp_path: Path) -> None:
    assert "single row" in refusal_of(tmp_path, "unit,t,x\na,0,1\nb,0,2\nc,5,3\n")


def test_text_of_too_many_kinds_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"a,{i},note {i}\n" for i in range(101))
    assert "column 'note'" in refusal_of(tmp_path, "unit,t,note\n" + rows)


@pytest.mark.parametrize("cell", ["?", ".", "-", "--"])
def test_mark_of_a_missing_value_is_answered_with_what_to_write(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,3", f"b,0,{cell}"))
    assert f"row 3: not a number: {cell!r}; leave the cell empty if the value is missing" in message


@pytest.mark.parametrize("cell", ["3 %", "$3", "3.5°C", "3 mg/dl", "1 000", '"1,234.5"'])
def test_number_with_marks_is_answered_with_what_to_write(tmp_path: Path, cell: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,0,3", f"b,0,{cell}"))
    assert message.endswith("write the number alone, without marks")


def marked_rows(count: int, mark: str) -> str:
    return "unit,t,x\n" + "".join(f"u{i // 2},{i % 2},{i}{mark}\n" for i in range(count))


@pytest.mark.parametrize(("count", "noted"), [(10, False), (12, True), (100, True)])
@pytest.mark.parametrize("mark", ["%", " C", " days"])
def test_categories_that_look_like_numbers_are_noted(
    tmp_path: Path, mark: str, count: int, noted: bool
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_written(tmp_path, marked_rows(count, mark))
    said = [str(one.message) for one in caught]
    assert any(f"{count} different texts such as '0{mark}'" in text for text in said) == noted


def test_names_that_look_like_numbers_are_not_called_names(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, marked_rows(120, " C"))
    assert "120 different texts such as '0 C', which look like numbers" in message


def test_codes_are_categories_without_a_word(tmp_path: Path) -> None:
    codes = marked_rows(40, "-B").replace(",0-B", ",A-B")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_written(tmp_path, codes).categories["x"]) == 40


@pytest.mark.parametrize("role", ["path", "stop", "censored", "event_time"])
def test_column_with_another_role_is_no_feature(role: str) -> None:
    roles = {"path": "unit", "time": "t", role: "x"}
    with pytest.raises(UserError, match=r"'x' says .* take it out of features"):
        TableRoles(**roles, features=("x", "z"))


def test_time_may_be_a_feature() -> None:
    assert TableRoles("unit", "t", features=("t", "x")).features == ("t", "x")
