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
    ConditionScaler,
    engine_paths,
    engines,
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


def test_scaler_standardises_within_each_condition():
    series = parse_series("x", text_of([60, 60], conditions=(0.0, 10.0, 42.0)))
    scaled = ConditionScaler.fit(series).transform(series)
    for condition in np.unique(series.condition):
        rows = scaled[series.condition == condition]
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(rows.std(axis=0), 1, atol=1e-9)


def test_scaler_drops_constant_sensors():
    names = ConditionScaler.fit(parse_series("x", text_of([30]))).feature_names
    assert "sensor1" not in names
    assert len(names) == 20


def test_scaler_refuses_a_condition_it_has_not_seen():
    scaler = ConditionScaler.fit(parse_series("x", text_of([30])))
    with pytest.raises(TableError, match="operating condition 42 was not seen"):
        scaler.transform(parse_series("x", text_of([30], conditions=(42.0,))))


def test_paths_keep_every_tenth_cycle_and_stop_at_the_last_kept():
    series = parse_series("x", text_of([25, 31]))
    paths = engine_paths(series, ConditionScaler.fit(series), step=10)
    assert [path.times.tolist() for path in paths] == [[1, 11, 21], [1, 11, 21, 31]]
    assert paths.stopped.all()


def test_lead_moves_the_stop_earlier():
    series = parse_series("x", text_of([25, 31]))
    paths = engine_paths(series, ConditionScaler.fit(series), step=10, lead=5)
    assert [path.times.tolist() for path in paths] == [[1, 11], [1, 11, 21]]


def test_truncated_series_are_censored_with_a_known_event():
    series = parse_series("x", text_of([12, 30]))
    lives = np.array([100.0, 5.0])
    paths = engine_paths(series, ConditionScaler.fit(series), remaining_life=lives)
    assert not paths.stopped.any()
    assert paths.events.tolist() == [112, 35]


def test_scaler_of_the_data_module_never_sees_validation_or_test_engines(folder):
    data = TurbofanData()
    expected = ConditionScaler.fit(engines(data.series, data.units[0]))
    np.testing.assert_array_equal(data.scaler.mean, expected.mean)
    everything = ConditionScaler.fit(data.series)
    assert not np.allclose(data.scaler.mean, everything.mean)


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
