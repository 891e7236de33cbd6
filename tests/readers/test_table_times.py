"""Times: numbers as they are, dates as time since 1970."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from written_tables import parquet_table, read, read_written, refusal, refusal_of, write

from lit_ios.readers import TableError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}


@pytest.mark.parametrize("unit", SECONDS)
@pytest.mark.parametrize(
    ("cell", "zone"),
    [
        ("2021-03-04T05:06:07", UTC),
        ("2021-03-04 05:06:07", UTC),
        ("2021-03-04 05:06", UTC),
        ("2021-03-04", UTC),
        ("1969-12-31T23:59:59", UTC),
        ("2021-03-04T05:06:07Z", None),
        ("2021-03-04T05:06:07+02:00", None),
        ("2021-03-04T05:06:07.250-11:30", None),
    ],
)
def test_dates_are_time_since_1970_in_the_unit(
    tmp_path: Path, unit: str, cell: str, zone: timezone | None
) -> None:
    instant = datetime.fromisoformat(cell)
    seconds = (instant.replace(tzinfo=zone or instant.tzinfo) - EPOCH).total_seconds()
    times = read_written(tmp_path, f"unit,t,x\na,{cell},1\n", training=False, time_unit=unit).times
    assert times.tolist() == pytest.approx([seconds / SECONDS[unit]], rel=1e-12)


def test_dates_are_in_hours_by_default(tmp_path: Path) -> None:
    text = "unit,t,x\na,1970-01-01,1\na,1970-01-02,2\n"
    assert read_written(tmp_path, text).times.tolist() == [0, 24]


@pytest.mark.parametrize("zone", ["", "+02:00", "Z"])
def test_dates_that_are_text_in_memory_are_dates(tmp_path: Path, zone: str) -> None:
    cells = [f"2024-02-29T0{hour}:30:00{zone}" for hour in range(4)]
    as_text = read_written(tmp_path, parquet_table(t=pa.array(cells))).times
    rows = zip("aabb", cells, range(4), strict=True)
    lines = [f"{unit},{cell},{x}" for unit, cell, x in rows]
    as_csv = read_written(tmp_path, "\n".join(["unit,t,x", *lines]) + "\n").times
    assert as_text.tolist() == as_csv.tolist()
    assert np.diff(as_text).tolist() == pytest.approx([1, 1, 1])


def test_dates_are_shown_as_dates_when_they_are_out_of_order(tmp_path: Path) -> None:
    rows = ["a,1970-01-02 10:30:00,1", "a,1970-01-02 09:00:00,2"]
    message = refusal_of(tmp_path, "unit,t,x\n" + "\n".join(rows) + "\n")
    assert "time 1970-01-02 09:00:00 after 1970-01-02 10:30:00 in row 1" in message


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_parquet_dates_are_the_same_in_every_precision(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    hours = [datetime(2024, 2, 29, hour) for hour in range(4)]
    table = parquet_table(t=pa.array(hours, pa.timestamp(unit, zone)))
    assert np.diff(read_written(tmp_path, table).times).tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_parquet_days_are_dates(tmp_path: Path, kind: pa.DataType) -> None:
    days = [date(1970, 1, 2), date(1970, 1, 5), date(1969, 12, 31), date(2200, 1, 1)]
    table = parquet_table(t=pa.array(days, kind))
    expected = [(day - date(1970, 1, 1)).days for day in days]
    assert read_written(tmp_path, table, time_unit="days").times.tolist() == expected


@pytest.mark.parametrize(
    "cell", ["0001-01-02", "1500-06-01T12:00:00", "2262-06-01", "9999-12-30T00:00Z"]
)
def test_dates_that_nanoseconds_cannot_reach_are_right_or_refused(
    tmp_path: Path, cell: str
) -> None:
    file = write(tmp_path / "table.csv", f"unit,t,x\na,{cell},1\n")
    seconds = (datetime.fromisoformat(cell).replace(tzinfo=UTC) - EPOCH).total_seconds()
    try:
        times = read(file, training=False, time_unit="seconds").times
    except TableError:
        assert "column 't', path 'a', row 1" in refusal(file, training=False)
    else:
        assert times.tolist() == [seconds]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(5, 2)])
def test_times_that_are_numbers_are_kept(tmp_path: Path, kind: pa.DataType) -> None:
    times = pa.array([3, 4, 1, 9]).cast(pa.float64()).cast(kind)
    assert read_written(tmp_path, parquet_table(t=times)).times.tolist() == [3, 4, 1, 9]


@pytest.mark.parametrize(
    "times",
    [pa.array([0, 1, 0, 1], pa.duration("s")), pa.array([0, 1, 0, 1], pa.time32("s"))],
    ids=["durations", "times of the day"],
)
def test_times_of_another_kind_are_no_features(tmp_path: Path, times: pa.Array) -> None:
    message = refusal_of(tmp_path, parquet_table(t=times))
    assert "column 't': times must be numbers or dates, not " in message
    assert "write numbers, such as hours since the path began" in message


@pytest.mark.parametrize(
    ("times", "noted"),
    [((20240330, 20240401), True), ((20240330, 20241401), False), ((1711756800, 1711843200), False),
     ((20240330.5, 20240401.5), False)],
)  # fmt: skip
def test_numbers_that_look_like_dates_are_noted(tmp_path: Path, times: tuple, noted: bool) -> None:
    text = f"unit,t,x\na,{times[0]},1\na,{times[1]},2\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_written(tmp_path, text)
    assert [f"{times[0]:.0f} and so on" in str(one.message) for one in caught] == [True] * noted


def test_numbers_that_look_like_dates_are_dates_by_their_format(tmp_path: Path) -> None:
    text = "unit,t,x\na,20240331,1\na,20240401,2\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = read_written(tmp_path, text, date_format="%Y%m%d", time_unit="days")
    assert np.diff(paths.times).tolist() == [1.0]
