"""Figures show dates as dates where the time column held dates."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from matplotlib.dates import ConciseDateFormatter, num2date

from datamodules import TableData
from lit_ios.plotting import PathMargins, feature_paths, margins_along_paths
from lit_ios.readers import TableRoles, read_paths
from lit_ios.readers.table import holds_dates

BEGIN = datetime(2024, 2, 27, 22, tzinfo=UTC)


@pytest.fixture(params=["dates", "numbers", "seconds"])
def table(request, tmp_path):
    """Return kind and file of a table with dates, with counts, or with large numbers."""
    columns = {"unit": [], "when": [], "x": []}
    for unit in range(6):
        for row in range(5):
            when = BEGIN + timedelta(hours=unit + 6 * row)
            made = {"dates": when.strftime("%Y-%m-%d %H:%M:%S"), "numbers": row,
                    "seconds": when.timestamp()}  # fmt: skip
            for name, value in zip(columns, (unit, made[request.param], row % 3), strict=True):
                columns[name].append(value)
    pa_csv.write_csv(pa.table(columns), tmp_path / "my.csv")
    return request.param, str(tmp_path / "my.csv")


@pytest.mark.parametrize("unit", ["seconds", "minutes", "hours", "days"])
def test_times_are_known_to_be_dates_only_where_the_column_holds_dates(table, unit):
    kind, file = table
    roles = TableRoles(path="unit", time="when", time_unit=unit)
    found = holds_dates(file, roles, read_paths(file, roles).times)
    assert found == (kind == "dates")


def test_data_say_whether_their_times_are_dates(table):
    kind, file = table
    data = TableData(file=file, path="unit", time="when")
    assert data.table.dates == (kind == "dates")


@pytest.mark.parametrize("unit", ["minutes", "hours", "days"])
def test_features_are_drawn_at_their_dates(tmp_path, unit):
    when = [BEGIN, BEGIN + timedelta(hours=7), BEGIN + timedelta(hours=40)]
    file = tmp_path / "one.csv"
    texts = [moment.strftime("%Y-%m-%d %H:%M:%S") for moment in when]
    pa_csv.write_csv(pa.table({"unit": [1, 1, 1], "when": texts, "x": [1.0, 2.0, 4.0]}), file)
    paths = read_paths(file, TableRoles(path="unit", time="when", time_unit=unit))
    axes = feature_paths(paths, [0], dates=unit).axes[0]
    drawn = num2date(axes.lines[0].get_xdata())
    assert max(abs(a - b) for a, b in zip(drawn, when, strict=True)) < timedelta(seconds=1)
    assert isinstance(axes.xaxis.get_major_formatter(), ConciseDateFormatter)
    assert axes.get_xlabel() == "date"


def test_margins_are_drawn_at_their_dates():
    hours = BEGIN.timestamp() / 3600 + np.arange(3.0)
    path = PathMargins("a", hours, np.array([-1.0, 0.5, 1.0]), True, 1)
    dated, plain = (margins_along_paths([path], dates=dates).axes[0] for dates in ("hours", None))
    assert num2date(dated.lines[0].get_xdata()[0]) == BEGIN
    np.testing.assert_array_equal(plain.lines[0].get_xdata(), hours)
