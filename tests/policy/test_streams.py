"""Live paths: the same margins as whole paths, whatever is saved, missing or wrong."""

import json
import pickle
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch
from policies import SETTINGS, VARIANTS, make_policy, random_paths

from lit_ios.batches import path_batch
from lit_ios.carry import current
from lit_ios.checks import UserError
from lit_ios.live import Stream
from lit_ios.sampling import fit_familiarity


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_prefix_has_the_margin_of_the_whole_path(variant, settings):
    policy, paths = make_policy(variant, **settings), random_paths()
    margins = policy.margins(paths)
    for i, path in enumerate(paths):
        stream = policy.stream()
        for row, (x, time) in enumerate(zip(path.states, path.times, strict=True)):
            decision = stream.step(x, time)
            expected = margins[paths.offsets[i] + row]
            assert decision.margin == pytest.approx(expected, abs=1e-9)
            assert decision.stop == (expected >= policy.threshold)
            assert decision.t == row
            assert decision.time == pytest.approx(time - path.times[0])
            probability = 1 / (1 + np.exp(-(expected - policy.threshold) / policy.epsilon))
            assert decision.probability == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("activation", ["silu", "relu", "tanh", "gelu"])
@pytest.mark.parametrize("normalisation", ["none", "layer"])
def test_live_paths_can_be_pickled(activation, normalisation):
    policy = make_policy("do_iqs_lb", activation=activation, normalisation=normalisation)
    one, many = policy.stream(), policy.stream_many()
    x = random_paths().states[:1]
    one.step(x[0])
    many.step(["a"], x)
    moved_one, moved_many = pickle.loads(pickle.dumps((one, many)))
    assert moved_one.step(2 * x[0]) == one.step(2 * x[0])
    assert moved_many.step(["a"], 2 * x).margin == many.step(["a"], 2 * x).margin


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_restart_from_json_changes_nothing(variant):
    policy, paths = make_policy(variant, lags=2, members=2), random_paths()
    path = max(paths, key=len)
    whole, restarted = policy.stream(), policy.stream()
    for x, time in zip(path.states, path.times, strict=True):
        restarted = policy.stream(json.loads(json.dumps(restarted.state())))
        assert restarted.step(x, time) == whole.step(x, time)
    assert restarted.stopped_at == whole.stopped_at


def test_ended_path_leaves_no_trace_in_one_that_takes_its_place():
    policy = make_policy("do_iqs_lb", lags=1)
    many = policy.stream_many()
    many.step(["old"], [[5.0, 5.0]], [3.0])
    many.end(["old"])
    alone = policy.stream().step([1.0, 2.0], 9.0)
    again = many.step(["new"], [[1.0, 2.0]], [9.0])
    assert again.margin[0] == pytest.approx(alone.margin, abs=1e-12)
    assert "old" not in many
    assert many.paths == ["new"]


def test_state_of_a_stream_does_not_grow():
    stream = make_policy("do_iqs_lb", lags=2).stream()
    sizes = []
    for i in range(50):
        stream.step([0.1 * i, 1.0])
        sizes.append(len(stream.state()["carry"]))
    assert len(set(sizes)) == 1


def test_time_left_out_goes_on_by_the_usual_step():
    policy = make_policy("iqs")
    policy.rule.time_step.fill_(10.0)
    given, left_out = policy.stream(), policy.stream()
    for i in range(4):
        x = [0.3 * i, -1.0]
        assert left_out.step(x) == given.step(x, 10.0 * i)


def test_observation_may_be_a_mapping_with_more_than_is_needed():
    policy = make_policy("iqs")
    by_name = policy.stream().step({"b": 2.0, "other": "x", "a": 1.0})
    assert by_name == policy.stream().step([1.0, 2.0])
    rows = [{"a": 1.0, "b": 2.0}, {"b": 0.0, "a": -1.0}]
    many = policy.stream_many().step(["p", "q"], rows)
    assert many.margin[0] == pytest.approx(by_name.margin)


