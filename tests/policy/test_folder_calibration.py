"""Calibrated file by file, a folder gives what one table of all files gives."""

import numpy as np
import pandas as pd
import pytest
from policies import make_policy, random_paths

from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.promises import AlarmsPerTime, Balanced, Cost, FalseAlarms, MissRate
from lit_ios.scale import Place, calibrate_folder

ROLES = {"path": "unit", "time": "day", "stop": "done"}
FILES = {"a.csv": 1, "b.parquet": 2, "c.csv": 3}


def table(prefix, seed, paths=40):
    made = random_paths(paths, seed, longest=25)
    frame = pd.DataFrame(made.states, columns=["a", "b"])
    frame["unit"] = np.repeat([prefix + name for name in made.names], made.lengths)
    frame["day"] = made.times
    frame["done"] = 0
    frame.loc[made.last_rows[made.stopped], "done"] = 1
    frame["site"] = np.repeat(["east", "west"] * (paths // 2), made.lengths)
    return frame


def short_row(frame):
    """Return the second row of a path of so few rows that each is a mark of it."""
    lengths = frame.groupby("unit")["unit"].transform("size")
    return int(frame.index[lengths.between(3, 10)][1])


def write(place, name, frame):
    (frame.to_csv if name.endswith("csv") else frame.to_parquet)(place / name, index=False)


@pytest.fixture
def frames(tmp_path):
    """Return three tables with paths of their own, which lie in a folder, too."""
    made = {name: table(name[0], seed) for name, seed in FILES.items()}
    first, second = (short_row(made[name]) for name in ("a.csv", "b.parquet"))
    made["b.parquet"].loc[second, ["a", "b"]] = made["a.csv"].loc[first, ["a", "b"]]
    (tmp_path / "data").mkdir()
    for name, frame in made.items():
        write(tmp_path / "data", name, frame)
    return made


@pytest.fixture
def calibrate(tmp_path):
    make_policy(lags=1).save(tmp_path / "policy.ckpt")

    def run(*promises, **settings):
        given = ROLES | settings
        return calibrate_folder(tmp_path / "policy.ckpt", tmp_path / "data", *promises, **given)

    return run


def on_one_table(tmp_path, frames, *promises, **settings):
    policy = StoppingPolicy.load(tmp_path / "policy.ckpt")
    policy.calibrate(pd.concat(frames.values()), *promises, **(ROLES | settings))
    return policy


def same(found, expected):
    """Compare what two calibrations know; margins of other batches differ in the last digit."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)
    else:
        assert found == expected


PROMISES = {
    "misses": [MissRate(0.1)],
    "alarms": [FalseAlarms(0.3, confidence=0.9)],
    "both": [MissRate(0.3), FalseAlarms(0.9)],
    "rate": [AlarmsPerTime(0.2, window=1.0, confidence=0.8)],
    "cost": [Cost(miss=20, time=1, alarm=5)],
    "balanced": [MissRate(0.4), Balanced()],
    "none": [],
}


@pytest.mark.parametrize("lead", [0.0, 0.7])
@pytest.mark.parametrize("kind", PROMISES)
def test_folder_gives_what_one_table_gives(kind, lead, calibrate, frames, tmp_path):
    found = calibrate(*PROMISES[kind], lead=lead)
    expected = on_one_table(tmp_path, frames, *PROMISES[kind], lead=lead)
    same(found.calibration, expected.calibration)
    same(found.about["reference"], expected.about["reference"])
    assert found.about["calibrated_on"] == expected.about["calibrated_on"]


def test_groups_are_those_of_one_table(calibrate, frames, tmp_path):
    found = calibrate(MissRate(0.2), per="site").calibration
    same(found, on_one_table(tmp_path, frames, MissRate(0.2), per="site").calibration)
    assert [group.name for group in found.groups] == ["east", "west"]


@pytest.mark.parametrize(
    "place", [Place(processes=2), pytest.param(Place("ray", 2), marks=pytest.mark.ray)]
)
def test_other_processes_give_the_same(place, calibrate, frames):
    if place.on == "ray":
        pytest.importorskip("ray", reason="the extra ray is not installed")
    assert calibrate(MissRate(0.1), place=place).calibration == calibrate(MissRate(0.1)).calibration


def test_paths_that_are_there_twice_count_once(calibrate, frames, tmp_path):
    """Within a file and in another one."""
    again = frames["a.csv"][frames["a.csv"]["unit"].isin(["ap1", "ap2", "ap4"])]
    frames["d.csv"] = again.assign(unit="d" + again["unit"])
    frames["c.csv"] = pd.concat([frames["c.csv"], again.assign(unit="c" + again["unit"])])
    for name in ("c.csv", "d.csv"):
        write(tmp_path / "data", name, frames[name])
    lengths = again.groupby("unit").size()
    twice = 2 * int((lengths > 1).sum())
    with pytest.warns(UserWarning, match=f"^{twice} of the 126 paths are there twice"):
        found = calibrate(MissRate(0.1))
    with pytest.warns(UserWarning, match=f"^{twice} of the 126 paths"):
        expected = on_one_table(tmp_path, frames, MissRate(0.1))
    same(found.calibration, expected.calibration)
    assert found.calibration.paths == 126 - twice
    assert found.about["calibrated_on"] == expected.about["calibrated_on"]


def test_paths_of_training_are_refused(calibrate, frames, tmp_path):
    policy = calibrate(MissRate(0.1))
    marks = policy.about["calibrated_on"]
    policy._about["training"] = {name: values[45:50] for name, values in marks.items()}
    policy.save(tmp_path / "policy.ckpt")
    with pytest.raises(UserError, match=r"^5 of the 120 calibration paths were trained on"):
        calibrate(MissRate(0.1))
    assert calibrate(MissRate(0.1), allow_known_paths=True).calibration.paths == 120


def test_path_in_two_files_is_refused(calibrate, frames, tmp_path):
    write(tmp_path / "data", "d.csv", frames["a.csv"].head(2))
    with pytest.raises(UserError, match=r"^path 'ap0' lies in .*a.csv and .*d.csv: put whole"):
        calibrate(MissRate(0.1))


def test_promises_that_few_files_could_keep_are_kept_over_all(calibrate, frames, tmp_path):
    """A single file has too few events for this promise; the folder has enough."""
    alone = StoppingPolicy.load(tmp_path / "policy.ckpt")
    with pytest.raises(UserError, match="at least 59 stopped paths are needed"):
        alone.calibrate(frames["a.csv"], MissRate(0.05, confidence=0.95), **ROLES)
    assert calibrate(MissRate(0.05, confidence=0.95)).calibration.events > 59


def test_notes_name_their_file(calibrate, frames, tmp_path):
    slow = frames["c.csv"].assign(day=lambda frame: frame["day"] * 1e6)
    write(tmp_path / "data", "c.csv", slow)
    with pytest.warns(UserWarning, match=r"^c.csv: "):
        calibrate(MissRate(0.1))
