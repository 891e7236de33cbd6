"""Generated tables: each is read right or refused with TableError, never anything else."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pa_parquet
import pytest
from csv_loop import loop_csv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parquet_strategies import ParquetCase, parquet_cases
from table_loop import BadTableError, LoopPaths
from table_strategies import CsvCase, csv_cases
from written_tables import COMPRESS, expanded, parquet_table, write

from lit_ios.readers import TableError, TableRoles, read_paths
from lit_ios.trajectories import TrajectorySet

LONG = "unit,t,x\n" + "".join(f"a,{i},{i * 0.37:.3f}\n" for i in range(200))

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),
    pytest.mark.filterwarnings("ignore:.*taken as the path's outcome"),
]


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


def assert_same(paths: TrajectorySet, expected: LoopPaths) -> None:
    names, states = expanded(paths)
    assert names == expected.feature_names
    assert list(paths.names) == list(expected.rows)
    assert paths.stopped.tolist() == expected.stopped
    assert paths.lengths.tolist() == [len(path) for path in expected.rows.values()]
    rows = [row for path in expected.rows.values() for row in path]
    assert states == [row.state for row in rows]
    np.testing.assert_allclose(paths.times, [row.time for row in rows], rtol=1e-12)


def check(file: Path, expected: LoopPaths | None, roles: TableRoles, training: bool) -> None:
    """Read a file of which the naive reader has said what it holds, or that it is bad."""
    if expected is None:
        with pytest.raises(TableError, match=re.escape(str(file))):
            read_paths(file, roles, training=training)
    elif expected.plain:
        assert_same(read_paths(file, roles, training=training), expected)
    else:
        with contextlib.suppress(TableError):
            assert_same(read_paths(file, roles, training=training), expected)


def check_csv(folder: Path, case: CsvCase) -> None:
    file = folder / case.file_name
    file.write_bytes(case.data)
    try:
        expected = loop_csv(case.data, case.file_name, case.roles, case.training)
    except BadTableError:
        expected = None
    check(file, expected, case.roles, case.training)


@examples(400)
@given(case=csv_cases(faults=False))
def test_clean_csv_is_read_as_by_the_naive_reader(folder: Path, case: CsvCase) -> None:
    check_csv(folder, case)


@examples(1200)
@given(case=csv_cases(faults=True))
def test_faulty_csv_is_read_right_or_refused(folder: Path, case: CsvCase) -> None:
    check_csv(folder, case)


@examples(700)
@given(case=parquet_cases())
def test_parquet_is_read_right_or_refused(folder: Path, case: ParquetCase) -> None:
    file = folder / "table.parquet"
    pa_parquet.write_table(case.table, file)
    check(file, case.expected, case.roles, case.training)


@examples(200)
@given(share=st.floats(0, 1, exclude_max=True), ending=st.sampled_from(sorted(COMPRESS)))
def test_any_part_of_a_compressed_file_is_refused(folder: Path, share: float, ending: str) -> None:
    file = folder / f"part{ending}"
    packed = COMPRESS[ending](LONG.encode())
    file.write_bytes(packed[: int(share * len(packed))])
    check(file, None, TableRoles("unit", "t"), training=False)


@examples(200)
@given(share=st.floats(0, 1, exclude_max=True))
def test_any_part_of_a_parquet_file_is_refused(folder: Path, share: float) -> None:
    file = folder / "part.parquet"
    whole = write(folder / "whole.parquet", parquet_table()).read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    check(file, None, TableRoles("unit", "t"), training=False)


@examples(300)
@given(
    data=st.binary(max_size=60), name=st.sampled_from(["n.csv", "n.csv.gz", "n.csv.zst", "n.pq"])
)
def test_noise_is_refused(folder: Path, data: bytes, name: str) -> None:
    (folder / name).write_bytes(data)
    check(folder / name, None, TableRoles("unit", "t"), training=False)