def test_categories_of_text_are_taken_as_in_training():
    policy = make_policy("iqs", names=("a", "colour"), categories={"colour": ("green", "red")})
    red, blue = ({"a": 1.0, "colour": c} for c in ("red", "blue"))
    expected = policy.stream().step(red)
    assert policy.stream().step([1.0, 1.0]) == expected  # by its code
    assert policy.stream().step([1.0, "red"]) == expected
    many = policy.stream_many()
    assert many.step(["p"], pd.DataFrame([red])).margin[0] == pytest.approx(expected.margin)
    for refuse in (policy.stream().step, lambda row: many.step(["q"], [row])):
        with pytest.raises(UserError, match="'blue' is not one of the known categories 'gr"):
            refuse(blue)
    with pytest.raises(UserError, match="7 is not the code of a known category"):
        policy.stream().step([1.0, 7.0])


def test_missing_values_are_refused_or_carried_on():
    policy = make_policy("do_iqs_lb", lags=1)
    with pytest.raises(UserError, match="column 'b': missing or infinite"):
        policy.stream().step([1.0, np.nan])
    carrying, plain = policy.stream(missing="last"), policy.stream()
    with pytest.raises(UserError, match="'b': missing value in the first row"):
        carrying.step({"a": 1.0, "b": None})
    carrying.step([1.0, 2.0])
    plain.step([1.0, 2.0])
    assert carrying.step([3.0, np.nan]) == plain.step([3.0, 2.0])
    many = policy.stream_many(missing="last")
    many.step(["p"], [[1.0, 2.0]])
    again = policy.stream()
    again.step([1.0, 2.0])
    assert many.step(["p"], [[np.inf, 4.0]]).margin[0] == pytest.approx(again.step([1, 4]).margin)
    with pytest.raises(UserError, match="path 'q': column 'a'"):
        many.step(["q"], [[np.nan, 4.0]])
    assert "q" not in many


def test_a_refused_row_leaves_the_stream_as_it_was():
    policy = make_policy("do_iqs_lb", lags=1)
    stream, many = policy.stream(), policy.stream_many()
    stream.step([1.0, 2.0], 5.0)
    many.step(["p", "q"], [[1.0, 2.0], [0.0, 0.0]], [5.0, 5.0])
    before = stream.state(), many.state()
    with pytest.raises(UserError, match="time must increase: 5 after 5"):
        stream.step([1.0, 2.0], 5.0)
    with pytest.raises(UserError, match="path 'q': time must increase: 4 after 5"):
        many.step(["new", "p", "q"], np.ones((3, 2)), [6.0, 6.0, 4.0])
    with pytest.raises(UserError, match="finite"):
        stream.step([1.0, 2.0], np.nan)
    assert (stream.state(), many.state()) == before


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ([1.0], r"2 columns are needed \(a, b\), got an array of shape \(1,\)"),
        ([[1.0, 2.0]], r"got an array of shape \(1, 2\)"),
        ({"a": 1.0, "c": 2.0}, "no column 'b'"),
        ({"a": 1.0, "b": "high"}, "column 'b': not a number: 'high'"),
        ({"a": 1.0, "b": 10**400}, "column 'b': not a number: 1000"),
        ({"a": 1.0, "b": 10**5000}, "column 'b': not a number: a int"),
        ([1.0, 10**400], "must be numbers"),
    ],
    ids=["one", "two rows", "another", "text", "long", "longer than Python shows", "long in order"],
)
def test_wrong_observations_are_refused_by_name(observation, message):
    with pytest.raises(UserError, match=message):
        make_policy("iqs").stream().step(observation)


def test_state_of_another_policy_is_refused():
    saved = make_policy("iqs", seed=1).stream().state()
    with pytest.raises(UserError, match="another rule"):
        make_policy("iqs", seed=2).stream(saved)


