"""How people write tables: separators, decimal commas, dates, rows written twice."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from written_tables import parquet_table, read_written, refusal_of

from lit_ios.checks import UserError
from lit_ios.readers import TableRoles, read_columns

TEXT = "unit,t,x\na,0,1.5\na,1,-2.25\nb,0,3e-2\nb,1,4\n"
X = [1.5, -2.25, 0.03, 4]


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("quote", ["", '"'])
def test_semicolons_tabs_and_decimal_commas_are_recognised(
    tmp_path: Path, mark: str, decimal: str, quote: str
) -> None:
    text = TEXT.replace(",", f"{quote}{mark}{quote}").replace(".", decimal)
    text = "".join(f"{quote}{line}{quote}\n" for line in text.split("\n")[:-1])
    assert read_written(tmp_path, text).states[:, 0].tolist() == X


def test_compressed_european_csv_is_recognised(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT.replace(",", ";").replace(".", ",").encode())
    assert read_written(tmp_path, packed, "table.csv.gz").states[:, 0].tolist() == X


@pytest.mark.parametrize("mark", ["|", ":", ";"])
def test_separator_can_be_set(tmp_path: Path, mark: str) -> None:
    paths = read_written(tmp_path, TEXT.replace(",", mark), separator=mark)
    assert paths.states[:, 0].tolist() == X


@pytest.mark.parametrize("name", ["tab", "\\t", "\t"])
def test_tab_has_a_name(tmp_path: Path, name: str) -> None:
    paths = read_written(tmp_path, TEXT.replace(",", "\t"), separator=name)
    assert paths.states[:, 0].tolist() == X


def test_semicolon_in_a_cell_does_not_separate(tmp_path: Path) -> None:
    text = "unit,t,c\na,0,u;v\na,1,w;v\n"
    assert read_written(tmp_path, text).categories == {"c": ("u;v", "w;v")}


def test_comma_separates_where_semicolons_would_do_as_well(tmp_path: Path) -> None:
    text = "unit,t;x\na,0;5\na,1;6\n"
    assert read_columns_of(tmp_path, text) == ["unit", "t;x"]


def read_columns_of(folder: Path, text: str) -> list[str]:
    (folder / "table.csv").write_text(text)
    return list(read_columns(folder / "table.csv").column_names)


def test_thousands_are_not_taken_for_decimals(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit;t;x\na;0;1,234\na;1;5,678\n")
    assert "column 'x', path 'a', row 1: not a number: '1,234'; set decimal=','" in message


def test_decimal_comma_can_be_set(tmp_path: Path) -> None:
    text = "unit;t;x\na;0;1,234\na;1;5,678\n"
    assert read_written(tmp_path, text, decimal=",").states[:, 0].tolist() == [1.234, 5.678]


def test_points_and_commas_are_not_mixed(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit;t;x\na;0;1,5\na;1;2.5\n")
    assert "column 'x', path 'a', row 1: not a number: '1,5'" in message


def test_text_among_decimal_commas_is_named(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit;t;x;y\na;0;1,5;0,5\na;1;two;0,5\n")
    assert "column 'x', path 'a', row 2: not a number: 'two'" in message


@pytest.mark.parametrize(
    "given",
    [
        {"separator": ",,"},
        {"separator": "a"},
        {"separator": ""},
        {"decimal": ";"},
        {"decimal": ",", "separator": ","},
    ],
)
def test_marks_that_cannot_be_are_refused(given: dict) -> None:
    with pytest.raises(UserError, match=r"separator|decimal"):
        TableRoles("unit", "t", **given)


@pytest.mark.parametrize(
    "written",
    ["%d.%m.%Y", "%m/%d/%y %H:%M", "%Y%m%d", "%d %b %Y", "%H:%M:%S %d-%m-%Y", "%Y-%m-%dT%H%z"],
)
def test_dates_are_read_as_their_format_says(tmp_path: Path, written: str) -> None:
    moments = [datetime(2021, 3, 4, 5, tzinfo=UTC), datetime(2021, 11, 12, 13, tzinfo=UTC)]
    cells = [moment.strftime(written) for moment in moments]
    text = "unit,t,x\n" + "".join(f"a,{cell},1\n" for cell in cells)
    times = read_written(tmp_path, text, date_format=written, time_unit="seconds").times
    exact = [datetime.strptime(cell, written) for cell in cells]
    assert times.tolist() == [m.replace(tzinfo=m.tzinfo or UTC).timestamp() for m in exact]


def test_dates_of_a_format_may_be_numbers_in_parquet(tmp_path: Path) -> None:
    table = parquet_table(t=[20200131, 20200201, 20200201, 20200202])
    times = read_written(tmp_path, table, date_format="%Y%m%d", time_unit="days").times
    assert (times - times[0]).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("cell", ["31.02.2020", "2020-02-01", "soon", "1.2.20"])
def test_cell_that_is_not_written_so_is_named(tmp_path: Path, cell: str) -> None:
    text = f"unit,t,x\na,01.02.2020,1\nb,{cell},2\n"
    message = refusal_of(tmp_path, text, date_format="%d.%m.%Y")
    assert f"column 't', path 'b', row 2: {cell!r} is not a date written as '%d.%m.%Y'" in message


def test_dates_of_no_known_format_ask_for_it(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,x\na,01.02.2020,1\na,02.02.2020,2\n")
    assert "neither a number nor a date: '01.02.2020'" in message
    assert "date_format='%d.%m.%Y'" in message


@pytest.mark.parametrize("given", ["dd.mm.yyyy", "%Q", "%", ""])
def test_format_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="date_format must be written as for strptime"):
        TableRoles("unit", "t", date_format=given)


TWICE = "unit,t,x,c\na,0,1,u\na,1,,v\nb,0,3,u\na,0,1,u\na,1,,v\nb,1,4,v\nb,1,4,v\nb,1,4,v\n"


@pytest.mark.parametrize("sort", [False, True])
def test_identical_rows_are_kept_once(tmp_path: Path, sort: bool) -> None:
    paths = read_written(tmp_path, TWICE, duplicates="drop", missing="impute", sort=sort)
    assert paths.names == ("a", "b")
    assert paths.times.tolist() == [0, 1, 0, 1]
    assert paths.states[[0, 2, 3], 0].tolist() == [1, 3, 4]
    assert paths.states[:, 1].tolist() == [0, 1, 0, 1]


def test_identical_rows_are_named_with_the_option_that_drops_them(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, TWICE, missing="impute", sort=True)
    assert "column 't', path 'a', row 4: the same time 0 as in row 1" in message
    assert "duplicates='drop'" in message


@pytest.mark.parametrize("duplicates", ["error", "drop"])
@pytest.mark.parametrize("other", ["b,1,5,v", "b,1,4,u", "b,1,,v", "b,1,4,"])
def test_rows_of_the_same_time_that_differ_are_refused(
    tmp_path: Path, duplicates: str, other: str
) -> None:
    text = f"unit,t,x,c\na,0,1,u\na,1,2,v\nb,1,4,v\n{other}\n"
    message = refusal_of(tmp_path, text, duplicates=duplicates, missing="impute")
    assert "column 't', path 'b', row 4: the same time 1 as in row 3; the rows differ" in message


def test_columns_that_are_not_used_do_not_make_rows_differ(tmp_path: Path) -> None:
    text = "unit,t,x,note\na,0,1,u\na,0,1,v\na,1,2,w\n"
    paths = read_written(tmp_path, text, duplicates="drop", drop=("note",))
    assert paths.states.tolist() == [[1], [2]]


def test_status_makes_rows_differ(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\na,1,2,0\na,1,2,1\n"
    message = refusal_of(tmp_path, text, duplicates="drop", stop="s")
    assert "the rows differ" in message
