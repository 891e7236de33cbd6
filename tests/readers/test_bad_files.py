"""Bad files: empty, cut off, of another kind than named, or unlike their neighbours."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from written_tables import (
    COMPRESS,
    parquet_table,
    read_written,
    refusal,
    refusal_of,
    write,
    write_folder,
)

GOOD = "unit,t,x\na,0,1\na,1,2\nb,0,3\nb,1,4\n"
LONG = "unit,t,x\n" + "".join(f"a,{i},{i * 0.37:.3f}\n" for i in range(400))


def test_absent_file_is_refused(tmp_path: Path) -> None:
    assert "PLACE" in refusal(tmp_path / "none.csv")


def test_file_of_nearly_the_name_is_named(tmp_path: Path) -> None:
    write(tmp_path / "patients.csv", GOOD)
    assert "'patients.csv' is there" in refusal(tmp_path / "patient.csv")


def test_folder_without_tables_is_refused(tmp_path: Path) -> None:
    assert ".csv" in refusal(write_folder(tmp_path / "all", {"notes.txt": "hm"}))


@pytest.mark.parametrize("name", ["table.txt", "table", "table.csv.zip", "table.xlsx", "table.gz"])
def test_unknown_ending_is_refused(tmp_path: Path, name: str) -> None:
    assert ".csv" in refusal_of(tmp_path, GOOD, name)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".parquet"])
def test_empty_file_is_refused(tmp_path: Path, ending: str) -> None:
    assert "empty" in refusal_of(tmp_path, b"", "table" + ending)


@pytest.mark.parametrize("ending", COMPRESS)
def test_empty_compressed_file_is_refused(tmp_path: Path, ending: str) -> None:
    assert "mpty" in refusal_of(tmp_path, COMPRESS[ending](b""), "table" + ending)


@pytest.mark.parametrize("text", ["\n", "\r\n\r\n", "\ufeff", " ", "unit,t,x"])
def test_file_without_a_full_line_is_refused(tmp_path: Path, text: str) -> None:
    refusal_of(tmp_path, text)


@pytest.mark.parametrize("content", ["unit,t,x\n", "unit,t,x\r\n\r\n", parquet_table()[:0]])
def test_header_without_rows_is_refused(tmp_path: Path, content: str | pa.Table) -> None:
    assert "no rows" in refusal_of(tmp_path, content)


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99, -1, -5, -9])
def test_truncated_compressed_file_is_refused(tmp_path: Path, ending: str, share: float) -> None:
    packed = COMPRESS[ending](LONG.encode())
    cut = int(share) if share < 0 else int(share * len(packed))
    refusal_of(tmp_path, packed[:cut], "table" + ending)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99, -1, -5, -9])
def test_truncated_parquet_is_refused(tmp_path: Path, share: float) -> None:
    whole = write(tmp_path / "whole.parquet", parquet_table()).read_bytes()
    cut = int(share) if share < 0 else int(share * len(whole))
    refusal_of(tmp_path, whole[:cut], "table.parquet")


@pytest.mark.parametrize("end", ['a,400,"1', 'a,400,"1\n', 'a,400,"', '"a', 'a,"400,1\na,401,2\n'])
def test_file_that_ends_within_quotes_is_refused(tmp_path: Path, end: str) -> None:
    refusal_of(tmp_path, LONG + end)


def test_compressed_file_with_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(LONG.encode()))
    packed[len(packed) // 2] ^= 0x55
    refusal_of(tmp_path, bytes(packed), "table.csv.gz")


@pytest.mark.parametrize("ending", [".csv.gz", ".csv.bz2", ".csv.zst", ".parquet", ".pq"])
def test_csv_under_another_name_is_refused(tmp_path: Path, ending: str) -> None:
    refusal_of(tmp_path, LONG, "table" + ending)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_csv_named_csv_is_refused(tmp_path: Path, ending: str) -> None:
    refusal_of(tmp_path, COMPRESS[ending](LONG.encode()), "table.csv")


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_parquet_under_another_name_is_refused(tmp_path: Path, ending: str) -> None:
    refusal_of(tmp_path, parquet_table(), "table" + ending)


@pytest.mark.parametrize(
    "content", [b"PAR1", b"PAR1PAR1", b"PAR1" + b"\0" * 40 + b"PAR1", b"\x89PNG\r\n"]
)
def test_no_parquet_though_named_so_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "Parquet" in refusal_of(tmp_path, content, "table.parquet")


@pytest.mark.parametrize(("old", "column"), [("b,0", "unit"), ("0,3", "t"), ("3\n", "x")])
def test_cell_that_is_not_utf8_is_named_by_its_column(
    tmp_path: Path, old: str, column: str
) -> None:
    message = refusal_of(tmp_path, GOOD.encode().replace(old.encode(), b"\xe9" + old.encode()))
    assert f"column '{column}'" in message


@pytest.mark.parametrize("old", ["unit", "t,", "x"])
def test_header_that_is_not_utf8_is_refused(tmp_path: Path, old: str) -> None:
    text = GOOD.encode().replace(old.encode(), b"\xe9" + old.encode())
    assert "UTF-8" in refusal_of(tmp_path, text)


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-32"])
def test_other_coding_than_utf8_is_refused(tmp_path: Path, coding: str) -> None:
    refusal_of(tmp_path, GOOD.encode(coding))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ragged_row_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    refusal_of(tmp_path, GOOD.encode() + b"\xe9,0\n")


@pytest.mark.parametrize("row", ["b,1", "b,1,4,5", "b,1,4,", "b", "  "])
def test_ragged_row_is_named(tmp_path: Path, row: str) -> None:
    message = refusal_of(tmp_path, GOOD.replace("b,1,4\n", row + "\nb,2,5\n"))
    assert "row 4" in message or "line 5" in message


def test_ragged_row_is_counted_right_after_blank_lines(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, GOOD.replace("a,1,2\n", "a,1,2\n\n\n") + "b,2\n")
    assert "row 5" in message or "line 8" in message


def test_ragged_row_is_counted_right_after_a_line_break_in_quotes(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, 'unit,t,x\n"a\nb",0,1\n"a\nb",1,2\nb,2\n')
    assert "row 3" in message or "line 6" in message


def test_separator_that_is_not_looked_for_is_refused_by_its_name(tmp_path: Path) -> None:
    assert "set separator='|'" in refusal_of(tmp_path, GOOD.replace(",", "|"))


@pytest.mark.parametrize("row", ["b,1,Smith", "b,1,Smith,5,6"])
def test_ragged_row_is_not_shown(tmp_path: Path, row: str) -> None:
    message = refusal_of(tmp_path, "unit,t,x,name\na,0,1,Jones\n" + row + "\n")
    assert "Smith" not in message
    assert f"row 2: {row.count(',') + 1} fields where the header has 4" in message


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ragged_row_of_bytes_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not a readable CSV file" in refusal_of(tmp_path, bytes(range(256)) * 8)
    assert capsys.readouterr().err == ""


def test_ragged_row_that_is_not_utf8_is_not_shown(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, GOOD.encode() + b"Smith,\xe9\n")
    assert "Smith" not in message


@pytest.mark.parametrize(
    "content",
    [
        "unit,t,x,x\na,0,1,2\na,1,2,3\n",
        pa.table([["a", "a"], [0, 1], [1.0, 2.0], [1.0, 2.0]], names=["unit", "t", "x", "x"]),
    ],
    ids=["csv", "parquet"],
)
def test_column_name_that_occurs_twice_is_named(tmp_path: Path, content: str | pa.Table) -> None:
    assert "'x'" in refusal_of(tmp_path, content)


@pytest.mark.parametrize("first", ["a,1,2.5,Smith", "a,1,1,Smith"])
def test_file_without_a_header_is_refused_without_its_cells(tmp_path: Path, first: str) -> None:
    message = refusal_of(tmp_path, f"{first}\na,2,3,Smith\n")
    assert "the first line must name the columns" in message
    assert "Smith" not in message


def test_columns_may_be_named_by_numbers(tmp_path: Path) -> None:
    paths = read_written(tmp_path, "unit,t,1,2,3\na,1,5,6,7\na,2,6,7,8\n")
    assert paths.feature_names == ("1", "2", "3")


@pytest.mark.parametrize("head", ["unit,t,x,", 'unit,t,x,""', "unit,t,,x"])
def test_column_without_a_name_is_refused(tmp_path: Path, head: str) -> None:
    assert "no name" in refusal_of(tmp_path, head + "\na,0,1,2\na,1,2,3\n")


def test_different_columns_in_two_files_are_named(tmp_path: Path) -> None:
    files = {"1.csv": GOOD, "2.csv": "unit,t,speed\nc,0,1\nc,1,2\n"}
    message = refusal(write_folder(tmp_path / "all", files))
    for part in ("1.csv", "2.csv", "'x'", "'speed'"):
        assert part in message


@pytest.mark.parametrize("cells", [("red", "blue"), ("2020-01-01", "2020-01-02")])
def test_different_types_in_two_files_are_named(tmp_path: Path, cells: tuple[str, str]) -> None:
    files = {"1.csv": GOOD, "2.csv": f"unit,t,x\nc,0,{cells[0]}\nc,1,{cells[1]}\n"}
    message = refusal(write_folder(tmp_path / "all", files))
    assert "2.csv" in message
    assert "x" in message


@pytest.mark.parametrize("bad", ["unit,t,x\nc,0,1\nc,1,\n", "unit,t,x\nc,0,1\nc,0,2\n"])
def test_bad_row_in_a_folder_is_named_by_its_file(tmp_path: Path, bad: str) -> None:
    message = refusal(write_folder(tmp_path / "all", {"1.csv": GOOD, "2.csv": bad}))
    assert "2.csv" in message
    assert "row 2" in message


@pytest.mark.parametrize("bad", ["", "unit,t,x\n", "unit,t,x\nc,0\n"])
def test_bad_file_in_a_folder_is_named(tmp_path: Path, bad: str) -> None:
    message = refusal(write_folder(tmp_path / "all", {"1.csv": GOOD, "2.csv": bad}))
    assert "2.csv" in message


def test_refused_file_is_left_as_it_was_and_nothing_is_written(tmp_path: Path) -> None:
    refusal_of(tmp_path, GOOD + "b,1\n")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "table.csv": GOOD + "b,1\n"
    }


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be"])
def test_utf16_is_named(tmp_path: Path, coding: str) -> None:
    mark = "" if coding == "utf-16" else "\ufeff"
    message = refusal_of(tmp_path, (mark + GOOD).encode(coding))
    assert message == "PLACE: the file is written in UTF-16; save it as UTF-8"


@pytest.mark.parametrize("text", ["\n\n\n", "\r\n\r\n"])
def test_file_of_empty_lines_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal_of(tmp_path, text) == "PLACE: all lines are empty; write the table again"


@pytest.mark.parametrize("above", ["# written by X\n", "Report of May\n"])
def test_line_above_the_header_is_named(tmp_path: Path, above: str) -> None:
    message = refusal_of(tmp_path, above + GOOD)
    assert "row 1: 3 fields where the header has 1; delete what stands above the line" in message


def test_numbers_of_rows_without_a_name_are_explained(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, ",unit,t,x\n0,a,0,1\n1,a,1,2\n")
    assert "column 1 has no name; give it one in the header; numbers of rows are left" in message


def test_separator_at_the_ends_of_lines_is_explained(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,x,\na,0,1,\na,1,2,\n")
    assert "column 4 has no name; give it one in the header, or take the separator" in message
