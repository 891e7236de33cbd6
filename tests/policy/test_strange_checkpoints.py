"""Checkpoints that unpack to more than they are, or whose weights no rule can decide by."""

import copy
import io
import math
import os
import zipfile

import pytest
import torch
from policies import make_policy, random_paths

from lit_ios import StoppingPolicy
from lit_ios.checkpoints import write_checkpoint
from lit_ios.checks import UserError
from lit_ios.live import Forecast
from lit_ios.seals import seal_archive


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Return a checkpoint with a calibration and a forecast."""
    policy = make_policy("iqs")
    policy.calibrate(random_paths(60, seed=6), max_event_miss_rate=0.3)
    policy.learn_forecast(random_paths(60, seed=5), horizons=[2, 4.5])
    file = tmp_path_factory.mktemp("known") / "policy.ckpt"
    policy.save(file)
    return torch.load(file, weights_only=True)


def refused(content, file):
    """Return what is said of a checkpoint."""
    write_checkpoint(content, file, durable=False)
    with pytest.raises(UserError) as error:
        StoppingPolicy.load(file)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)
    return str(error.value)


def packed(content, kind, twins=0):
    """Return a checkpoint whose archive is packed, or whose largest file has several names."""
    whole, made = io.BytesIO(), io.BytesIO()
    torch.save(content, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(made, "w", kind) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
        largest = max(target.filelist, key=lambda entry: entry.file_size)
        for number in range(twins):
            twin = copy.copy(largest)
            twin.filename = f"archive/data/twin{number}"
            target.filelist.append(twin)
    return seal_archive(made.getvalue())


def test_an_archive_that_is_packed_is_refused(known, tmp_path):
    file = tmp_path / "policy.ckpt"
    file.write_bytes(packed(known, zipfile.ZIP_STORED))
    StoppingPolicy.load(file)
    file.write_bytes(packed(known, zipfile.ZIP_DEFLATED))
    with pytest.raises(UserError, match="it unpacks to more than it is"):
        StoppingPolicy.load(file)


def test_an_archive_whose_files_lie_over_one_another_is_refused(known, tmp_path):
    file, large = tmp_path / "policy.ckpt", known | {"large": torch.zeros(100_000)}
    file.write_bytes(packed(large, zipfile.ZIP_STORED))
    StoppingPolicy.load(file)
    file.write_bytes(packed(large, zipfile.ZIP_STORED, twins=2))
    with pytest.raises(UserError, match="it unpacks to more than it is"):
        StoppingPolicy.load(file)


def test_a_file_of_a_terabyte_of_nothing_is_refused(known, tmp_path):
    file = tmp_path / "policy.ckpt"
    write_checkpoint(known, file)
    try:
        os.truncate(file, 1 << 40)
    except OSError:
        pytest.skip("the file system has no files as large")
    with pytest.raises(UserError, match="larger than the memory at hand"):
        StoppingPolicy.load(file)


@pytest.mark.parametrize("name", ["members", "lags"])
def test_more_parts_than_there_are_weights_cost_no_time(name, known, tmp_path):
    about = known["lit_ios"] | {"rule": known["lit_ios"]["rule"] | {name: 10**12}}
    assert f"{name} differs" in refused(known | {"lit_ios": about}, tmp_path / "policy.ckpt")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool])
def test_weights_of_another_kind_are_refused_where_they_would_lose_something(
    dtype, known, tmp_path
):
    weights = {name: values.to(dtype) for name, values in known["state_dict"].items()}
    said = refused(known | {"state_dict": weights}, tmp_path / "policy.ckpt")
    assert "is of another kind" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epsilon", 0.0, "epsilon is 0"),
        ("epsilon", -0.1, "epsilon is -0.1"),
        ("epsilon", math.nan, "epsilon is not a number"),
        ("time_step", math.inf, "time_step is inf"),
        ("time_step", -1.0, "time_step is -1"),
        ("threshold", math.nan, "threshold is not a number"),
        ("scaler.mean", math.nan, "scaler.mean is not a number"),
    ],
)
def test_numbers_that_no_rule_can_decide_by_are_refused(name, value, said, known, tmp_path):
    weights = known["state_dict"] | {
        f"rule.{name}": torch.full_like(known["state_dict"][f"rule.{name}"], value)
    }
    assert said in refused(known | {"state_dict": weights}, tmp_path / "policy.ckpt")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("survival", lambda values: 1.5 - values),
        ("survival", lambda values: values.flip(-1)),
        ("survival", lambda values: values * math.nan),
        ("survival", lambda values: torch.zeros(1).expand(1 << 40)),
        ("bounds", lambda values: -values),
        ("bounds", lambda values: values.flip(-1)),
        ("starts", lambda values: values.flip(0)),
        ("times", lambda values: values - 1),
        ("margins", lambda values: values.clone().index_fill(0, torch.tensor([-1]), math.inf)),
        ("paths", lambda _: -1),
        ("horizons", lambda _: ("x",)),
        ("horizons", lambda _: (-2.0,)),
    ],
)
def test_a_forecast_that_is_none_is_refused(name, change, known, tmp_path):
    forecast = known["lit_ios"]["forecast"]
    about = known["lit_ios"] | {"forecast": forecast | {name: change(forecast[name])}}
    said = refused(known | {"lit_ios": about}, tmp_path / "policy.ckpt")
    assert "damaged" in said


def test_the_forecast_that_was_learnt_is_taken(known):
    plain = {
        name: value.numpy() if isinstance(value, torch.Tensor) else value
        for name, value in known["lit_ios"]["forecast"].items()
    }
    assert Forecast.of(plain).paths == 60


@pytest.mark.parametrize(
    "change",
    [
        {"promises": [5]},
        {"promises": [{"promise": "MissRate", "words": "x", "level": "x"}]},
        {"promises": [{"words": "x"}]},
        {"promises": [{"promise": "MissRate", "level": 0.1}]},
        {"groups": [{}]},
        {"threshold": "x"},
    ],
)
def test_a_calibration_that_is_none_is_refused(change, known, tmp_path):
    about = known["lit_ios"] | {"calibration": known["lit_ios"]["calibration"] | change}
    said = refused(known | {"lit_ios": about}, tmp_path / "policy.ckpt")
    assert "damaged" in said
    del about["calibration"]["promises"]
    assert "damaged" in refused(known | {"lit_ios": about}, tmp_path / "policy.ckpt")
