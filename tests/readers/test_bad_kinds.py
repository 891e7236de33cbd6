"""Parquet columns of a kind that does not fit their role: refused by the column's name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from written_tables import parquet_table, refusal_of

KINDS = {
    "list": pa.array([[1]] * 4),
    "struct": pa.array([{"a": 1}] * 4),
    "map": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\xff\xfe"] * 4),
    "large_binary": pa.array([b"\xff\xfe"] * 4, pa.large_binary()),
    "fixed_binary": pa.array([b"\xff\xfe"] * 4, pa.binary(2)),
    "list_of_nulls": pa.array([None] * 4, pa.list_(pa.int64())),
    "text_of_bad_bytes": pa.array([b"\xff"] * 4).cast(pa.string(), safe=False),
    "far_dates": pa.array([-(10**15), 0, 10**15, 10**14], pa.timestamp("s")),
    "unknown_zone": pa.array([1, 2, 3, 4], pa.timestamp("s", "Nowhere/Atall")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_feature_of_a_kind_that_is_no_number_is_named(tmp_path: Path, kind: str) -> None:
    assert "column 'x'" in refusal_of(tmp_path, parquet_table(x=KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_known_categories_of_a_kind_that_is_no_text_are_named(tmp_path: Path, kind: str) -> None:
    table = parquet_table(x=KINDS[kind])
    assert "column 'x'" in refusal_of(tmp_path, table, categories={"x": ("red", "blue")})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unknown_zone"])
def test_time_of_a_kind_that_is_no_time_is_named(tmp_path: Path, kind: str) -> None:
    assert "column 't'" in refusal_of(tmp_path, parquet_table(t=KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_path_of_a_kind_that_is_no_name_is_named(tmp_path: Path, kind: str) -> None:
    table = parquet_table(unit=KINDS[kind], t=[0, 1, 2, 2])
    assert "'unit'" in refusal_of(tmp_path, table)


@pytest.mark.parametrize("kind", KINDS)
def test_flag_of_a_kind_that_is_no_flag_is_named(tmp_path: Path, kind: str) -> None:
    table = parquet_table(s=KINDS[kind])
    assert "column 's'" in refusal_of(tmp_path, table, stop="s", features=("x",))
