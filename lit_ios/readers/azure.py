"""Microsoft's Azure predictive-maintenance tables: telemetry, errors and failures of machines.

telemetry, errors → features that look back 24 hours → runs that end before a failure
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lit_ios.readers.columns import Source
from lit_ios.readers.files import TableError, read_columns
from lit_ios.readers.places import Download, MissingFileError, find_file
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

Cycles = Literal["first", "all"]
Resolution = Literal["hourly", "daily"]

SENSORS = ("volt", "rotate", "pressure", "vibration")
ERRORS = tuple(f"error{i}" for i in range(1, 6))
DAILY_SENSORS = tuple(
    f"mean_daily_{name}" for name in ("voltage", "rotation", "pressure", "vibration")
)
WINDOW = 24
_KEY = 10_000_000  # more than any time in hours
HOUR = 3_600_000_000_000  # nanoseconds
FILES = {
    "telemetry": (
        "PdM_telemetry.csv", "PdM_telemetry.csv.gz", "telemetry_hourly_m001-020_90d.csv.gz",
    ),
    "errors": ("PdM_errors.csv", "PdM_errors.csv.gz"),
    "failures": ("PdM_failures.csv", "PdM_failures.csv.gz"),
    "daily": ("telemetry_daily_all100.csv.gz", "telemetry_daily_all100.csv"),
}  # fmt: skip
_OFFICIAL = "https://azuremlsampleexperiments.blob.core.windows.net/datasets/"
_SHA256 = {
    "telemetry": "d957f3c45bb83416b716600da8cffd72f4b6961db89867d9696ad19f7cb1bd4e",
    "errors": "9c2a2a010ad77227e2bb0c94e7971bca78810790ddd1f28a8bee4f12c2f62370",
    "failures": "0c6c31a4fd52ef2df95ad7c44e8b0c8c32917bcef29ba5a1ba3ba45531ded3b7",
}


class Rows(NamedTuple):
    """Feature rows of all machines, by machine and time."""

    machine: IntArray  # (N,)
    hour: IntArray  # (N,) hours since 1970
    features: FloatArray  # (N, D)
    names: tuple[str, ...]


def read_part(part: str, data_dir: str | None = None) -> Source:
    """Read one of the tables."""
    official = FILES[part][0]
    downloads = [Download(official, _OFFICIAL + official, _SHA256[part])] if part in _SHA256 else []
    file = find_file(FILES[part], "azure", data_dir, downloads)
    return Source(str(file), read_columns(file))


def hours(source: Source, column: str) -> IntArray:
    """Return a column of dates as whole hours since 1970."""
    values = source[column]
    if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        raise TableError(
            f"{source.name}, column {column!r}: dates expected, got {values.type}; "
            "write them as 2015-01-31 06:00:00"
        )
    stamps = values.cast(pa.timestamp("ns"), safe=False).cast(pa.int64()).to_numpy()
    return np.asarray(stamps // HOUR)


def hourly_rows(telemetry: Source, errors: Source, every: int = 3) -> Rows:
    """Return 24-hour means, standard deviations and error counts, every `every` hours.

    The window of a row ends at its own hour: nothing later reaches it. Rows with less than 24
    hours behind them are left out.
    """
    machine = telemetry.numbers("machineID").astype(np.int64)
    hour = hours(telemetry, "datetime")
    order = np.lexsort((hour, machine))
    machine, hour = machine[order], hour[order]
    values = np.stack([telemetry.numbers(name)[order] for name in SENSORS], axis=1)
    counts = error_counts(errors, machine, hour)
    windows = np.lib.stride_tricks.sliding_window_view(values, WINDOW, axis=0)  # (N − 23, 4, 24)
    end = np.arange(WINDOW - 1, len(values))
    whole = (machine[end] == machine[end - WINDOW + 1]) & (
        hour[end] - hour[end - WINDOW + 1] == WINDOW - 1
    )
    whole &= hour[end] % every == 0
    at = end[whole]
    means = windows[whole].mean(axis=-1)
    deviations = windows[whole].std(axis=-1)
    names = (
        *(f"{name}_mean" for name in SENSORS),
        *(f"{name}_sd" for name in SENSORS),
        *(f"{name}_count" for name in ERRORS),
    )
    features = np.concatenate([means, deviations, counts[at]], axis=1)
    return Rows(machine[at], hour[at], features, names)


def error_counts(errors: Source, machine: IntArray, hour: IntArray) -> FloatArray:
    """Count each kind of error in the 24 hours that end at each row; (N, 5)."""
    who = errors.numbers("machineID").astype(np.int64)
    when = hours(errors, "datetime")
    kind = np.asarray(errors.texts("errorID").to_pylist())
    columns = []
    for name in ERRORS:
        mine = np.sort(_key(who[kind == name], when[kind == name]))
        until = np.searchsorted(mine, _key(machine, hour), side="right")
        before = np.searchsorted(mine, _key(machine, hour - WINDOW), side="right")
        columns.append((until - before).astype(np.float64))
    return np.stack(columns, axis=1)


def _key(machine: IntArray, hour: npt.NDArray[np.int64]) -> IntArray:
    """Order by machine, then time, in one number."""
    return np.asarray(machine * _KEY + hour)


def read_daily_rows(data_dir: str | None = None) -> Rows:
    """Return daily rows of the daily table, or where that is not, of the hourly one."""
    try:
        return daily_rows(read_part("daily", data_dir))
    except MissingFileError:
        return daily_means(read_part("telemetry", data_dir), read_part("errors", data_dir))


def daily_means(telemetry: Source, errors: Source) -> Rows:
    """Return means of the sensors by calendar day, and which errors the day had."""
    machine = telemetry.numbers("machineID").astype(np.int64)
    day = hours(telemetry, "datetime") // 24
    key, row, count = np.unique(_key(machine, day), return_inverse=True, return_counts=True)
    means = [
        np.bincount(row, telemetry.numbers(name), minlength=len(key)) / count for name in SENSORS
    ]
    who = errors.numbers("machineID").astype(np.int64)
    error_key = _key(who, hours(errors, "datetime") // 24)
    kind = np.asarray(errors.texts("errorID").to_pylist())
    flags = [np.isin(key, error_key[kind == name]).astype(np.float64) for name in ERRORS]
    features = np.stack([*means, *flags], axis=1)
    return Rows(key // _KEY, key % _KEY * 24, features, DAILY_SENSORS + ERRORS)


def daily_rows(daily: Source) -> Rows:
    """Return the daily table: means of the sensors and flags of the errors."""
    machine = daily.numbers("machineID").astype(np.int64)
    hour = hours(daily, "date")
    order = np.lexsort((hour, machine))
    names = DAILY_SENSORS + ERRORS
    features = np.stack([daily.numbers(name)[order] for name in names], axis=1)
    return Rows(machine[order], hour[order], features, names)


def failure_times(failures: Source) -> tuple[IntArray, IntArray]:
    """Return machine and hour of each failure, several components at once counted as one."""
    machine = failures.numbers("machineID").astype(np.int64)
    pairs = np.unique(np.stack([machine, hours(failures, "datetime")], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def runs_to_failure(
    rows: Rows,
    failures: tuple[IntArray, IntArray],
    *,
    cycles: Cycles = "first",
    keep_every: int = 10,
    whole_days: bool = False,
) -> TrajectorySet:
    """Cut the rows of each machine into runs that end before a failure.

    Rows at or after a failure belong to the next run (`cycles: all`) or to none (`first`). What
    follows the last failure, and a machine that never failed, is censored.

    Args:
        rows: features by machine and time.
        failures: machine and hour of each failure.
        cycles: `first` run of each machine only, or all of them.
        keep_every: keep one row in `keep_every`, counted from the beginning of a run.
        whole_days: rows stand for whole days; the day of a failure is already after it.
    """
    when = failures[1] // 24 * 24 if whole_days else failures[1]
    fails = np.sort(_key(failures[0], when))
    # number of this machine's failures at or before each row
    begin = np.searchsorted(fails, _key(rows.machine, np.zeros_like(rows.hour)), side="left")
    passed = np.searchsorted(fails, _key(rows.machine, rows.hour), side="right") - begin
    total = np.searchsorted(fails, _key(rows.machine + 1, np.zeros_like(rows.hour))) - begin
    chosen = np.ones(len(passed), dtype=bool)
    if whole_days:  # the day of a failure holds hours before and after it: in no run
        chosen &= ~np.isin(_key(rows.machine, rows.hour), fails)
    if cycles == "first":
        chosen &= passed == 0
    machine, run = rows.machine[chosen], passed[chosen]
    starts = np.flatnonzero((np.diff(machine, prepend=-1) != 0) | (np.diff(run, prepend=-1) != 0))
    position = np.arange(len(run)) - np.repeat(starts, np.diff(np.append(starts, len(run))))
    keep = position % keep_every == 0
    machine, run, left = machine[keep], run[keep], total[chosen][keep] - run[keep]
    starts = np.flatnonzero(position[keep] == 0)
    return TrajectorySet(
        states=rows.features[chosen][keep],
        times=rows.hour[chosen][keep].astype(np.float64),
        offsets=np.append(starts, len(run)),
        stopped=left[starts] > 0,
        names=tuple(f"{machine[i]}.{run[i]}" for i in starts),
        feature_names=rows.names,
    )
