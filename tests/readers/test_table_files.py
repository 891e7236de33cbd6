"""Kinds of files: what is in them is read whatever they are called and however packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from written_tables import COMPRESS, parquet_table, read, read_written, write, write_folder

from lit_ios.readers import TableRoles, read_columns, read_paths
from lit_ios.trajectories import TrajectorySet

TEXT = "unit,t,x,y\na,0,1.5,-2\na,1,2.5,-3\na,4,0.1,-4\nb,7,1e-3,5\nb,8,3.5,6\n"
FIRST, SECOND = "unit,t,x\na,0,1\na,1,2\n", "unit,t,x\nb,0,3.5\nb,1,4\n"


def assert_holds_text(paths: TrajectorySet) -> None:
    """Compare with TEXT, cell by cell."""
    assert paths.names == ("a", "b")
    assert paths.feature_names == ("x", "y")
    assert paths.offsets.tolist() == [0, 3, 5]
    assert paths.times.tolist() == [0, 1, 4, 7, 8]
    assert paths.states.tolist() == [[1.5, -2], [2.5, -3], [0.1, -4], [1e-3, 5], [3.5, 6]]
    assert paths.stopped.tolist() == [True, True]


def test_csv_is_read(tmp_path: Path) -> None:
    assert_holds_text(read_written(tmp_path, TEXT))


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_csv_is_read(tmp_path: Path, ending: str) -> None:
    packed = COMPRESS[ending](TEXT.encode())
    assert_holds_text(read_written(tmp_path, packed, "table" + ending))


@pytest.mark.parametrize("ending", [".parquet", ".pq"])
def test_parquet_is_read(tmp_path: Path, ending: str) -> None:
    table = read_columns(write(tmp_path / "table.csv", TEXT))
    assert_holds_text(read_written(tmp_path, table, "table" + ending))


def test_gzip_of_two_members_is_read_to_its_end(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT[:30].encode()) + gzip.compress(TEXT[30:].encode())
    assert_holds_text(read_written(tmp_path, packed, "table.csv.gz"))


def test_place_may_be_a_string(tmp_path: Path) -> None:
    file = write(tmp_path / "table.csv", TEXT)
    assert_holds_text(read_paths(str(file), TableRoles("unit", "t")))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_do_not_matter(tmp_path: Path, ending: str) -> None:
    assert_holds_text(read_written(tmp_path, TEXT.replace("\n", ending)))


def test_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert_holds_text(read_written(tmp_path, "\ufeff" + TEXT))


def test_last_line_may_end_without_a_line_break(tmp_path: Path) -> None:
    assert_holds_text(read_written(tmp_path, TEXT.rstrip()))


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    assert_holds_text(read_written(tmp_path, TEXT.replace("\n", "\n\n")))


def test_quotes_around_cells_do_not_matter(tmp_path: Path) -> None:
    quoted = "".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in TEXT.split()
    )
    assert_holds_text(read_written(tmp_path, quoted))


@pytest.mark.parametrize("name", ["pump, left", 'the "old" one', "two\nlines", "Größe Ⅷ", "a\tb"])
def test_quoted_text_is_kept_as_it_is(tmp_path: Path, name: str) -> None:
    cell = '"' + name.replace('"', '""') + '"'
    assert read_written(tmp_path, f"unit,t,x\n{cell},0,1\n{cell},1,2\n").names == (name,)


def test_parquet_of_many_row_groups_is_read_to_its_end(tmp_path: Path) -> None:
    table = pa.table({"unit": ["a"] * 50, "t": range(50), "x": np.arange(50.0) ** 2})
    pa_parquet.write_table(table, tmp_path / "table.parquet", row_group_size=7)
    assert read(tmp_path / "table.parquet").states[:, 0].tolist() == [i * i for i in range(50)]


def test_folder_is_read_file_below_file(tmp_path: Path) -> None:
    paths = read(write_folder(tmp_path / "all", {"2.csv": SECOND, "1.csv": FIRST}))
    assert paths.names == ("a", "b")
    assert paths.states.tolist() == [[1], [2], [3.5], [4]]


def test_folder_may_mix_kinds_of_files(tmp_path: Path) -> None:
    packed = gzip.compress(SECOND.replace("b", "c").encode())
    files = {"1.csv": FIRST, "2.csv.gz": packed, "3.parquet": parquet_table()}
    paths = read(
        write_folder(tmp_path / "all", files | {"3.parquet": parquet_table(t=[2, 3, 0, 1])})
    )
    assert paths.names == ("a", "c", "b")
    assert paths.states[:, 0].tolist() == [1, 2, 1, 2, 3.5, 4, 3, 4]


def test_folder_ignores_files_of_other_endings(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "all", {"1.csv": FIRST, "notes.txt": "hm", "_SUCCESS": ""})
    assert read(folder).names == ("a",)


def test_folder_joins_a_path_that_two_files_share(tmp_path: Path) -> None:
    files = {"1.csv": FIRST, "2.csv": "unit,t,x\na,2,9\n"}
    paths = read(write_folder(tmp_path / "all", files))
    assert paths.names == ("a",)
    assert paths.times.tolist() == [0, 1, 2]


def test_folder_matches_columns_by_name(tmp_path: Path) -> None:
    files = {"1.csv": FIRST, "2.csv": "x,unit,t\n3.5,b,0\n4,b,1\n"}
    assert read(write_folder(tmp_path / "all", files)).states.tolist() == [[1], [2], [3.5], [4]]


def test_folder_may_name_paths_by_digits_in_one_file_and_letters_in_another(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path / "all", {"1.csv": FIRST.replace("a", "17"), "2.csv": SECOND})
    assert read(folder).names == ("17", "b")


def test_large_csv_may_turn_from_whole_numbers_to_fractions(tmp_path: Path) -> None:
    rows = "".join(f"p{i // 1000},{i % 1000},{i}\n" for i in range(150_000))
    assert len(rows) > 2**21
    paths = read_written(tmp_path, f"unit,t,x\n{rows}last,0,0.25\nlast,1,1e-3\n")
    assert np.array_equal(paths.states[:, 0], [*range(150_000), 0.25, 1e-3])


def test_large_csv_with_line_breaks_in_its_notes_is_read_row_by_row(tmp_path: Path) -> None:
    note = "a" * 700 + "\nq,1,2,b"
    rows = "".join(f'p,{i},1,"{note}"\n' for i in range(2000))
    assert len(rows) > 2**20  # pyarrow reads blocks of that size
    paths = read_written(tmp_path, "unit,t,x,note\n" + rows, features=("x",))
    assert paths.names == ("p",)
    assert len(paths.states) == 2000