def test_rows_of_data_frames_are_taken_by_name():
    policy = make_policy("iqs")
    frame = pd.DataFrame({"b": [2.0, 0.0], "a": [1.0, -1.0]})
    expected = policy.stream().step([1.0, 2.0])
    assert policy.stream().step(frame.iloc[0]) == expected
    assert policy.stream_many().step(["p", "q"], frame).margin[0] == pytest.approx(expected.margin)


def test_dates_are_taken_as_in_tables():
    policy = make_policy("iqs")
    by_date, by_number = policy.stream(), policy.stream()
    start = datetime(2024, 1, 1)
    for hours in (0, 3, 5):
        when = start + timedelta(hours=hours)
        dated = by_date.step([0.5, 0.5], when if hours else np.datetime64(when))
        assert dated.margin == pytest.approx(by_number.step([0.5, 0.5], float(hours)).margin)
    later = by_date.step([0.5, 0.5], "2024-01-01T07:00:00Z")
    assert later.margin == pytest.approx(by_number.step([0.5, 0.5], 7.0).margin)
    with pytest.raises(UserError, match="a number or a date"):
        by_date.step([0.5, 0.5], "noon")


def test_a_path_that_began_with_a_time_needs_one_for_every_row():
    policy = make_policy("iqs")
    one, many = policy.stream(), policy.stream_many()
    one.step([0.5, 0.5], 3.0)
    many.step(["a", "b"], [[0.5, 0.5]] * 2)
    many.step(["c"], [[0.5, 0.5]], [3.0])
    with pytest.raises(UserError, match="began with a time"):
        one.step([0.5, 0.5])
    with pytest.raises(UserError, match="path 'c': the path began with a time"):
        many.step(["a", "c"], [[0.5, 0.5]] * 2)
    assert make_policy("iqs", include_time=False).stream(None).step([0.5, 0.5], 3.0)


def test_restarted_paths_keep_their_threshold():
    policy = make_policy("iqs")
    policy.threshold = -1e6
    one, many = policy.stream(), policy.stream_many()
    policy.threshold = 1e6
    assert policy.stream(one.state()).step([0.5, 0.5]).stop
    assert policy.stream_many(many.state()).step(["a"], [[0.5, 0.5]]).stop.all()
    assert not policy.stream().step([0.5, 0.5]).stop


def test_rows_much_closer_than_in_training_are_noticed_once():
    policy = make_policy("iqs")
    policy.rule.time_step.fill_(10.0)
    stream = policy.stream()
    with pytest.warns(UserWarning, match="are 1 apart in time, those of training were 10") as w:
        _ = [stream.step([0.0, 0.0], day) for day in range(10)]
    assert len(w) == 1
    many = policy.stream_many()
    with pytest.warns(UserWarning, match="are 1 apart in time, those of training were 10") as w:
        _ = [many.step(["a", "b"], np.zeros((2, 2)), [day, day]) for day in range(10)]
    assert len(w) == 1
    with pytest.warns(UserWarning, match="apart in time"):
        policy.margins(random_paths())


def test_another_threshold_is_still_the_same_policy():
    policy = make_policy("iqs")
    saved = policy.stream().state()
    policy.threshold = 3.0
    assert not policy.stream(saved).step([0.0, 0.0]).stop


@pytest.mark.parametrize("time", [np.datetime64("NaT"), pd.NaT, float("nan")])
def test_missing_times_are_refused(time):
    policy = make_policy("iqs")
    with pytest.raises(UserError, match="time must be a finite number or a date"):
        policy.stream().step([0.5, 0.5], time)
    with pytest.raises(UserError, match="time must be a finite number or a date"):
        policy.stream_many().step(["p"], [[0.5, 0.5]], [time])


@pytest.mark.parametrize("time", [10**400, -(10**5000)], ids=["long", "longer than Python shows"])
def test_times_that_no_double_holds_are_refused(time):
    with pytest.raises(UserError, match="time must be a number or a date"):
        make_policy("iqs").stream().step([0.5, 0.5], time)


