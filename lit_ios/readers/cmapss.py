"""NASA's C-MAPSS text files (FD001–FD004), and PHM08's train.txt of the same columns."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lit_ios.readers.files import TableError
from lit_ios.readers.places import Download, find_file
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

SENSORS = tuple(f"sensor{i}" for i in range(1, 22))
CONDITION_COLUMN = "setting1"
COLUMNS = 26
ARCHIVE = "CMAPSSData.zip"
NASA_ARCHIVE = "6. Turbofan Engine Degradation Simulation Data Set.zip"  # holds the other one
DOWNLOADS = (
    Download(
        ARCHIVE,
        "https://zenodo.org/records/15346912/files/CMAPSSData.zip",
        "74bef434a34db25c7bf72e668ea4cd52afe5f2cf8e44367c55a82bfd91a5a34f",
    ),
    Download(
        NASA_ARCHIVE,
        "https://phm-datasets.s3.amazonaws.com/NASA/"
        "6.+Turbofan+Engine+Degradation+Simulation+Data+Set.zip",
        "c9c5dec12a945a82e8bb4446589d7fb3cc057b5e5d81fa1a12e25ee9912ad3b2",
    ),
)


class Series(NamedTuple):
    """Rows of all engines of one file, one engine below the other."""

    unit: IntArray  # (N,)
    cycle: IntArray  # (N,)
    settings: FloatArray  # (N, 3)
    sensors: FloatArray  # (N, 21)

    @property
    def condition(self) -> IntArray:
        """Operating condition: the first setting to the nearest integer tells all six apart."""
        return np.rint(self.settings[:, 0]).astype(np.int64)


class ConditionStatistics(NamedTuple):
    """Mean and scale of the sensors in each operating condition, of those that vary."""

    conditions: IntArray  # (C,)
    mean: FloatArray  # (C, D)
    scale: FloatArray  # (C, D)
    sensors: IntArray  # (D,) positions of the sensors that are not constant

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows are made of: the setting that tells the condition, and sensors."""
        return (CONDITION_COLUMN, *(SENSORS[i] for i in self.sensors))


def fit_conditions(series: Series) -> ConditionStatistics:
    """Measure the rows given: those of training engines only."""
    conditions, group = np.unique(series.condition, return_inverse=True)
    rows = [series.sensors[group == i] for i in range(len(conditions))]
    mean = np.stack([part.mean(axis=0) for part in rows])
    scale = np.stack([part.std(axis=0) for part in rows])
    constant = scale <= 1e-8 * np.maximum(1.0, np.abs(mean))
    scale, varying = np.where(constant, 1.0, scale), np.flatnonzero(~constant.all(axis=0))
    return ConditionStatistics(conditions, mean[:, varying], scale[:, varying], varying)


