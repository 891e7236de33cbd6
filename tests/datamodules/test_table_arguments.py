"""Arguments of TableData reach the reader, and a rule remembers what it needs of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datamodules import TableData
from lit_ios.checks import UserError
from lit_ios.data_record import TableColumns
from lit_ios.policy.tables import open_any, table_roles
from lit_ios.readers import TableRoles
from lit_ios.readers.table import source_paths
from lit_ios.rule import ColumnEncoder
from lit_ios.trajectories import TrajectoryError

GIVEN = {
    "stop": "end", "stop_value": "dead", "date_format": "%d.%m.%Y", "time_unit": "days",
    "separator": ";", "decimal": ",", "missing": "impute", "censored": None,
}  # fmt: skip
EXTRA = {"duplicates": "drop", "unknown": "missing", "events": "events.csv", "sort": True}


def test_arguments_reach_the_reader() -> None:
    data = TableData(file="my.csv", path="id", time="day", drop=["name"], keep=["age"],
                     **GIVEN, **EXTRA)  # fmt: skip
    assert data.roles == TableRoles("id", "day", drop=("name",), **GIVEN, **EXTRA)
    assert data.keep == ("age",)


def test_table_is_remembered_as_it_was_read(tmp_path: Path) -> None:
    rows = [f"p{i};{day:02}.02.2020;1,5;{'dead' if day > 1 else 'alive'}"
            for i in range(9) for day in (1, 2)]  # fmt: skip
    (tmp_path / "my.csv").write_text("id;day;x;end\n" + "\n".join(rows) + "\n")
    data = TableData(file=str(tmp_path / "my.csv"), path="id", time="day", **GIVEN)
    assert data.table == TableColumns("id", "day", **GIVEN, dates=True)


def test_other_table_is_read_as_that_of_the_training() -> None:
    trained = TableColumns("id", "day", **GIVEN)
    roles = table_roles(ColumnEncoder(("x",), {}), trained, None, None)
    again = {name: GIVEN[name] for name in GIVEN.keys() - {"stop", "stop_value", "censored"}}
    assert roles == TableRoles("id", "day", ("x",), **again)


def test_stop_value_belongs_to_the_column_of_the_training() -> None:
    trained, encoder = TableColumns("id", "day", **GIVEN), ColumnEncoder(("x",), {})
    assert table_roles(encoder, trained, None, None, stop="end").stop_value == "dead"
    assert table_roles(encoder, trained, None, None, stop="other").stop_value is None


def test_what_is_given_comes_before_what_was_trained() -> None:
    trained = TableColumns("id", "day", **GIVEN)
    roles = table_roles(
        ColumnEncoder(("x",), {}), trained, None, None, missing="drop", date_format="%Y", sort=None
    )
    assert (roles.missing, roles.date_format, roles.sort) == ("drop", "%Y", False)


def test_misspelt_role_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="date_format"):
        table_roles(ColumnEncoder(("x",), {}), TableColumns("a", "b"), None, None, date_fromat="%Y")


def test_events_may_be_any_table() -> None:
    events = {"id": ["b", "a"], "died": [0, 1]}
    roles = table_roles(
        ColumnEncoder(("x",), {}), TableColumns("id", "t"), None, None, stop="died", events=events
    )
    table = pa.table({"id": ["a", "a", "b"], "t": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    paths, _ = source_paths(open_any(table, roles), roles, training=False)
    assert paths.stopped.tolist() == [True, False]


def test_events_and_dropped_columns_are_used_in_all_splits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"p{i};{t};{rng.normal():.3f};n{i}{t}".replace(".", ",")
             for i in range(20) for t in range(3)]  # fmt: skip
    (tmp_path / "my.csv").write_text("id;t;x;note\n" + "\n".join(lines) + "\n")
    ends = "".join(f"p{i};2,5;{'dead' if i % 2 else 'lost'}\n" for i in range(20))
    (tmp_path / "events.csv").write_text("id;t;end\n" + ends)
    data = TableData(
        file=str(tmp_path / "my.csv"), path="id", time="t", drop=["note"], stop="end",
        stop_value="dead", events=str(tmp_path / "events.csv"),
    )  # fmt: skip
    for paths in data.splits:
        assert paths.feature_names == ("x",)
        dead = [int(name[1:]) % 2 == 1 for name in paths.names]
        assert paths.stopped.tolist() == dead
        np.testing.assert_array_equal(paths.event_times, np.where(dead, 2.5, np.nan))
    data.for_prediction()
    assert len(data.splits.test) == 20


def table_of_paths(file: Path, first: int, count: int, prefix: str = "p") -> str:
    """Write paths that are the same whenever they have the same number, whatever their name."""
    rows = ["id,day,x,end"]
    for number in range(first, first + count):
        noise = np.random.default_rng(number).normal(size=6)
        rows += [f"{prefix}{number},{day},{x},{int(day == 5)}" for day, x in enumerate(noise)]
    file.write_text("\n".join(rows) + "\n")
    return str(file)


@pytest.mark.parametrize(
    ("part", "first", "prefix", "met"),
    [("test", 0, "p", 20), ("test", 0, "renamed", 20), ("test", 15, "p", 5), ("val", 18, "p", 2),
     ("test", 20, "p", 0), ("val", 20, "p", 0)],
)  # fmt: skip
def test_paths_of_another_file_that_are_trained_on_are_refused(
    part: str, first: int, prefix: str, met: int, tmp_path: Path
) -> None:
    other = {"test": "val", "val": "test"}[part]
    files = {
        f"{part}_file": table_of_paths(tmp_path / "other.csv", first, 20, prefix),
        f"{other}_file": table_of_paths(tmp_path / "fresh.csv", 100, 20),
    }
    data = TableData(
        file=table_of_paths(tmp_path / "my.csv", 0, 20), path="id", time="day", stop="end", **files
    )
    if met:
        with pytest.raises(TrajectoryError, match=f"{part}_file: {met} of the 20 paths in .*other"):
            data.setup("fit")
    else:
        data.setup("fit")
