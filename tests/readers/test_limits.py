"""Files that are larger than they look are refused before they are read; links stay inside."""

import bz2
import gzip
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lit_ios.checks import UserError
from lit_ios.memory import memory_at_hand
from lit_ios.readers import TableError, TableRoles, limits, read_paths
from lit_ios.readers.limits import Limits

ROWS = "".join(f"{i // 5},{i},{i % 3}.5\n" for i in range(100))
TEXT = ("p,t,x\n" + ROWS).encode()
PACK = {
    ".csv": bytes,
    ".csv.gz": gzip.compress,
    ".csv.bz2": bz2.compress,
    ".csv.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def roles(**given):
    return TableRoles(path="p", time="t", **given)


@pytest.mark.parametrize("ending", PACK)
def test_csv_of_as_many_rows_as_are_allowed_is_read_and_of_one_more_is_not(ending, tmp_path):
    file = tmp_path / f"table{ending}"
    file.write_bytes(PACK[ending](TEXT))
    assert len(read_paths(file, roles(max_rows=101)).states) == 100
    with pytest.raises(TableError, match=r"more than 99 rows; raise max_rows"):
        read_paths(file, roles(max_rows=99))


@pytest.mark.parametrize("ending", PACK)
def test_bytes_are_counted_unpacked(ending, tmp_path):
    file = tmp_path / f"table{ending}"
    file.write_bytes(PACK[ending](TEXT))
    assert len(read_paths(file, roles(max_bytes=len(TEXT))).states) == 100
    with pytest.raises(TableError, match=r"bytes unpacked; raise max_bytes"):
        read_paths(file, roles(max_bytes=len(TEXT) - 1))


def test_parquet_is_refused_by_the_rows_it_declares(tmp_path):
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"p": [1] * 50, "t": range(50), "x": [0.5] * 50}), file)
    assert len(read_paths(file, roles(max_rows=50)).states) == 50
    with pytest.raises(TableError, match="more than 49 rows"):
        read_paths(file, roles(max_rows=49))


def test_text_that_rows_of_a_parquet_file_share_is_counted_in_each(tmp_path):
    codes, long = pa.array([0] * 1000, pa.int32()), "x" * 10_000
    texts = pa.DictionaryArray.from_arrays(codes, pa.array([long]))
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"p": texts, "t": range(1000), "x": [0.5] * 1000}), file)
    assert file.stat().st_size < 100_000
    with pytest.raises(TableError, match="more than 5,000,000 bytes unpacked"):
        read_paths(file, roles(max_bytes=5_000_000))
    assert len(read_paths(file, roles(max_bytes=50_000_000)).states) == 1000


def test_rows_of_all_files_of_a_folder_count(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"p,t,x\n{name},1,1\n{name},2,1\n{name},3,1\n")
    assert len(read_paths(tmp_path, roles(max_rows=6)).states) == 6
    with pytest.raises(TableError, match="more than 5 rows"):
        read_paths(tmp_path, roles(max_rows=5))


def test_table_that_memory_does_not_hold_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "table.csv"
    file.write_bytes(TEXT)
    monkeypatch.setattr(limits, "memory_at_hand", lambda: len(TEXT) + 24 * 303 - 1)
    with pytest.raises(TableError, match="too large for the memory at hand"):
        read_paths(file, roles())
    monkeypatch.setattr(limits, "memory_at_hand", lambda: len(TEXT) + 24 * 303)
    assert len(read_paths(file, roles()).states) == 100


def test_line_without_end_is_refused_at_once(tmp_path):
    file = tmp_path / "zeros.csv.gz"
    piece = gzip.compress(b"0" * (20 << 20))
    file.write_bytes(piece * 50)  # a gigabyte
    began = time.process_time()
    with pytest.raises(TableError, match="a row of more than 64 MB"):
        read_paths(file, roles(max_bytes=1 << 40))
    assert time.process_time() - began < 5


def test_memory_at_hand_is_some_and_less_than_a_petabyte():
    assert 1 << 20 < memory_at_hand() < 1 << 50


@pytest.mark.parametrize(
    "given", [{"max_rows": 0}, {"max_bytes": -1}, {"max_rows": True}, {"max_rows": "9"}]
)
def test_limits_that_are_no_positive_integers_are_refused(given):
    with pytest.raises(UserError, match="must be a positive integer"):
        Limits(**given).check()
    with pytest.raises(UserError, match="must be a positive integer"):
        roles(**given)


def test_link_out_of_a_data_folder_is_refused_and_one_within_is_read(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("p,t,x\na,1,1\na,2,1\n")
    (tmp_path / "secret.csv").write_text("p,t,x\nsecret,1,1\n")
    (folder / "b.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(TableError, match=r"b\.csv: a link that leads out of the folder") as error:
        read_paths(folder, roles())
    assert "secret" not in str(error.value)
    (folder / "b.csv").unlink()
    (folder / "kept").mkdir()
    (folder / "kept" / "b.csv").write_text("p,t,x\nb,1,1\nb,2,1\n")
    (folder / "b.csv").symlink_to(folder / "kept" / "b.csv")
    assert read_paths(folder, roles()).names == ("a", "b")


def test_row_of_too_many_cells_that_is_not_utf8_is_refused_without_noise(tmp_path, monkeypatch):
    noise = []
    monkeypatch.setattr(sys, "unraisablehook", noise.append)
    file = tmp_path / "table.csv"
    file.write_bytes(b"p,t,x\na,1,2\na,2,3,\xe9\na,3,4\n")
    with pytest.raises(TableError):
        read_paths(file, roles())
    assert noise == []
