"""Exported files: one signature, metadata that say everything, the decisions of the policy."""

import hashlib
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from policies import MODELS, SETTINGS, make_policy, random_paths
from repository import ROOT

from lit_ios import runtime
from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.rule import ConditionEncoder, StoppingRule
from lit_ios.seals import seal_model

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX is an extra")

WIDEST = ["plain", "members"]
SIGNATURE = ["columns", "time", "carry"], ["margin", "probability", "stop", "next_carry"]


class OnnxFile:
    """Feeds an exported file, knowing nothing but its metadata."""

    def __init__(self, file):
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        found = self.session.get_modelmeta().custom_metadata_map
        self.about = json.loads(found["lit_ios"])

    def __call__(self, *given):
        named = dict(zip(self.about["inputs"], given, strict=True))
        results = self.session.run(self.about["outputs"], named)
        return dict(zip(self.about["outputs"], results, strict=True))


class TorchFile:
    """The same for a program of torch.export."""

    def __init__(self, file):
        extra = {"metadata.json": ""}
        self.program = torch.export.load(file, extra_files=extra).module()
        self.about = json.loads(extra["metadata.json"])

    def __call__(self, *given):
        results = self.program(*(torch.from_numpy(values) for values in given))
        values = [value.numpy() for value in results]
        return dict(zip(self.about["outputs"], values, strict=True))


RUNNERS = {".onnx": (OnnxFile, 1e-5), ".pt2": (TorchFile, 1e-9)}


def run_paths(run, paths):
    """Return each output for all rows of paths, every path by itself, the carry handed on."""
    found = {}
    for path in paths:
        carry = np.array([run.about["start"]])
        for x, time in zip(path.states, path.times, strict=True):
            outputs = run(x[None], np.array([time]), carry)
            carry = outputs["next_carry"]
            for name, value in outputs.items():
                found.setdefault(name, []).append(value[0])
    return found


@pytest.mark.parametrize("ending", RUNNERS)
@pytest.mark.parametrize("settings", WIDEST)
@pytest.mark.parametrize("variant", MODELS.values(), ids=MODELS)
def test_files_of_all_rules_have_one_signature_and_decide_alike(
    variant, settings, ending, tmp_path
):
    policy, paths = make_policy(variant, **SETTINGS[settings]), random_paths()
    kind, tolerance = RUNNERS[ending]
    run = kind(policy.export(tmp_path / f"policy{ending}"))
    assert (run.about["inputs"], run.about["outputs"][:4]) == SIGNATURE
    found = run_paths(run, paths)
    with torch.inference_mode():
        expected = {
            name: torch.cat(parts).numpy()
            for name, parts in (
                (name, [getattr(d, name) for d in policy.decide(paths)])
                for name in run.about["outputs"]
                if name != "next_carry" and not name.startswith("distance")
            )
        }
    sure = np.abs(expected["margin"] - policy.threshold) > tolerance
    for name, values in expected.items():
        if name == "stop":
            assert (np.array(found[name]) == values)[sure].all()
        else:
            scale = 1 if name != "probability" else 1 / policy.epsilon
            np.testing.assert_allclose(found[name], values, rtol=0, atol=tolerance * scale)


def test_many_rows_are_judged_as_one_by_one(tmp_path):
    policy = make_policy("do_iqs_lb", lags=1)
    rng = np.random.default_rng(0)
    for ending, (kind, _) in RUNNERS.items():
        run = kind(policy.export(tmp_path / f"policy{ending}"))
        columns, time = rng.normal(size=(7, 2)), rng.uniform(size=7)
        carry = np.tile(run.about["start"], (7, 1))
        for _ in range(3):
            together = run(columns, time, carry)
            for i in range(7):
                alone = run(columns[i : i + 1], time[i : i + 1], carry[i : i + 1])
                for name, values in together.items():
                    np.testing.assert_allclose(values[i], alone[name][0], atol=1e-6)
            carry, time = together["next_carry"], time + 1


def test_metadata_say_all_a_program_needs(tmp_path):
    policy = make_policy(
        names=("a", "colour"), categories={"colour": ("blue", "red")}, threshold=0.25, lags=1
    )
    about = OnnxFile(policy.export(tmp_path / "p.onnx")).about
    assert about["columns"] == ["a", "colour"]
    assert about["categories"] == {"colour": ["blue", "red"]}
    assert about["threshold"] == 0.25
    assert about["start"] == policy.stream().state()["carry"]
    assert about["start"][about["clock"].index("threshold")] == 0.25
    assert about["time_step"] == 1.0
    policy.threshold = np.inf
    about = OnnxFile(policy.export(tmp_path / "never.onnx")).about
    assert json.loads(json.dumps(about, allow_nan=False)) == about