def read_text(name: str, data_dir: str | None = None) -> tuple[str, str]:
    """Return what to call a text file of the set, and its content.

    It may lie in the data folder by itself or inside NASA's archive, which is read without
    unpacking it.
    """
    file = find_file([name, ARCHIVE, NASA_ARCHIVE], "cmapss", data_dir, DOWNLOADS)
    if file.suffix != ".zip":
        return str(file), file.read_text()
    try:
        with zipfile.ZipFile(file) as archive:
            return f"{file}:{name}", _member(archive, name).decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise TableError(
            f"{file}: {name} cannot be read from this archive: {error}; download it again"
        ) from None


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of an archive, or of the archive CMAPSSData.zip inside it."""
    inner = [member for member in archive.namelist() if Path(member).name == ARCHIVE]
    if not inner:
        return archive.read(name)
    with archive.open(inner[0]) as stream, zipfile.ZipFile(stream) as nested:
        return nested.read(name)


_AGAIN = "download the file again, or correct the line"


def parse_series(source: str, text: str) -> Series:
    """Read 26 numbers a line: unit, cycle, 3 settings, 21 sensors."""
    if not text.strip():
        raise TableError(f"{source}: the file is empty; {_AGAIN}")
    try:
        rows = np.loadtxt(io.StringIO(text), ndmin=2)
    except ValueError as error:
        raise TableError(f"{source}: {str(error).splitlines()[0]}; {_AGAIN}") from None
    if rows.shape[1] != COLUMNS:
        raise TableError(
            f"{source}: {rows.shape[1]} numbers in a line where {COLUMNS} are expected; {_AGAIN}"
        )
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        line = int(np.argmin(finite)) + 1
        raise TableError(f"{source}, line {line}: not a finite number; {_AGAIN}")
    series = Series(rows[:, 0].astype(int), rows[:, 1].astype(int), rows[:, 2:5], rows[:, 5:])
    new_unit = np.diff(series.unit, prepend=series.unit[0] - 1) != 0
    if len(np.unique(series.unit)) != new_unit.sum():
        raise TableError(f"{source}: the rows of a unit do not lie together; {_AGAIN}")
    expected = np.where(new_unit, 1, np.append(0, series.cycle[:-1]) + 1)
    if (series.cycle != expected).any():
        row = int(np.argmax(series.cycle != expected))
        raise TableError(
            f"{source}, line {row + 1}: unit {series.unit[row]} has cycle {series.cycle[row]} "
            f"where {expected[row]} is expected; {_AGAIN}"
        )
    return series


def parse_remaining_life(source: str, text: str, units: int) -> FloatArray:
    """Read one remaining useful life per unit."""
    try:
        lives = np.loadtxt(io.StringIO(text), ndmin=1)
    except ValueError as error:
        raise TableError(f"{source}: {str(error).splitlines()[0]}; {_AGAIN}") from None
    if lives.shape != (units,) or not (lives >= 0).all():
        raise TableError(f"{source}: {units} remaining lives expected, got {lives.shape}; {_AGAIN}")
    return lives


def engines(series: Series, units: IntArray) -> Series:
    """Return the rows of these units."""
    rows = np.isin(series.unit, units)
    return Series(
        series.unit[rows], series.cycle[rows], series.settings[rows], series.sensors[rows]
    )


def engine_paths(
    series: Series,
    sensors: IntArray,
    *,
    step: int = 10,
    remaining_life: FloatArray | None = None,
) -> TrajectorySet:
    """Turn engines into paths of every `step`-th cycle.

    Args:
        series: rows of whole engines.
        sensors: positions of the sensors that rows hold, beside the setting that tells the
            condition.
        step: keep cycles 1, 1 + step, 1 + 2 step, …
        remaining_life: for series cut off before failure: cycles from the last one to the
            failure, NaN where unknown. Such paths are censored, with a known time of the event.
    """
    states = np.concatenate([series.settings[:, :1], series.sensors[:, sensors]], axis=1)
    starts = np.flatnonzero(np.diff(series.unit, prepend=series.unit[0] - 1))
    last_cycle = np.repeat(series.cycle[np.append(starts[1:], len(series.unit)) - 1],
                           np.diff(np.append(starts, len(series.unit))))  # fmt: skip
    keep = (series.cycle - 1) % step == 0
    units, first = np.unique(series.unit[keep], return_index=True)
    failed = last_cycle[keep][first].astype(np.float64)  # the last cycle, kept or not
    event = failed if remaining_life is None else failed + remaining_life
    return TrajectorySet(
        states=states[keep],
        times=series.cycle[keep].astype(np.float64),
        offsets=np.append(first, keep.sum()),
        stopped=np.full(len(units), remaining_life is None),
        names=tuple(str(unit) for unit in units),
        feature_names=(CONDITION_COLUMN, *(SENSORS[i] for i in sensors)),
        event_times=event,
    )


def read_series(name: str, data_dir: str | None = None) -> Series:
    """Read one of the set's files, e.g. train_FD001.txt."""
    return parse_series(*read_text(name, data_dir))


def read_series_file(file: str | Path) -> Series:
    """Read a single text file, e.g. PHM08's train.txt."""
    path = Path(file)
    if not path.is_file():
        raise TableError(f"{file}: there is no such file; check the name")
    return parse_series(str(path), path.read_text())
