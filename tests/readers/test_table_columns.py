"""Columns → features: which ones, in which order, and kinds of numbers."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read_written, refusal_of

from lit_ios.checks import UserError
from lit_ios.readers import TableError, TableRoles


def test_features_are_all_columns_without_another_role(tmp_path: Path) -> None:
    text = "y,unit,stop,x,t,lost\n5,a,0,1,0,0\n6,a,1,2,1,0\n"
    paths = read_written(tmp_path, text, stop="stop", censored="lost")
    assert paths.feature_names == ("y", "x")
    assert paths.states.tolist() == [[5, 1], [6, 2]]


def test_dropped_columns_are_no_features(tmp_path: Path) -> None:
    text = "unit,t,x,y,note\na,0,1,5,two\na,1,2,6,3\n"
    assert read_written(tmp_path, text, drop=("note", "x")).feature_names == ("y",)


def test_dropped_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "unit,t,x,note\na,0,1,5\n", drop=("notes",))
    assert "no column 'notes'; did you mean 'note'?" in message


@pytest.mark.parametrize("roles", [{"features": ("x",), "drop": ("x",)}, {"drop": ("t",)}])
def test_column_that_is_used_cannot_be_dropped(roles: dict) -> None:
    with pytest.raises(UserError, match="dropped and used at once"):
        TableRoles("unit", "t", **roles)


@pytest.mark.parametrize(
    "text", ["unit,t,x,y\na,0,1,5\na,1,2,6\n", "y,x,t,unit\n5,1,0,a\n6,2,1,a\n"]
)
def test_column_order_does_not_matter(tmp_path: Path, text: str) -> None:
    paths = read_written(tmp_path, text, features=("y", "x"))
    assert paths.feature_names == ("y", "x")
    assert paths.states.tolist() == [[5, 1], [6, 2]]


@pytest.mark.parametrize("cells", [("7", "8"), ("", ""), ("ok", "late"), ("1", "oops")])
def test_extra_columns_do_not_matter(tmp_path: Path, cells: tuple[str, str]) -> None:
    text = f"unit,extra,t,x\na,{cells[0]},0,1\na,{cells[1]},1,2\n"
    assert read_written(tmp_path, text, features=("x",)).states.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    "extra",
    [
        pa.array([[1], [2, 3], None, []]),
        pa.array([{"a": 1}] * 4),
        pa.array([1, 2, 3, None], pa.duration("s")),
        pa.array([b"\xff\xd8", b"\x00", None, b"png"]),
        pa.array([b"\xff\xd8"] * 4, pa.large_binary()),
        pa.nulls(4),
    ],
    ids=lambda array: str(array.type),
)
def test_extra_parquet_columns_do_not_matter(tmp_path: Path, extra: pa.Array) -> None:
    paths = read_written(tmp_path, parquet_table(extra=extra), features=("x",))
    assert paths.states.tolist() == [[1], [2], [3], [4]]


NUMBERS = {
    **{str(kind): pa.array([3, 0, 1, 100], kind) for kind in (pa.int8(), pa.uint16(), pa.int32())},
    "int64": pa.array([-(2**62), 0, 1, 2**53 + 1]),
    "uint64": pa.array([2**64 - 1, 0, 1, 2], pa.uint64()),
    "float16": pa.array(np.array([0.5, -2, 0, 60000], np.float16)),
    "float64": pa.array([0.1, -1e300, 5e-324, 2.0]),
    "decimal128": pa.array([Decimal("1.25"), Decimal("-3"), Decimal("0.01"), Decimal("7")]),
    "decimal256": pa.array([Decimal("1.25"), -3, 0, 7], pa.decimal256(50, 3)),
    "bool": pa.array([True, False, False, True]),
    "dictionary": pa.array([1.5, 2.5, 1.5, 2.5]).dictionary_encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_every_kind_become_floats(tmp_path: Path, kind: str) -> None:
    states = read_written(tmp_path, parquet_table(x=NUMBERS[kind])).states
    assert states.dtype == np.float64
    assert states[:, 0].tolist() == [float(value) for value in NUMBERS[kind].to_pylist()]


def test_float32_is_kept_where_all_features_are_float32(tmp_path: Path) -> None:
    values = pa.array([0.1, 1e-40, 3e38, -0.0], pa.float32())
    states = read_written(tmp_path, parquet_table(x=values, y=values)).states
    assert states.dtype == np.float32
    assert states[:, 1].tolist() == values.to_pylist()


@pytest.mark.parametrize("other", [pa.int8(), pa.float64(), pa.bool_()])
def test_float32_beside_another_kind_becomes_float64(tmp_path: Path, other: pa.DataType) -> None:
    table = parquet_table(x=pa.array([0.1] * 4, pa.float32()), y=pa.array([0, 1, 1, 0]).cast(other))
    states = read_written(tmp_path, table).states
    assert states.dtype == np.float64
    assert states[0].tolist() == [float(np.float32(0.1)), 0]


def test_float32_with_gaps_stays_float32(tmp_path: Path) -> None:
    table = parquet_table(x=pa.array([0.1, None, 3, float("-inf")], pa.float32()))
    states = read_written(tmp_path, table, missing="last").states
    assert states.dtype == np.float32
    np.testing.assert_array_equal(states[:, 0], np.float32([0.1, np.nan, 3, np.nan]))


@pytest.mark.parametrize("cell", ["1", "-1", "1.5", ".5", "5.", "1e5", "1E-7", "1e308", "5e-324",
                                  "0.1", "123456789012345678901234567890", "-0.0"])  # fmt: skip
def test_csv_number_is_the_nearest_float(tmp_path: Path, cell: str) -> None:
    states = read_written(tmp_path, f"unit,t,x\na,0,7\na,1,{cell}\n").states
    assert states[1, 0] == float(cell)


@pytest.mark.parametrize("cell", ["0x10", "0xFFFFFFFFFFFFFFFF"])
def test_hexadecimal_number_is_right_or_refused(tmp_path: Path, cell: str) -> None:
    with contextlib.suppress(TableError):
        states = read_written(tmp_path, f"unit,t,x\na,0,1\na,1,{cell}\n").states
        assert states.tolist() == [[1], [int(cell, 16)]]


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_true_and_false_are_one_and_zero(tmp_path: Path, words: tuple[str, str]) -> None:
    paths = read_written(tmp_path, f"unit,t,x\na,0,{words[0]}\na,1,{words[1]}\n")
    assert paths.feature_names == ("x",)
    assert paths.states.tolist() == [[1], [0]]