def engine_policy():
    rng = np.random.default_rng(0)
    encoder = ConditionEncoder(
        ["setting1", "sensor4", "sensor7"], [0, 10], rng.normal(size=(2, 2)).tolist(),
        rng.uniform(1, 2, size=(2, 2)).tolist(),
    )  # fmt: skip
    torch.manual_seed(0)
    head = {"class_path": "lit_ios.rule.MLPHead", "init_args": {"hidden": [8]}}
    memory = {"class_path": "lit_ios.rule.GainMemory", "init_args": {"gamma": 0.9, "hidden": [8]}}
    return StoppingPolicy(StoppingRule(encoder.spec, head, memory, lags=1)), encoder


def test_engines_are_scaled_inside_the_exported_file(tmp_path):
    policy, encoder = engine_policy()
    rows = np.column_stack([[0.0, 10.0, 9.8, 0.1], np.random.default_rng(1).normal(size=(4, 2))])
    stream = policy.stream()
    margins = [stream.step(dict(zip(policy.columns, row, strict=True))).margin for row in rows]
    scaled = [
        (row[1:] - encoder.mean[int(row[0] > 5)].numpy()) / encoder.scale[int(row[0] > 5)].numpy()
        for row in rows
    ]
    np.testing.assert_allclose(encoder(torch.from_numpy(rows)), scaled)
    for ending, (kind, tolerance) in RUNNERS.items():
        run = kind(policy.export(tmp_path / f"engine{ending}"))
        carry = np.array([run.about["start"]])
        for row, margin in zip(rows, margins, strict=True):
            found = run(row[None], np.array([np.nan]), carry)
            carry = found["next_carry"]
            assert found["margin"][0] == pytest.approx(margin, abs=tolerance)
        found = run(np.array([[25.0, 0.0, 0.0]]), np.array([np.nan]), carry)
        assert np.isnan(found["margin"][0])  # a condition not seen in training
        assert not found["stop"][0]
    with pytest.raises(UserError, match=r"operating condition 25 was not seen.*were 0, 10"):
        policy.stream().step([25.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("columns", "times"),
    [
        ([np.nan, 1.0], [5.0, 6.0]),
        ([np.inf, 1.0], [5.0, 6.0]),
        ([0.0, 1.0], [5.0, 5.0]),
        ([0.0, 1.0], [5.0, 4.0]),
        ([0.0, 1.0], [5.0, np.nan]),
        ([0.0, 1.0], [np.nan, 4.0]),
    ],
)
def test_what_a_file_cannot_judge_has_a_nan_margin_and_no_stop(columns, times, tmp_path):
    policy = make_policy("do_iqs_lb", threshold=-1e6)
    for ending, (kind, _) in RUNNERS.items():
        run = kind(policy.export(tmp_path / f"policy{ending}"))
        first = run(np.zeros((1, 2)), np.array(times[:1]), np.array([run.about["start"]]))
        assert np.isfinite(first["margin"]).all()
        found = run(np.array([columns]), np.array(times[1:]), first["next_carry"])
        assert np.isnan(found["margin"][0])
        assert not found["stop"][0]


def test_file_may_take_the_last_value_for_a_missing_one(tmp_path):
    policy = make_policy("iqs", lags=1)
    rule = runtime.load(policy.export(tmp_path / "p.onnx", missing="last"))
    live, stream = rule.stream(), policy.stream(missing="last")
    for row in ([1.0, 2.0], [np.nan, 3.0], [4.0, None]):
        assert live.step(row).margin == pytest.approx(stream.step(row).margin, abs=1e-5)


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_runtime_streams_as_the_policy_does(variant, tmp_path):
    policy = make_policy(variant, names=("a", "c"), categories={"c": ("x", "y")}, lags=1, members=2)
    rule = runtime.load(policy.export(tmp_path / "p.onnx"))
    assert rule.columns == ("a", "c")
    rng = np.random.default_rng(0)
    one, other, many = policy.stream(), rule.stream(), rule.stream_many()
    for t in range(12):
        row = {"a": rng.normal(), "c": rng.choice(["x", "y"])}
        expected, found = one.step(row, t), other.step(row, t)
        assert found.margin == pytest.approx(expected.margin, abs=1e-5)
        assert found._replace(margin=0, probability=0) == expected._replace(margin=0, probability=0)
        assert found.probability == pytest.approx(expected.probability, abs=1e-4)
        both = many.step(["p", "q"], [row, row], [t, t])
        np.testing.assert_allclose(both.margin, found.margin, atol=1e-6)
        other = rule.stream(json.loads(json.dumps(other.state())))
    moved = policy.stream(other.state())  # from one to the other in mid-path
    row = {"a": 0.3, "c": "y"}
    assert moved.step(row, 20).margin == pytest.approx(one.step(row, 20).margin, abs=1e-5)


def test_runtime_refuses_what_cannot_be_judged(tmp_path):
    rule = runtime.load(make_policy("iqs").export(tmp_path / "p.onnx"))
    stream = rule.stream()
    stream.step([1.0, 2.0], 5.0)
    before = stream.state()
    for row, time, message in (
        ([np.nan, 1.0], 6.0, "column 'a': missing or infinite"),
        ([1.0, 1.0], 5.0, "time must increase: 5 after 5"),
        ([1.0, 1.0], None, "began with a time"),
    ):
        with pytest.raises(UserError, match=message):
            stream.step(row, time)
    assert stream.state() == before
    with pytest.raises(UserError, match="there is no file"):
        runtime.load(tmp_path / "nothing.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(UserError, match=r"bad.onnx is not a file that policy.export wrote: export"):
        runtime.load(tmp_path / "bad.onnx")
    (tmp_path / "bad.onnx").write_bytes(seal_model(b"not a model"))
    with pytest.raises(UserError, match=r"cannot be run \(.*protobuf parsing failed.\): give"):
        runtime.load(tmp_path / "bad.onnx")


@pytest.mark.parametrize("ending", RUNNERS)
def test_an_exported_file_ends_in_the_checksum_of_all_before_it(ending, tmp_path):
    data = make_policy("iqs").export(tmp_path / f"p{ending}").read_bytes()
    assert data[-79:-64] == b"lit-ios sha256 "
    assert data[-64:].decode() == hashlib.sha256(data[:-64]).hexdigest()
    assert runtime.verify(tmp_path / f"p{ending}") == data


def test_the_checksum_is_a_metadata_entry_to_other_programs(tmp_path):
    import onnx

    file = make_policy("iqs").export(tmp_path / "p.onnx")
    model = onnx.load(file)
    onnx.checker.check_model(model)
    assert [entry.key for entry in model.metadata_props] == ["lit_ios", "lit_ios_seal"]
    archive = zipfile.ZipFile(make_policy("iqs").export(tmp_path / "p.pt2"))
    assert archive.testzip() is None
    assert len(archive.comment) == 79


@pytest.mark.parametrize("ending", RUNNERS)
def test_an_exported_file_that_has_changed_is_refused(ending, tmp_path):
    file = make_policy("iqs").export(tmp_path / f"p{ending}")
    data = file.read_bytes()
    load = runtime.load if ending == ".onnx" else runtime.verify
    for place in (0, len(data) // 2, len(data) - 80, len(data) - 1):
        file.write_bytes(flipped(data, place))
        with pytest.raises(UserError, match="is damaged: its content is not what its checksum"):
            load(file)
    for changed in (flipped(data, len(data) - 70), data[:-100]):  # in the words before it; cut off
        file.write_bytes(changed)
        with pytest.raises(UserError, match="or not all of it: it lacks a checksum; export"):
            load(file)


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_runtime_needs_neither_torch_nor_pyarrow(tmp_path):
    policy = make_policy("do_iqs_lb")
    file = policy.export(tmp_path / "p.onnx")
    code = (
        "import sys\nfrom lit_ios import runtime\n"
        f"rule = runtime.load({str(file)!r})\n"
        "stream, many = rule.stream(), rule.stream_many()\n"
        "print(repr(stream.step({'a': 1.0, 'b': 2.0}).margin))\n"
        "print(repr(float(many.step(['p'], [[1.0, 2.0]]).margin[0])))\n"
        "loaded = {'torch', 'pyarrow', 'pytorch_lightning', 'pandas', 'scipy'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = policy.stream().step([1.0, 2.0]).margin
    assert [float(line) for line in done.stdout.split()] == pytest.approx([expected] * 2, abs=1e-5)


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"\.onnx or \.pt2, got 'policy\.h5'"):
        make_policy().export(tmp_path / "policy.h5")


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match="pip install onnx onnxscript"):
        make_policy().export(tmp_path / "policy.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match="pip install onnxruntime"):
        runtime.load(tmp_path / "policy.onnx")


def test_an_onnxscript_too_old_for_torch_is_named(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise ModuleNotFoundError("No module named 'onnxscript._framework_apis.torch_9'")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(UserError, match=r"onnxscript is too old for torch .*; pip install"):
        make_policy().export(tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
