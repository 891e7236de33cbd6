"""Azure tables, on small ones of the same layout made here, and on the real ones where they are."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from repository import needs_real_data

from datamodules import AzureData
from lit_ios.readers.azure import (
    ERRORS,
    SENSORS,
    Rows,
    daily_means,
    daily_rows,
    failure_times,
    hourly_rows,
    read_daily_rows,
    read_part,
    runs_to_failure,
)
from lit_ios.readers.columns import Source

START = np.datetime64("2015-01-01T00:00:00", "s")


def stamps(hours):
    return pa.array(START + np.asarray(hours).astype("timedelta64[h]"))


def telemetry(values):
    """Make a table of hourly values; (machines, hours, 4)."""
    machines, hours, _ = values.shape
    columns = {name: values[:, :, i].ravel() for i, name in enumerate(SENSORS)}
    when = stamps(np.tile(np.arange(hours), machines))
    who = np.repeat(np.arange(1, machines + 1), hours)
    return Source("telemetry", pa.table({"datetime": when, "machineID": who, **columns}))


def errors(entries):
    """Make an error log of (hour, machine, kind)."""
    hours, machines, kinds = zip(*entries, strict=True)
    table = {"datetime": stamps(hours), "machineID": machines, "errorID": kinds}
    return Source("errors", pa.table(table))


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(2, 80, 4))


LOG = [
    (30, 1, "error1"),
    (30, 1, "error1"),
    (53, 1, "error1"),
    (54, 1, "error2"),
    (40, 2, "error5"),
]


def test_features_equal_a_naive_loop_over_the_24_hours_before(values):
    rows = hourly_rows(telemetry(values), errors(LOG))
    first_hour = int(START.astype("datetime64[h]").astype(int))
    for machine, hour, features in zip(rows.machine, rows.hour, rows.features, strict=True):
        now = hour - first_hour
        window = values[machine - 1, now - 23 : now + 1]
        counts = [
            sum(m == machine and k == kind and now - 24 < h <= now for h, m, k in LOG)
            for kind in ERRORS
        ]
        expected = [*window.mean(axis=0), *window.std(axis=0), *counts]
        np.testing.assert_allclose(features, expected, atol=1e-9)


def test_no_future_value_reaches_a_feature(values):
    before = hourly_rows(telemetry(values), errors(LOG))
    cut = 48
    changed = values.copy()
    changed[:, cut:] = 1e6
    later = [entry for entry in LOG if entry[0] < cut] + [(cut, 1, "error3"), (70, 2, "error4")]
    after = hourly_rows(telemetry(changed), errors(later))
    first_hour = int(START.astype("datetime64[h]").astype(int))
    early = before.hour - first_hour < cut
    np.testing.assert_array_equal(before.features[early], after.features[early])
    assert early.any()
    assert not np.array_equal(before.features[~early], after.features[~early])


def test_rows_come_every_three_hours_and_need_a_whole_day_behind_them(values):
    rows = hourly_rows(telemetry(values), errors(LOG))
    mine = rows.hour[rows.machine == 1]
    assert (np.diff(mine) == 3).all()
    assert (mine % 3 == 0).all()
    assert mine[0] - int(START.astype("datetime64[h]").astype(int)) >= 23


def rows_of(machines, hours):
    who = np.repeat(np.arange(1, machines + 1), hours)
    when = np.tile(np.arange(hours), machines)
    return Rows(who, when, np.stack([who, when], axis=1).astype(float), ("machine", "hour"))


FAILURES = (np.array([1, 1, 3]), np.array([10, 15, 4]))


def test_first_run_ends_before_the_first_failure_and_others_are_censored():
    paths = runs_to_failure(rows_of(3, 20), FAILURES, cycles="first", keep_every=1)
    assert paths.names == ("1.0", "2.0", "3.0")
    assert paths.stopped.tolist() == [True, False, True]
    assert [path.times[-1] for path in paths] == [9, 19, 3]


def test_all_runs_begin_at_the_failure_before_and_the_last_is_censored():
    paths = runs_to_failure(rows_of(3, 20), FAILURES, cycles="all", keep_every=1)
    spans = {path.name: (path.times[0], path.times[-1], path.stopped) for path in paths}
    assert spans == {
        "1.0": (0, 9, True), "1.1": (10, 14, True), "1.2": (15, 19, False),
        "2.0": (0, 19, False), "3.0": (0, 3, True), "3.1": (4, 19, False),
    }  # fmt: skip


def test_every_kept_row_is_counted_from_the_beginning_of_its_run():
    paths = runs_to_failure(rows_of(1, 20), (np.array([1]), np.array([15])), keep_every=4)
    assert paths.times.tolist() == [0, 4, 8, 12]


def test_daily_rows_leave_out_the_day_of_a_failure():
    rows = Rows(np.ones(5, int), np.arange(5) * 24, np.zeros((5, 1)), ("x",))
    fails = (np.array([1]), np.array([2 * 24 + 6]))
    paths = runs_to_failure(rows, fails, cycles="all", keep_every=1, whole_days=True)
    assert [path.times.tolist() for path in paths] == [[0, 24], [72, 96]]


@needs_real_data
def test_real_failures_are_719_at_98_machines():
    machine, _ = failure_times(read_part("failures"))
    assert len(machine) == 719
    assert len(np.unique(machine)) == 98


@needs_real_data
def test_real_daily_table_has_366_days_of_100_machines():
    rows = daily_rows(read_part("daily"))
    assert np.bincount(rows.machine)[1:].tolist() == [366] * 100


@needs_real_data
@pytest.mark.parametrize("resolution", ["daily", "hourly"])
def test_real_runs_never_hold_a_row_at_or_after_their_failure(resolution):
    data = AzureData(resolution=resolution, cycles="all")
    machine, hour = failure_times(read_part("failures"))
    for path in data.runs:
        mine = hour[machine == int(path.name.partition(".")[0])]
        inside = (mine > path.times[0]) & (mine <= path.times[-1])
        assert not inside.any()


@needs_real_data
def test_real_machines_are_in_one_split_only():
    splits = AzureData(cycles="all").splits
    machines = [{name.partition(".")[0] for name in part.names} for part in splits]
    assert not machines[0] & machines[1]
    assert not (machines[0] | machines[1]) & machines[2]


@needs_real_data
def test_daily_means_of_the_hours_are_the_daily_table():
    means = daily_means(read_part("telemetry"), read_part("errors"))
    table = daily_rows(read_part("daily"))
    row = {key: i for i, key in enumerate(zip(table.machine, table.hour, strict=True))}
    same = np.array([row[key] for key in zip(means.machine, means.hour, strict=True)])
    whole = means.hour < means.hour.max()  # the excerpt ends within a day
    assert len(means.hour) == 20 * 91
    assert means.names == table.names
    np.testing.assert_allclose(
        means.features[whole], table.features[same][whole], rtol=0, atol=1e-9
    )


def test_daily_rows_come_from_the_hours_where_there_is_no_daily_table(tmp_path, monkeypatch):
    monkeypatch.delenv("LIT_IOS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    values = np.arange(2 * 30 * 4, dtype=float).reshape(2, 30, 4)
    pa_csv.write_csv(telemetry(values).table, tmp_path / "PdM_telemetry.csv")
    when = stamps([3, 3, 27])
    errors = pa.table({"datetime": when, "machineID": [1, 1, 2], "errorID": ["error1"] * 3})
    pa_csv.write_csv(errors, tmp_path / "PdM_errors.csv")
    rows = read_daily_rows(str(tmp_path))
    assert rows.machine.tolist() == [1, 1, 2, 2]
    assert np.diff(rows.hour).tolist() == [24, -24, 24]
    expected = [values[m, a:b].mean(axis=0) for m in (0, 1) for a, b in ((0, 24), (24, 30))]
    np.testing.assert_allclose(rows.features[:, :4], expected)
    assert rows.features[:, 4].tolist() == [1, 0, 0, 1]
