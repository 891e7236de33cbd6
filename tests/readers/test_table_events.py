"""A second table with one row per path: status, time of the event, or both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import read, refusal, write

from lit_ios.readers import TableError, TableRoles
from lit_ios.readers.table import open_table, read_share, source_paths

LONG = "unit,t,x\nb,0,1\na,0,2\nb,1,3\na,2,4\nc,1,5\nc,2,6\n"


def written(folder: Path, events: str, long: str = LONG) -> tuple[Path, str]:
    return write(folder / "long.csv", long), str(write(folder / "events.csv", events))


@pytest.mark.parametrize(
    "events", ["unit,died\na,1\nb,0\nc,1\n", "other,died,unit\n5,yes,c\n6,no,b\n7,yes,a\n8,yes,z\n"]
)
def test_status_is_found_by_the_name_of_the_path(tmp_path: Path, events: str) -> None:
    file, events = written(tmp_path, events)
    paths = read(file, stop="died", events=events)
    assert dict(zip(paths.names, paths.stopped.tolist(), strict=True)) == {
        "a": True, "b": False, "c": True,
    }  # fmt: skip
    assert paths.feature_names == ("x",)
    assert paths.event_times is None


def test_event_time_is_that_of_stopped_paths(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,t,died\na,2.5,1\nb,7,0\nc,2,1\n")
    paths = read(file, stop="died", events=events)
    assert paths.names == ("b", "a", "c")
    assert paths.stopped.tolist() == [False, True, True]
    np.testing.assert_array_equal(paths.event_times, [np.nan, 2.5, 2])
    np.testing.assert_array_equal(paths.events, [np.nan, 2.5, 2])


def test_paths_without_an_event_time_are_censored_where_there_is_no_status(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,t\na,\nb,3\nc,2\n")
    paths = read(file, events=events)
    assert paths.stopped.tolist() == [True, False, True]
    np.testing.assert_array_equal(paths.event_times, [3, np.nan, 2])


def test_stop_without_an_event_time_is_at_the_last_row(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,t,died\na,,1\nb,3,1\nc,2,0\n")
    paths = read(file, stop="died", events=events)
    np.testing.assert_array_equal(paths.events, [3, 2, np.nan])


def test_censoring_may_be_in_the_table_of_events(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,lost\na,no\nb,yes\nc,no\n")
    assert read(file, censored="lost", events=events).stopped.tolist() == [False, True, True]


def test_stop_value_applies_to_the_table_of_events(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,end\na,dead\nb,lost\nc,alive\n")
    paths = read(file, stop="end", stop_value="dead", events=events)
    assert paths.stopped.tolist() == [False, True, False]


def test_dates_of_events_are_read_as_those_of_rows(tmp_path: Path) -> None:
    long = "unit,t,x\na,01.02.2020,1\na,02.02.2020,2\nb,01.02.2020,3\n"
    file, events = written(tmp_path, "unit,t\na,04.02.2020\nb,\n", long)
    paths = read(file, events=events, date_format="%d.%m.%Y", time_unit="days")
    assert paths.event_times[0] - paths.times[1] == 2


@pytest.mark.parametrize("died", ["0", "1"])
def test_row_after_the_event_is_refused(tmp_path: Path, died: str) -> None:
    file, events = written(tmp_path, f"unit,t,died\na,1.5,{died}\nb,3,1\nc,2,1\n")
    message = refusal(file, stop="died", events=events)
    assert "column 't', path 'a', row 4: the row is after the path's event at 1.5" in message
    assert message.endswith("drop the rows after an event, or correct its time")


def test_path_without_a_row_of_events_is_named(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,died\na,1\nb,0\n")
    message = refusal(file, stop="died", events=events)
    assert "path 'c' has no row in" in message
    assert "events.csv; add one, or drop the path" in message


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("unit,died\na,1\nb,0\na,1\n", r"events.csv, column 'unit', row 3: a second row for path"),
        ("unti,died\na,1\nb,0\n", r"events.csv: no column 'unit'; did you mean 'unti'\?"),
        ("unit,sex\na,1\nb,0\n", r"events.csv: neither the time of the event \('t'\) nor a status"),
        ("unit,t\na,2020-01-01\nb,2020-01-01\nc,2020-01-01\n", "dates where .* has numbers"),
        ("unit,died\na,1\nb,2\nc,1\n", "events.csv, column 'died', path 'b', row 2: a flag must"),
        ("unit,died\na,1\n,0\nc,1\n", "events.csv, column 'unit', row 2: the path has no name"),
        ("unit,t,died\na,5,1\nb,soon,0\nc,7,0\n", "events.csv, column 't', path 'b', row 2: nei"),
    ],
)
def test_bad_table_of_events_is_refused(tmp_path: Path, events: str, message: str) -> None:
    file, place = written(tmp_path, events)
    with pytest.raises(TableError, match=message):
        read(file, stop="died" if "died" in events else None, events=place)


def test_status_in_both_tables_is_refused(tmp_path: Path) -> None:
    file, events = written(tmp_path, "unit,x\na,1\nb,0\nc,1\n")
    assert "both have the column 'x'" in refusal(file, stop="x", events=events)


def test_events_may_be_a_table_in_memory() -> None:
    long = pa.table({"unit": ["a", "a", "b"], "t": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    events = pa.table({"unit": ["b", "a"], "died": [False, True]})
    roles = TableRoles("unit", "t", stop="died", events=events)
    paths, _ = source_paths(open_table(long, roles), roles, training=True)
    assert paths.stopped.tolist() == [True, False]


@pytest.mark.parametrize("duplicates", ["error", "drop"])
def test_share_of_a_table_has_the_events_of_its_paths(tmp_path: Path, duplicates: str) -> None:
    file, events = written(tmp_path, "unit,t,died\na,2.5,1\nb,7,0\nc,2,1\n")
    roles = TableRoles(
        "unit", "t", ("x",), stop="died", events=events, duplicates=duplicates, missing="impute"
    )
    found = read_share(file, roles, lambda outline: np.array([0, -1, 0]))[0]
    assert found.names == ("b", "c")
    assert found.gaps
    np.testing.assert_array_equal(found.event_times, [np.nan, 2])


WITH_TIMES = "unit,t,end,x\nb,0,1.5,1\na,0,,2\nb,1,1.5,3\na,2,,4\nc,1,2,5\nc,2,2,6\n"


def test_column_of_event_times_does_what_a_table_of_events_does(tmp_path: Path) -> None:
    long, events = written(tmp_path, "unit,t\na,\nb,1.5\nc,2\n")
    expected = read(long, events=events)
    found = read(write(tmp_path / "own.csv", WITH_TIMES), event_time="end")
    assert found.feature_names == expected.feature_names == ("x",)
    assert found.stopped.tolist() == expected.stopped.tolist() == [True, False, True]
    np.testing.assert_array_equal(found.events, expected.events)


def test_column_of_event_times_goes_with_a_status(tmp_path: Path) -> None:
    text = "unit,t,end,died,x\na,0,9,1,1\na,1,9,1,2\nb,0,7,0,3\nb,1,7,0,4\n"
    found = read(write(tmp_path / "own.csv", text), event_time="end", stop="died")
    assert found.stopped.tolist() == [True, False]
    np.testing.assert_array_equal(found.events, [9, np.nan])


def test_event_times_that_differ_within_a_path_are_refused(tmp_path: Path) -> None:
    text = WITH_TIMES.replace("b,1,1.5", "b,1,1.6")
    said = refusal(write(tmp_path / "own.csv", text), event_time="end")
    assert "another time of the event than in the path's first row" in said
    assert "row 3" in said


def test_rows_after_the_event_of_a_column_are_refused(tmp_path: Path) -> None:
    text = WITH_TIMES.replace("c,1,2", "c,1,1.2").replace("c,2,2", "c,2,1.2")
    said = refusal(write(tmp_path / "own.csv", text), event_time="end")
    assert "the row is after the path's event at 1.2" in said
    with pytest.raises(ValueError, match="not by both"):
        TableRoles(path="unit", time="t", events="e.csv", event_time="end")
