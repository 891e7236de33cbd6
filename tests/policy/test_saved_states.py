"""Saved streams, exported metadata and records may be damaged: refused in a sentence, or usable."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies import make_policy

from lit_ios.carry import FIRST_STOP, LAST, ROWS, START, THRESHOLD, TIMED
from lit_ios.checkpoints import read_checkpoint, write_checkpoint
from lit_ios.checks import UserError
from lit_ios.live.metadata import read_metadata
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.exports import ExportedStep, describe_export

POLICY = make_policy()


def state(rows=3, timed=True):
    stream = POLICY.stream()
    for row in range(rows):
        stream.step([0.1, row], 10.0 + row if timed else None)
    return stream.state()


def changed(place, value, **given):
    made = state(**given)
    made["carry"][place] = value
    return made


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("timed", [True, False])
def test_state_of_a_path_is_taken_as_it_was(rows, timed):
    saved = json.loads(json.dumps(state(rows, timed)))
    assert POLICY.stream(saved).state() == saved


IMPOSSIBLE = [
    (changed(ROWS, -1), "clock"), (changed(ROWS, 2.5), "clock"), (changed(ROWS, 2.0**53), "clock"),
    (changed(ROWS, 0), "clock"), (changed(ROWS, 1), "clock"), (changed(START, 99.0), "clock"),
    (changed(LAST, 9.0), "clock"), (changed(TIMED, 0.5), "clock"), (changed(TIMED, 0), "clock"),
    (changed(FIRST_STOP, 3), "clock"), (changed(FIRST_STOP, -2), "clock"),
    (changed(LAST, 55.0, timed=False), "clock"), (changed(START, 1.0, timed=False), "clock"),
    (changed(-1, 1.0, rows=0), "clock"),
    (changed(ROWS, True), "finite numbers"), (changed(ROWS, "3"), "finite numbers"),
    (changed(THRESHOLD, np.nan), "finite numbers"), (changed(LAST, np.inf), "finite numbers"),
    (changed(LAST, 10**400), "finite numbers"), (changed(LAST, None), "finite numbers"),
    (changed(LAST, [1.0]), "finite numbers"), (state() | {"carry": []}, "finite numbers"),
    (state() | {"carry": "x" * 9}, "finite numbers"), (state() | {"carry": {}}, "finite numbers"),
    (state() | {"rule": np.zeros(2)}, "another rule"), (state() | {"rule": 5}, "another rule"),
    ([], "state"), ("carry", "state"), (5, "state"),
]  # fmt: skip


@pytest.mark.parametrize(("saved", "reason"), IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_state_that_no_path_can_have_is_refused(saved, reason):
    with pytest.raises(UserError, match=reason):
        POLICY.stream(saved)


def many():
    streams = POLICY.stream_many()
    streams.step(["p", ("q", ("r", 1)), 7], np.ones((3, 2)))
    return json.loads(json.dumps(streams.state()))


def test_names_of_paths_are_known_again_from_json():
    assert POLICY.stream_many(many()).paths == ["p", ("q", ("r", 1)), 7]


def deep(depth):
    return [deep(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "change",
    [
        {"paths": ["p", "p", "q"]}, {"paths": ["p", "q"]}, {"paths": [1, True, "q"]},
        {"paths": ["p", {}, "q"]}, {"paths": ["p", float("nan"), "q"]}, {"paths": "pqr"},
        {"paths": ["p", deep(50), "q"]}, {"paths": None}, {"carries": None}, {"carries": 3},
        {"carries": [[], [], []]}, {"start": None}, {"start": many()["carries"][0]},
        {"carries": {0: 1, 1: 2, 2: 3}},
    ],
    ids=str,
)  # fmt: skip
def test_states_of_many_paths_that_cannot_be_are_refused(change):
    with pytest.raises(UserError):
        POLICY.stream_many(many() | change)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.just(10**400) | st.sampled_from([1e300, -1e300, 2.0**60]),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 30), ODD), min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_generated_state_is_refused_or_goes_on(changes):
    saved = state()
    for place, value in changes:
        saved["carry"][place % len(saved["carry"])] = value
    with np.errstate(all="ignore"):
        try:
            stream = POLICY.stream(saved)
            decision = stream.step([0.5, 0.5], 1e6)
        except UserError:
            return
    assert np.isfinite(decision.margin)
    assert decision.t == saved["carry"][ROWS]


@given(st.dictionaries(st.sampled_from(["rule", "start", "paths", "carries"]), ODD, min_size=1))
@settings(max_examples=250, deadline=None)
def test_generated_states_of_many_paths_are_refused_or_go_on(change):
    with np.errstate(all="ignore"):
        try:
            streams = POLICY.stream_many(many() | change)
            decided = streams.step(["new"], [[0.5, 0.5]])
        except UserError:
            return
    assert np.isfinite(decided.margin).all()


ABOUT = json.loads(json.dumps(describe_export(POLICY, ExportedStep(POLICY.rule, "error", True))))


def test_metadata_as_they_are_exported_are_taken():
    assert read_metadata(json.dumps(ABOUT), "f.onnx") == ABOUT


@given(st.sampled_from(sorted(ABOUT)), ODD)
@settings(max_examples=250, deadline=None)
def test_damaged_metadata_are_refused_or_of_the_right_kinds(name, value):
    try:
        found = read_metadata(json.dumps(ABOUT | {name: value}), "f.onnx")
    except UserError:
        return
    assert isinstance(found["time_step"], int | float)
    assert all(isinstance(column, str) for column in found["columns"])


@pytest.mark.parametrize("text", ["", "[" * 100_000, "5", "null", "{}", '{"format": "other"}'])
def test_metadata_of_something_else_are_refused(text):
    with pytest.raises(UserError, match=r"f\.onnx"):
        read_metadata(text, "f.onnx")


@pytest.mark.parametrize("name", ["columns", "categories", "start", "fingerprint", "missing"])
def test_metadata_with_something_missing_are_refused(name):
    with pytest.raises(UserError, match=f"lack '{name}'"):
        read_metadata(json.dumps({key: ABOUT[key] for key in ABOUT if key != name}), "f.onnx")


DAMAGE = [
    {"rule": 5}, {"rule": []}, {"rule": {}}, {"table": 5}, {"table": {"path": 5}},
    {"table": {"time_unit": "years"}}, {"table": {"other": None}}, {"training": [1]},
    {"training": {"whole": 1, "rows": 2}}, {"validation": {"whole": ["a"], "rows": [[-1]]}},
    {"calibrated_on": "x"}, {"calibration": 5}, {"forecast": 5},
    {"forecast": {"margins": [1]}}, {"reference": {"margin": [1.0]}},
    {"reference": {"margin": ["x"], "distance": [0.0], "stopped": [True]}}, {"lead": "long"},
    {"calibration": {"rule": "x"}}, {"paths": -1},
    {"paths": "many"}, {"candidate": 5}, {"held_out": "good"}, {"trained": 5}, {"data": {}},
]  # fmt: skip


@pytest.mark.parametrize("change", DAMAGE, ids=str)
def test_checkpoint_with_a_damaged_record_is_refused_in_a_sentence(change, tmp_path):
    file = tmp_path / "policy.ckpt"
    POLICY.save(file)
    content = read_checkpoint(file)
    content["lit_ios"] |= change
    write_checkpoint(content, file)
    with pytest.raises(UserError, match=str(file)) as error:
        repr(StoppingPolicy.load(file))
    assert len(str(error.value).splitlines()) == 1


def test_sizes_that_are_not_the_weights_cost_nothing(tmp_path):
    file = tmp_path / "policy.ckpt"
    POLICY.save(file)
    content = read_checkpoint(file)
    content["lit_ios"]["rule"]["head"]["init_args"]["hidden"] = [10**6, 10**6]  # 4 TB of weights
    write_checkpoint(content, file)
    with pytest.raises(UserError, match="its weights do not fit its rule"):
        StoppingPolicy.load(file)


@pytest.mark.parametrize("weights", [5, [], {"rule.threshold": 5}, {3: None}], ids=str)
def test_weights_that_are_no_tensors_are_refused(weights, tmp_path):
    file = tmp_path / "policy.ckpt"
    POLICY.save(file)
    content = read_checkpoint(file)
    content["state_dict"] = weights
    write_checkpoint(content, file)
    with pytest.raises(UserError, match=str(file)):
        StoppingPolicy.load(file)
