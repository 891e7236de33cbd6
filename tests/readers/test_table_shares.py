"""A share of a table is what would be selected from all of it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from lit_ios.readers import files
from lit_ios.readers.files import TableError
from lit_ios.readers.table import TableRoles, read_column_names, read_paths, read_share

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(2, 9, size=20)
ROWS = int(LENGTHS.sum())
UNITS = np.repeat([f"u{i}" for i in range(20)], LENGTHS)
COLUMNS = {
    "unit": UNITS,
    "day": np.concatenate([np.arange(n) for n in LENGTHS]),
    "heat": RNG.normal(size=ROWS),
    "colour": RNG.choice(["red", "green", "blue"], size=ROWS),
    "failed": np.concatenate([np.arange(n) == n - 1 for n in LENGTHS]) & (UNITS != "u3"),
}
COLOURS = {"colour": ("red", "blue")}
ROLES = TableRoles("unit", "day", ("heat", "colour"), stop="failed", categories=COLOURS)
ROLES_OF_ALL = TableRoles("unit", "day", stop="failed")


def write(folder, kind, columns=COLUMNS, order=None):
    table = pa.table(columns)
    if order is not None:
        table = table.take(order)
    if kind == "folder":
        file = folder / "parts"
        file.mkdir()
        pa_parquet.write_table(table[:30], file / "a.parquet")
        pa_csv.write_csv(table[30:], file / "b.csv")
    elif kind == "parquet folder":
        file = folder / "table.parquet"  # as Spark names one
        file.mkdir()
        pa_parquet.write_table(table[:30], file / "a.parquet", row_group_size=7)
        pa_parquet.write_table(table[30:], file / "b.parquet")
    elif kind == "csv":
        pa_csv.write_csv(table, file := folder / "table.csv")
    else:
        pa_parquet.write_table(table, file := folder / "table.parquet", row_group_size=7)
    return file


@pytest.mark.parametrize("kind", ["parquet", "csv", "folder", "parquet folder"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_share_equals_the_paths_selected_from_the_whole_file(kind, shuffled, tmp_path):
    order = RNG.permutation(ROWS) if shuffled else None
    file = write(tmp_path, kind, COLUMNS | {"colour": np.resize(["red", "blue"], ROWS)}, order)
    roles = replace(ROLES, sort=shuffled)
    chosen = RNG.integers(-1, 2, size=20)
    whole = read_paths(file, roles)
    found = read_share(file, roles, lambda outline: chosen)
    for number in (0, 1):
        expected, share = whole.select(chosen == number), found[number]
        assert share.names == expected.names
        assert share.feature_names == expected.feature_names
        assert share.categories == expected.categories == COLOURS
        assert np.array_equal(share.states, expected.states)
        assert np.array_equal(share.times, expected.times)
        assert np.array_equal(share.offsets, expected.offsets)
        assert np.array_equal(share.stopped, expected.stopped)


@pytest.mark.parametrize("kind", ["parquet", "folder"])
def test_errors_in_a_share_name_the_row_of_the_file(kind, tmp_path):
    heat = COLUMNS["heat"].copy()
    bad = int(np.flatnonzero(UNITS == "u15")[1])
    heat[bad] = np.nan
    file = write(
        tmp_path, kind, COLUMNS | {"heat": heat, "colour": np.resize(["red", "blue"], ROWS)}
    )
    row = bad + 1 - (30 if kind == "folder" else 0)
    own = np.where(np.arange(20) % 2 == 1, 0, -1)
    with pytest.raises(TableError, match=rf"column 'heat', path 'u15', row {row}: missing"):
        read_share(file, ROLES, lambda outline: own)
    read_share(file, ROLES, lambda outline: np.where(own == 0, -1, 0))  # u15 is not in it


@pytest.mark.parametrize("kind", ["parquet", "parquet folder"])
def test_columns_and_categories_of_parquet_files_are_known_without_their_numbers(
    kind, tmp_path, monkeypatch
):
    file = write(tmp_path, kind)
    read = []
    original = files.read_parts

    def read_parts(place, wanted=None, *args, **kwargs):
        read.append(wanted)
        return original(place, wanted, *args, **kwargs)

    monkeypatch.setattr("lit_ios.readers.table.read_parts", read_parts)
    names, categories = read_column_names(file, ROLES_OF_ALL)
    assert read == [["colour"]]
    paths = read_paths(file, ROLES_OF_ALL)
    assert names == paths.feature_names == ("heat", "colour")
    assert categories == paths.categories == {"colour": ("blue", "green", "red")}


def test_known_categories_of_a_parquet_file_are_kept_in_their_order(tmp_path):
    file = write(tmp_path, "parquet")
    known = {"colour": ("red", "violet", "green", "blue")}
    names, categories = read_column_names(file, replace(ROLES, categories=known))
    assert names == ("heat", "colour")
    assert categories == known


def test_absent_column_of_a_parquet_file_is_named(tmp_path):
    file = write(tmp_path, "parquet")
    with pytest.raises(TableError, match="no column 'cold'"):
        read_column_names(file, TableRoles("unit", "day", ("cold",)))


@pytest.mark.parametrize("kind", ["csv", "folder"])
def test_columns_of_other_files_are_not_known_before_they_are_read(kind, tmp_path):
    assert read_column_names(write(tmp_path, kind), ROLES_OF_ALL) is None
