"""Tables of very many columns are read in time that grows with their number."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from written_tables import read

ROWS = 4


def seconds_of(folder: Path, columns: int) -> float:
    """Return the least of three times for reading a table."""
    file = folder / f"{columns}.csv"
    header = ",".join(f"x{i}" for i in range(columns))
    cells = ",".join("1.5" for _ in range(columns))
    rows = "".join(f"{path},{t},{cells}\n" for path in "ab" for t in range(ROWS // 2))
    file.write_text(f"unit,t,{header}\n{rows}")
    taken = []
    for _ in range(3):
        start = time.process_time()
        assert read(file).states.shape == (ROWS, columns)
        taken.append(time.process_time() - start)
    return min(taken)


def test_time_grows_with_the_number_of_columns_and_not_with_its_square(tmp_path: Path) -> None:
    assert seconds_of(tmp_path, 20_000) < 8 * seconds_of(tmp_path, 5_000)


@pytest.mark.parametrize("length", [400_000, 3_000_000])
def test_row_longer_than_a_block_is_read(tmp_path: Path, length: int) -> None:
    file = tmp_path / "long.csv"
    file.write_text(f"unit,t,x,c\na,0,1,{'u' * length}\na,1,2,v\n")
    paths = read(file, features=("x",))
    assert paths.states.tolist() == [[1], [2]]
    assert np.isfinite(paths.times).all()
