"""Exported policies, run by other programs, decide as the policy does."""

import json
import sys

import numpy as np
import pytest
import torch
from policies import SETTINGS, make_policy, random_paths

from lit_ios.checks import UserError
from lit_ios.policy.inputs import EngineInputs
from lit_ios.readers.cmapss import ConditionScaler
from lit_ios.variants import VARIANTS

onnxruntime = pytest.importorskip("onnxruntime")

WIDEST = ["plain", "members"]
# variants of one class differ in how they are trained, not in what is exported
MODELS = {variant.model: name for name, variant in VARIANTS.items()}


class OnnxPolicy:
    """Feeds an exported file, knowing nothing but its metadata."""

    def __init__(self, file):
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        found = self.session.get_modelmeta().custom_metadata_map
        self.about = {key: json.loads(value) for key, value in found.items()}

    def __call__(self, given):
        wanted = {name: given[name] for name in self.about["inputs"]}
        results = self.session.run(self.about["outputs"], wanted)
        return dict(zip(self.about["outputs"], results, strict=True))


class TorchPolicy:
    """The same for a program of torch.export."""

    def __init__(self, file):
        extra = {"metadata.json": ""}
        self.program = torch.export.load(file, extra_files=extra).module()
        self.about = json.loads(extra["metadata.json"])

    def __call__(self, given):
        values = [torch.from_numpy(np.asarray(given[name])) for name in self.about["inputs"]]
        results = [value.numpy() for value in self.program(*values)]
        return dict(zip(self.about["outputs"], results, strict=True))


RUNNERS = {".onnx": OnnxPolicy, ".pt2": TorchPolicy}


def inputs(rows, lags, y, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "features": rng.normal(size=(rows, 2)),
        "history": rng.normal(size=(rows, lags, 2)),
        "time": rng.uniform(0, 50, size=rows),
        "step": rng.integers(0, 50, size=rows),
        "y": rng.normal(size=(rows, y)),
    }


@pytest.mark.parametrize("ending", RUNNERS)
@pytest.mark.parametrize("settings", WIDEST)
@pytest.mark.parametrize("variant", MODELS.values(), ids=MODELS)
def test_single_rows_agree_on_random_inputs(variant, settings, ending, tmp_path):
    policy = make_policy(variant, **SETTINGS[settings])
    file = policy.export(tmp_path / f"policy{ending}")
    lags, y = policy.lags, policy._engine.y_dim
    given = inputs(100, lags, y)
    found = RUNNERS[ending](file)(given)
    state = [given["features"], given["history"].reshape(100, -1)]
    state += [given["time"][:, None]] if policy.include_time else []
    margin, next_y = policy._engine.judge(np.concatenate(state, axis=1), given["step"], given["y"])
    assert np.abs(found["margin"] - margin).max() < 1e-5
    assert (found["stop"] == (margin >= policy.threshold)).all()
    assert np.allclose(found["probability"], 1 / (1 + np.exp(-margin / policy.epsilon)), atol=1e-5)
    if y:
        assert np.allclose(found["next_y"], next_y, atol=1e-5)


@pytest.mark.parametrize("ending", RUNNERS)
@pytest.mark.parametrize(
    ("variant", "settings"),
    [("do_iqs_lb", "lags"), ("do_iqs_lb", "members"), ("iqs", "layer norm")],
)
def test_whole_paths_agree_when_the_state_is_carried_along(variant, settings, ending, tmp_path):
    policy, paths = make_policy(variant, **SETTINGS[settings]), random_paths(5)
    run = RUNNERS[ending](policy.export(tmp_path / f"policy{ending}"))
    margins = policy.margins(paths)
    for i, path in enumerate(paths):
        y = np.zeros((1, run.about["y"]))
        for row, x in enumerate(path.states):
            before = [path.states[max(row - k, 0)] for k in range(1, run.about["lags"] + 1)]
            given = {
                "features": x[None],
                "history": np.array(before).reshape(1, -1, 2),
                "time": path.times[row : row + 1] - path.times[0],
                "step": np.array([row]),
                "y": y,
            }
            found = run(given)
            y = found.get("next_y", y)
            assert found["margin"][0] == pytest.approx(margins[paths.offsets[i] + row], abs=1e-5)


def test_metadata_name_features_and_threshold(tmp_path):
    about = OnnxPolicy(make_policy(threshold=0.25).export(tmp_path / "p.onnx")).about
    assert about["features"] == ["a", "b"]
    assert about["threshold"] == 0.25


def test_engines_are_scaled_inside_the_exported_file(tmp_path):
    rng = np.random.default_rng(0)
    scaler = ConditionScaler(
        np.array([0, 10]), rng.normal(size=(2, 21)), rng.uniform(1, 2, size=(2, 21)),
        np.array([3, 6]),
    )  # fmt: skip
    policy = make_policy("do_iqs_lb", lags=1)
    policy.inputs = EngineInputs(scaler)
    rows = np.column_stack([[0.0, 10.0, 9.8, 0.1], rng.normal(size=(4, 2))])
    margins, stream = [], policy.stream()
    for row in rows:
        margins.append(stream.step(dict(zip(policy.feature_names, row, strict=True))).margin)
    for ending, kind in RUNNERS.items():
        run = kind(policy.export(tmp_path / f"engine{ending}"))
        assert run.about["features"] == ["setting1", "sensor4", "sensor7"]
        y = np.zeros((1, 1))
        for t, row in enumerate(rows):
            given = {"features": row[None], "history": rows[max(t - 1, 0)][None, None],
                     "time": np.array([float(t)]), "step": np.array([t]), "y": y}  # fmt: skip
            found = run(given)
            y = found["next_y"]
            assert found["margin"][0] == pytest.approx(margins[t], abs=1e-5)
        given["features"] = np.array([[25.0, 0.0, 0.0]])  # a condition not seen in training
        assert np.isnan(run(given)["margin"][0])
        assert not run(given)["stop"][0]


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"\.onnx or \.pt2, got 'policy\.h5'"):
        make_policy().export(tmp_path / "policy.h5")


def test_missing_package_is_named_by_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"lit-ios\[onnx\]"):
        make_policy().export(tmp_path / "policy.onnx")