def test_a_path_that_began_without_a_time_takes_none_later():
    policy = make_policy("iqs")
    stream, many = policy.stream(), policy.stream_many()
    stream.step([0.5, 0.5])
    many.step(["p"], [[0.5, 0.5]])
    stream, many = policy.stream(stream.state()), policy.stream_many(many.state())
    with pytest.raises(UserError, match="began without a time"):
        stream.step([0.5, 0.5], datetime(2024, 1, 1))
    with pytest.raises(UserError, match="path 'p': the path began without a time"):
        many.step(["q", "p"], np.ones((2, 2)), [1.0, 2.0])
    stream.step([0.5, 0.5])


def damaged(carry, place, value):
    return [*carry[:place], value, *carry[place + 1 :]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda carry: carry[:-1],
        lambda carry: [*carry, 0.0],
        lambda carry: "carry",
        lambda carry: [carry],
        lambda carry: damaged(carry, 0, -1.0),  # rows
        lambda carry: damaged(carry, 0, 1.5),
        lambda carry: damaged(carry, 3, -5.0),  # ends before it starts
        lambda carry: damaged(carry, 4, 0.5),  # timed
        lambda carry: damaged(carry, 5, 7.0),  # stopped at a row to come
        lambda carry: damaged(carry, 6, float("nan")),
        lambda carry: damaged(carry, 6, None),
    ],
)
def test_damaged_saved_states_are_refused(damage):
    policy = make_policy("iqs")
    stream, many = policy.stream(), policy.stream_many()
    stream.step([1.0, 1.0])
    many.step(["p"], [[1.0, 1.0]])
    carry = stream.state()["carry"]
    with pytest.raises(UserError, match="saved state is damaged"):
        policy.stream(stream.state() | {"carry": damage(carry)})
    with pytest.raises(UserError, match="saved state is damaged"):
        policy.stream_many(many.state() | {"carries": [damage(carry)]})


def test_a_live_path_keeps_its_threshold_and_is_explained_by_it():
    policy = make_policy("iqs")
    policy.threshold = -np.float32(1e6)
    stream = policy.stream()
    policy.threshold = 1e6
    found = policy.explain([1.0, 1.0], stream)
    assert found.stop
    assert found.threshold == stream.threshold == -1e6
    assert stream.step([1.0, 1.0]).stop


def outcome(stream, row):
    """Return what a stream says of a row, or the words of its refusal, and its carry."""
    try:
        return stream.step(row), stream.carry
    except UserError as error:
        return str(error), stream.carry


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what overflows
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("settings", [{}, {"lags": 2}, {"include_time": False}, {"members": 3}])
@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_a_row_of_one_path_is_judged_like_one_of_many(variant, settings, constant):
    policy, rng = make_policy(variant, **settings), np.random.default_rng(4)
    if constant:
        policy.rule.scaler.scale[1] = torch.inf
    paths, rule = random_paths(), policy.rule
    rows = current(torch, rule.layout, rule.window.include_time, rule.states(path_batch(paths)))
    rule.familiarity.set(fit_familiarity([paths.with_states(rows.numpy(), rule.current_names)]))
    quick, general = Stream(policy.live), Stream(replace(policy.live, one=None))
    values = [0.3, -1.2, 40.0, np.nan, np.inf, -np.inf, 1e200, -1e300]
    refused = 0
    for _ in range(60):
        row = rng.choice(values, size=2, p=[0.3, 0.25, 0.2, *[0.05] * 5])
        found, expected = (outcome(stream, row) for stream in (quick, general))
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)
        if isinstance(expected[0], str):
            refused += 1
            assert found[0] == expected[0]
            continue
        for a, b in zip(found[0], expected[0], strict=True):
            assert a == (pytest.approx(b, rel=1e-9, abs=1e-9) if isinstance(b, float) else b)
    assert 5 < refused < 55
