"""C-MAPSS text files, on files of the same layout made here, and on NASA's where they are."""

import io
import zipfile

import numpy as np
import pytest
from engine_files import text_of
from repository import needs_real_data

from datamodules import TurbofanData
from lit_ios.readers import TableError
from lit_ios.readers.cmapss import (
    ARCHIVE,
    NASA_ARCHIVE,
    SENSORS,
    engine_paths,
    engines,
    fit_conditions,
    parse_remaining_life,
    parse_series,
    read_series,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder with a small FD001 in an archive, as NASA gives it."""
    monkeypatch.setenv("LIT_IOS_DATA", str(tmp_path))
    (tmp_path / "cmapss").mkdir()
    with zipfile.ZipFile(tmp_path / "cmapss/CMAPSSData.zip", "w") as archive:
        archive.writestr("train_FD001.txt", text_of(range(25, 45)))
        archive.writestr("test_FD001.txt", text_of([12, 30, 21], seed=1))
        archive.writestr("RUL_FD001.txt", "100 \n5 \n40 \n")
    return tmp_path


def test_series_has_the_columns_of_the_file():
    series = parse_series("x", text_of([3, 2]))
    assert series.unit.tolist() == [1, 1, 1, 2, 2]
    assert series.cycle.tolist() == [1, 2, 3, 1, 2]
    assert series.sensors.shape == (5, 21)
    assert (series.sensors[:, 0] == 518.67).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: "", "empty"),
        (lambda t: t.replace("518.67", "abc", 1), "could not convert"),
        (lambda t: "1 2 3\n1 2 4\n", "3 numbers in a line where 26"),
        (lambda t: t.replace("518.6700", "nan", 1), "line 1: not a finite number"),
        (lambda t: "\n".join(t.splitlines()[1:]), "cycle 2 where 1 is expected"),
        (lambda t: t + t.splitlines()[0] + "\n", "do not lie together"),
    ],
)
def test_damaged_series_is_an_error_that_says_where(damage, message):
    with pytest.raises(TableError, match=message) as error:
        parse_series("train_X.txt", damage(text_of([3, 2])))
    assert "train_X.txt" in str(error.value)


def test_wrong_number_of_remaining_lives_is_an_error():
    with pytest.raises(TableError, match="3 remaining lives expected"):
        parse_remaining_life("RUL.txt", "1\n2\n", 3)


ALL = np.arange(21)


def test_mean_and_scale_are_those_of_each_condition():
    series = parse_series("x", text_of([60, 60], conditions=(0.0, 10.0, 42.0)))
    found = fit_conditions(series)
    assert found.conditions.tolist() == [0, 10, 42]
    for condition, mean, scale in zip(found.conditions, found.mean, found.scale, strict=True):
        rows = series.sensors[np.rint(series.settings[:, 0]) == condition][:, 1:]  # 1 is constant
        np.testing.assert_allclose(mean, rows.mean(axis=0))
        np.testing.assert_allclose(scale, rows.std(axis=0))


def test_constant_sensors_are_dropped():
    found = fit_conditions(parse_series("x", text_of([30])))
    assert [SENSORS[i] for i in found.sensors] == [f"sensor{i}" for i in range(2, 22)]
    assert found.mean.shape == found.scale.shape == (1, 20)


def test_sensor_that_is_constant_in_one_condition_is_not_scaled_there():
    series = parse_series("x", text_of([60], conditions=(0.0, 10.0)))
    series.sensors[series.condition == 10, 4] = 3.0
    found = fit_conditions(series)
    (at,) = np.flatnonzero(found.sensors == 4)
    assert found.scale[1, at] == 1.0
    expected = series.sensors[series.condition == 0, 4].std()
    assert found.scale[0, at] == pytest.approx(expected, rel=1e-12)


def test_columns_are_the_setting_of_the_condition_and_the_sensors_that_vary():
    found = fit_conditions(parse_series("x", text_of([30])))
    assert found.columns == ("setting1", *(f"sensor{i}" for i in range(2, 22)))


def test_paths_hold_the_raw_setting_and_sensors():
    series = parse_series("x", text_of([25, 31], conditions=(0.0, 42.0)))
    paths = engine_paths(series, np.array([3, 1, 20]), step=10)
    assert paths.feature_names == ("setting1", "sensor4", "sensor2", "sensor21")
    kept = [row for row in range(len(series.unit)) if series.cycle[row] in (1, 11, 21, 31)]
    expected = [
        [series.settings[row, 0], *(series.sensors[row, sensor] for sensor in (3, 1, 20))]
        for row in kept
    ]
    assert paths.states.tolist() == expected


def test_paths_keep_every_tenth_cycle_and_stop_at_the_last_kept():
    series = parse_series("x", text_of([25, 31]))
    paths = engine_paths(series, ALL, step=10)
    assert [path.times.tolist() for path in paths] == [[1, 11, 21], [1, 11, 21, 31]]
    assert paths.stopped.all()


def test_stops_moved_earlier_count_from_the_true_failure():
    series = parse_series("x", text_of([25, 31]))
    paths = engine_paths(series, ALL, step=10).stopped_earlier(5)
    assert [path.times.tolist() for path in paths] == [[1, 11], [1, 11, 21]]


def test_truncated_series_are_censored_with_a_known_event():
    series = parse_series("x", text_of([12, 30]))
    paths = engine_paths(series, ALL, remaining_life=np.array([100.0, 5.0]))
    assert not paths.stopped.any()
    assert paths.events.tolist() == [112, 35]


def test_scales_of_the_data_module_never_see_validation_or_test_engines(folder):
    data = TurbofanData()
    expected = fit_conditions(engines(data.series, data.units[0]))
    np.testing.assert_array_equal(data.conditions.mean, expected.mean)
    np.testing.assert_array_equal(data.encoder.mean.numpy(), expected.mean)
    np.testing.assert_array_equal(data.encoder.scale.numpy(), expected.scale)
    assert not np.allclose(data.conditions.mean, fit_conditions(data.series).mean)


def test_splits_hold_raw_rows_and_states_scaled_ones(folder):
    data = TurbofanData(include_time=False)
    raw = data.splits.train
    assert raw.feature_names == data.encoder.columns == data.conditions.columns
    assert data.feature_names == data.conditions.columns[1:]
    found = data.states(raw)
    assert found.feature_names == data.feature_names
    expected = (raw.states[:, 1:] - data.conditions.mean[0]) / data.conditions.scale[0]
    np.testing.assert_allclose(found.states, expected, rtol=1e-9, atol=1e-9)


def test_columns_of_the_data_module_are_those_of_its_rows(folder):
    data = TurbofanData()
    assert data.columns == data.splits.train.feature_names


class OwnTurbofan(TurbofanData):
    """Changes nothing."""


def test_subclass_that_changes_nothing_encodes_as_its_base_does(folder):
    own, base = OwnTurbofan(lags=1), TurbofanData(lags=1)
    assert own.inputs == base.inputs
    assert own.encoder.spec["class_path"] == "lit_ios.rule.encoders.ConditionEncoder"
    assert np.array_equal(own.training_paths.states, base.training_paths.states)


def test_engines_read_as_others_are_scaled_as_those_were(folder, tmp_path):
    first = TurbofanData()
    (tmp_path / "other.txt").write_text(text_of(range(20, 30), seed=3))
    other = TurbofanData(file=str(tmp_path / "other.txt"))
    other.read_as(first.inputs.plain())
    assert other.inputs == first.inputs
    raw = other.splits.val
    expected = (raw.states[:, 1:] - first.conditions.mean[0]) / first.conditions.scale[0]
    np.testing.assert_allclose(other.states(raw).states[:, :-1], expected, rtol=1e-9, atol=1e-9)


def test_engines_are_split_70_30_and_70_30(folder):
    data = TurbofanData()
    assert [len(units) for units in data.units] == [10, 4, 6]
    assert len(set(np.concatenate(data.units))) == 20


def test_archive_is_read_in_place(folder):
    before = sorted(folder.rglob("*"))
    assert len(np.unique(read_series("train_FD001.txt").unit)) == 20
    assert sorted(folder.rglob("*")) == before


def test_text_file_in_the_data_dir_is_taken_before_the_archive(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/train_FD001.txt").write_text(text_of([5, 6, 7]))
    series = read_series("train_FD001.txt", str(tmp_path / "mine"))
    assert len(np.unique(series.unit)) == 3


def test_archive_without_the_file_is_an_error(folder):
    with pytest.raises(TableError, match=r"train_FD003\.txt cannot be read"):
        read_series("train_FD003.txt")


def test_another_file_of_the_same_layout_is_read(tmp_path):
    file = tmp_path / "train.txt"
    file.write_text(text_of(range(20, 30)))
    assert len(TurbofanData(file=str(file)).splits.train) == 5


def test_nasa_series_can_be_the_test_set(folder):
    test = TurbofanData(test_set="nasa").splits.test
    assert test.events.tolist() == [112, 35, 61]


@needs_real_data
@pytest.mark.parametrize(
    ("subset", "rows", "units", "conditions"),
    [("FD001", 20631, 100, 1), ("FD002", 53759, 260, 6),
     ("FD003", 24720, 100, 1), ("FD004", 61249, 249, 6)],
)  # fmt: skip
def test_real_subset_has_the_published_size(subset, rows, units, conditions):
    series = read_series(f"train_{subset}.txt")
    assert len(series.unit) == rows
    assert len(np.unique(series.unit)) == units
    assert len(np.unique(series.condition)) == conditions


def test_archive_member_cannot_lead_outside(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../train_FD001.txt", text_of([3]))
    (tmp_path / "cmapss").mkdir()
    (tmp_path / "cmapss/CMAPSSData.zip").write_bytes(buffer.getvalue())
    with pytest.raises(TableError, match="cannot be read"):
        read_series("train_FD001.txt", str(tmp_path))
    assert not (tmp_path / "train_FD001.txt").exists()


def test_archive_inside_nasas_archive_is_read(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("train_FD001.txt", text_of([3, 2]))
    with zipfile.ZipFile(tmp_path / NASA_ARCHIVE, "w") as archive:
        archive.writestr(f"folder/{ARCHIVE}", inner.getvalue())
    assert read_series("train_FD001.txt", str(tmp_path)).unit.tolist() == [1, 1, 1, 2, 2]
    with pytest.raises(TableError, match=r"train_FD002.txt cannot be read from this archive"):
        read_series("train_FD002.txt", str(tmp_path))
