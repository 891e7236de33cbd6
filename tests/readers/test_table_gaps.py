"""Grouping, sorting, dropping and filling, against loops over rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from written_tables import encoded, read_written, refusal_of, write

from lit_ios.readers.table import TableRoles, read_rows

SEEDS = range(8)


def random_rows(seed: int, gaps: float) -> list[tuple[str, int, float | None, float | None]]:
    """Return interleaved rows of five paths in the order of time, some cells empty."""
    rng = np.random.default_rng(seed)
    rows = []
    for time in range(12):
        for path in rng.permutation(5)[: rng.integers(1, 6)]:
            cells = [None if rng.random() < gaps else round(rng.normal(), 3) for _ in range(2)]
            rows.append((f"p{path}", time, *cells))
    return rows


def as_csv(rows: list[tuple[str, int, float | None, float | None]]) -> str:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join(["unit,t,x,y", *lines]) + "\n"


def loop_paths(rows, missing: str = "error") -> dict[str, list[tuple[float, ...]]] | None:
    """Group rows, dropping or leaving gaps one by one; None where that is impossible."""
    paths: dict[str, list[tuple[float, ...]]] = {}
    ends_in_gap: dict[str, bool] = {}
    for name, time, *cells in rows:
        so_far = paths.setdefault(name, [])
        if missing in ("last", "impute"):
            cells = ["gap" if cell is None else cell for cell in cells]
        ends_in_gap[name] = None in cells
        if None not in cells:
            so_far.append((time, *cells))
    return None if any(ends_in_gap.values()) else paths


def assert_equal_loop(tmp_path: Path, rows, expected, **options) -> None:
    paths = read_written(tmp_path, as_csv(rows), **options)
    found = {
        path.name: [
            (t, *("gap" if np.isnan(value) else value for value in x))
            for t, x in zip(path.times.tolist(), path.states.tolist(), strict=True)
        ]
        for path in paths
    }
    assert list(found) == list(expected)
    assert found == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_grouping_equals_the_loop(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed, gaps=0)
    assert_equal_loop(tmp_path, rows, loop_paths(rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_sort_equals_sorting_the_rows_first(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed, gaps=0)
    mixed = [rows[i] for i in np.random.default_rng(seed + 99).permutation(len(rows))]
    in_order = loop_paths(rows)
    expected = {name: in_order[name] for name in dict.fromkeys(row[0] for row in mixed)}
    assert_equal_loop(tmp_path, mixed, expected, sort=True)


@pytest.mark.parametrize("missing", ["drop", "last", "impute"])
@pytest.mark.parametrize("seed", range(20))
def test_gaps_are_treated_as_in_the_loop(tmp_path: Path, seed: int, missing: str) -> None:
    rows = random_rows(seed, gaps=0.05)
    expected = loop_paths(rows, missing)
    if expected is None:
        refusal_of(tmp_path, as_csv(rows), missing=missing)
    else:
        assert_equal_loop(tmp_path, rows, expected, missing=missing)


@pytest.mark.parametrize("missing", ["drop", "last", "impute"])
def test_gaps_in_shuffled_rows_are_treated_after_sorting(tmp_path: Path, missing: str) -> None:
    rows = [("a", 2, 5.0, None), ("a", 0, 1.0, 2.0), ("a", 1, None, 3.0), ("a", 3, 7.0, 8.0)]
    expected = loop_paths(sorted(rows, key=lambda row: row[1]), missing)
    assert_equal_loop(tmp_path, rows, expected, missing=missing, sort=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("missing", ["error", "drop", "last", "impute"])
def test_every_row_of_a_path_is_found_again_in_the_file(
    tmp_path: Path, seed: int, missing: str
) -> None:
    rng = np.random.default_rng(seed)
    rows = [(path, time) for time in range(6) for path in "abc"]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    gap = missing != "error"  # at times that are neither first nor last
    cells = ["" if gap and time in (2, 3) else number for number, (_, time) in enumerate(rows)]
    lines = [f"{path},{time},{cell}" for (path, time), cell in zip(rows, cells, strict=True)]
    file = write(tmp_path / "table.csv", "\n".join(["unit,t,x", *lines]) + "\n")
    paths, numbers = read_rows(file, TableRoles("unit", "t", missing=missing, sort=True))
    owners = [paths.names[path] for path in paths.path_of_row]
    assert list(zip(owners, paths.times, strict=True)) == [rows[number] for number in numbers]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "inf", "-inf", "1e999"])
def test_every_spelling_of_nothing_is_a_gap(tmp_path: Path, cell: str) -> None:
    text = f"unit,t,x\na,0,1\na,1,{cell}\na,2,3\n"
    assert read_written(tmp_path, text, missing="drop").times.tolist() == [0, 2]


@pytest.mark.parametrize("cell", ["", "NA", "inf", "-inf"])
def test_gaps_are_left_to_the_rule(tmp_path: Path, cell: str) -> None:
    text = f"unit,t,x,c\na,0,{cell},u\na,1,2,\nb,0,3,v\nb,1,4,v\n"
    paths = read_written(tmp_path, text, missing="impute")
    assert paths.gaps
    np.testing.assert_array_equal(paths.states, [[np.nan, 0], [2, np.nan], [3, 1], [4, 1]])


def test_paths_have_no_gaps_unless_they_are_let_in(tmp_path: Path) -> None:
    assert not read_written(tmp_path, "unit,t,x\na,0,1\na,1,2\n").gaps


def test_drop_refuses_to_lose_the_end_of_a_path(tmp_path: Path) -> None:
    text = "unit,t,x\na,0,1\na,1,\nb,0,3\nb,1,4\n"
    assert "column 'x', path 'a', row 2" in refusal_of(tmp_path, text, missing="drop")


def test_drop_does_not_hide_rows_after_a_stop(tmp_path: Path) -> None:
    text = "unit,t,x,s\na,0,1,0\na,1,,1\na,2,3,0\nb,0,1,0\nb,1,1,1\n"
    message = refusal_of(tmp_path, text, missing="drop", stop="s")
    assert "column 's', path 'a', row 2" in message


def test_drop_does_not_lose_the_mark_of_censoring(tmp_path: Path) -> None:
    text = "unit,t,x,c\na,0,1,0\na,1,,1\na,2,3,0\nb,0,1,0\nb,1,1,0\n"
    paths = read_written(tmp_path, text, missing="drop", censored="c")
    assert paths.stopped.tolist() == [False, True]


def test_row_of_a_missing_category_is_dropped(tmp_path: Path) -> None:
    text = "unit,t,x,c\na,0,1,u\na,1,2,\na,2,3,v\n"
    paths = encoded(read_written(tmp_path, text, missing="drop"))
    assert paths.states.tolist() == [[1, 1, 0], [3, 0, 1]]
