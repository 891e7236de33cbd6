"""How long is left, wherever a rule is used: tables, live paths, checkpoints, exported files."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from policies import SETTINGS, make_policy, random_paths

from lit_ios import runtime
from lit_ios.checkpoints import read_checkpoint, write_checkpoint
from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy


def table_of(paths):
    """Return paths as a table, with a column for the stop."""
    stop = (paths.actions == 0).astype(int)
    unit = np.array(paths.names)[paths.path_of_row]
    return pd.DataFrame({"unit": unit, "day": paths.times, "fixed": stop} | dict(
        zip("ab", paths.states.T, strict=True)
    ))  # fmt: skip


def foresighted(**settings):
    """Return a policy that has learnt a forecast, and fresh paths."""
    policy = make_policy(**({"variant": "iqs"} | settings))
    policy.learn_forecast(random_paths(60, seed=5), horizons=[2, 4.5])
    return policy, random_paths(12, seed=6)


def named(policy, paths, **options):
    return policy.forecast(table_of(paths), path="unit", time="day", **options)


@pytest.mark.filterwarnings("ignore:rows are:UserWarning")
@pytest.mark.parametrize("settings", [SETTINGS["plain"], SETTINGS["members"], {"memory": "gru"}])
def test_live_paths_say_what_tables_say(settings):
    policy, paths = foresighted(**settings)
    table = named(policy, paths, horizons=[0, 2, 4.5], quantiles=[0.1, 0.5, 0.9])
    many = policy.stream_many()
    for i, path in enumerate(paths):
        stream = policy.stream()
        for row, (x, time) in enumerate(zip(path.states, path.times, strict=True)):
            left = stream.step(x, time).remaining
            both = many.step([i], [x], [time]).remaining
            expected = table.iloc[paths.offsets[i] + row]
            for column, one, of_many in (
                ("remaining_low", left.low, both.low[0]),
                ("remaining_low_at_stop", left.low_at_stop, both.low_at_stop[0]),
                ("remaining_q10", left.quantile(0.1), both.quantile(0.1)[0]),
                ("remaining_median", left.median, both.median[0]),
                ("remaining_q90", left.quantile(0.9), both.quantile(0.9)[0]),
                ("stop_within_0", left.within(0), both.within(0)[0]),
                ("stop_within_2", left.within(2), both.within(2)[0]),
                ("stop_within_4.5", left.within(4.5), both.within(4.5)[0]),
            ):
                assert one == pytest.approx(expected[column], abs=1e-9, nan_ok=True), column
                assert of_many == pytest.approx(expected[column], abs=1e-9, nan_ok=True), column


def test_columns_agree_with_each_other():
    policy, paths = foresighted()
    table = named(policy, paths, horizons=[0, 1, 3, 5], quantiles=[0.1, 0.5, 0.9])
    within = table[[f"stop_within_{h}" for h in (0, 1, 3, 5)]].to_numpy()
    assert (np.diff(within, axis=1) >= -1e-12).all()
    assert ((within >= 0) & (within <= 1 + 1e-12)).all()
    quantiles = table[["remaining_q10", "remaining_median", "remaining_q90"]].to_numpy()
    assert (np.diff(quantiles[np.isfinite(quantiles).all(1)], axis=1) >= 0).all()
    stops = table["first_stop"]
    assert stops.any()
    assert table["remaining_low_at_stop"].notna().equals(stops)
    assert (table["remaining_low"] >= 0).all()


def test_predict_shows_what_was_learnt_and_nothing_before():
    policy, paths = make_policy("iqs"), table_of(random_paths())
    before = policy.predict(paths, path="unit", time="day")
    assert not [name for name in before if name.startswith(("remaining", "stop_within"))]
    assert policy.stream().step([0.1, 0.2]).remaining is None
    assert policy.stream_many().step(["p"], [[0.1, 0.2]]).remaining is None
    with pytest.raises(UserError, match="no forecast was learnt: learn_forecast"):
        policy.forecast(paths, path="unit", time="day")
    policy.learn_forecast(random_paths(60, seed=5), horizons=[2])
    after = policy.predict(paths, path="unit", time="day")
    added = ["remaining_low", "remaining_low_at_stop", "remaining_median", "stop_within_2"]
    assert list(after) == [*before, *added]
    pd.testing.assert_frame_equal(after[list(before)], before)


def test_tables_and_paths_teach_the_same():
    paths, told = random_paths(60, seed=5), make_policy("iqs")
    forecast = told.learn_forecast(table_of(paths), path="unit", time="day", stop="fixed")
    again = make_policy("iqs").learn_forecast(paths)
    np.testing.assert_allclose(forecast.survival, again.survival, atol=1e-6)
    assert (forecast.paths, forecast.events) == (60, int(paths.stopped.sum()))


def test_saved_policy_forecasts_as_before(tmp_path):
    policy, paths = foresighted()
    policy.save(tmp_path / "p.ckpt")
    again = StoppingPolicy.load(tmp_path / "p.ckpt")
    pd.testing.assert_frame_equal(named(again, paths), named(policy, paths))
    kept = torch.load(tmp_path / "p.ckpt", weights_only=True)["lit_ios"]["forecast"]
    assert kept["confidence"] == 0.9
    assert again.learnt_forecast.horizons == (2.0, 4.5)


def test_forecast_of_other_weights_is_refused(tmp_path):
    policy, _ = foresighted()
    policy.save(tmp_path / "p.ckpt")
    content = read_checkpoint(tmp_path / "p.ckpt")
    content["state_dict"]["rule.scaler.mean"] += 1
    write_checkpoint(content, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match=r"other\.ckpt: its forecast belongs to another rule"):
        StoppingPolicy.load(tmp_path / "other.ckpt")


def test_another_threshold_changes_nothing_but_where_the_first_stop_is():
    policy, paths = foresighted()
    before = named(policy, paths)
    policy.threshold += 0.2
    after = named(policy, paths)
    for name in ("remaining_low", "remaining_median", "stop_within_2"):
        assert after[name].equals(before[name])
    assert after["remaining_low_at_stop"].notna().equals(after["first_stop"])
    assert not after["first_stop"].equals(before["first_stop"])


def test_first_stops_are_bounded_by_the_first_stops_of_calibration_paths():
    policy, _ = foresighted()
    forecast, threshold = policy.learnt_forecast, -0.4
    firsts = {}
    for path, margin, position in zip(
        forecast.record_path, forecast.record_margin, forecast.record_position, strict=True
    ):
        if margin >= threshold:
            firsts.setdefault(int(path), float(position))
    rank = math.floor(0.1 * (len(firsts) + 1) + 1e-9)
    assert forecast.stop_position(threshold) == sorted(firsts.values())[rank - 1]
    assert 19 <= len(firsts) <= 30  # of the half that did not make the bounds


def test_exported_file_forecasts_as_the_policy(tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    policy, paths = foresighted(members=2)
    rule = runtime.load(policy.export(tmp_path / "p.onnx"))
    path = max(paths, key=len)
    one, other, many = policy.stream(), rule.stream(), rule.stream_many()
    for x, time in zip(path.states, path.times, strict=True):
        expected, found = one.step(x, time).remaining, other.step(x, time).remaining
        both = many.step(["p"], [x], [time]).remaining
        for name in ("low", "low_at_stop", "median"):  # margins are in single precision
            close = pytest.approx(getattr(expected, name), rel=1e-2, abs=1e-3, nan_ok=True)
            assert getattr(found, name) == close
            assert getattr(both, name)[0] == close
        assert found.within(2) == pytest.approx(expected.within(2), abs=1e-3)
    kept, again = policy.learnt_forecast.plain(), rule.live.forecast.plain()
    for name, value in kept.items():
        assert np.array_equal(value, again[name]), name


def test_live_paths_go_on_with_their_forecast_after_a_restart_and_a_copy():
    policy, paths = foresighted()
    path = max(paths, key=len)
    whole, restarted = policy.stream(), policy.stream()
    for x, time in zip(path.states, path.times, strict=True):
        restarted = policy.stream(json.loads(json.dumps(restarted.state())))
        restarted = pickle.loads(pickle.dumps(restarted))
        assert restarted.step(x, time) == whole.step(x, time)


@pytest.mark.parametrize("horizon", [-1, 1e6, math.nan])
def test_horizons_of_which_the_paths_say_nothing_are_refused(horizon):
    policy, paths = foresighted()
    for ask in (
        policy.stream().step([0.0, 0.0]).remaining.within,
        lambda h: named(policy, paths, horizons=[h]),
        lambda h: policy.learn_forecast(random_paths(60), horizons=[h]),
    ):
        with pytest.raises(UserError, match="a horizon must lie between 0 and "):
            ask(horizon)
    with pytest.raises(UserError, match="a quantile must lie between 0 and 1, got 50"):
        named(policy, paths, quantiles=[50])


@pytest.mark.parametrize("given", [3, "10", ["ten"], None])
def test_horizons_and_quantiles_must_be_lists_of_numbers(given):
    policy, paths = foresighted()
    with pytest.raises(UserError, match="horizons must be a list of numbers, got"):
        policy.learn_forecast(random_paths(60), horizons=given)
    with pytest.raises(UserError, match="quantiles must be a list of numbers, got"):
        named(policy, paths, quantiles=given)


def test_seed_of_a_forecast_must_be_a_whole_number():
    with pytest.raises(UserError, match="seed must be an integer of at least 0, got -1"):
        make_policy("iqs").learn_forecast(random_paths(60), seed=-1)


def test_paths_that_were_trained_on_are_refused():
    from lit_ios.recognition import fingerprints

    paths = random_paths(60, seed=5)
    trained = make_policy("iqs")
    policy = StoppingPolicy(trained.rule, {"training": fingerprints(paths)})
    with pytest.raises(UserError, match="60 of the 60 calibration paths were trained on"):
        policy.learn_forecast(paths)
    assert policy.learn_forecast(paths, allow_known_paths=True).paths == 60
