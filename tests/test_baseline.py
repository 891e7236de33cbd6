"""The baseline that a run is compared with: same paths, same folds, a paired interval."""

import json

import numpy as np
import pytest
import torch

from datamodules import ChangePointData, FatigueData
from lit_ios import baseline
from lit_ios.baseline import Comparison, boosted, compare, difference, path_counts
from lit_ios.batches import path_batch
from lit_ios.metrics import path_metrics
from lit_ios.trajectories import Trajectory, TrajectorySet


class FixedRule:
    """Judges rows by their first column."""

    threshold = torch.tensor(2.5)

    def scan(self, batch):
        return type("Decided", (), {"margin": batch.columns[:, 0]})


def small(**options):
    return ChangePointData(problem="CP1", paths=60, test_paths=30, **options)


def accuracy(margin, paths, threshold):
    metrics = path_metrics("")
    metrics.update(margin, path_batch(paths), threshold)
    return float(metrics.compute()["balanced_accuracy"])


def test_baseline_beats_the_clock_on_test_paths_and_difference_is_to_the_rule():
    data = small(seed=1)
    found = compare(data, FixedRule())
    assert found.balanced_accuracy > 0.8
    test = data.splits.test
    ours = accuracy(torch.from_numpy(test.states[:, 0]), test, 2.5)
    assert found.balanced_accuracy + found.difference == pytest.approx(ours, abs=1e-6)
    assert found.low <= found.difference <= found.high


def test_path_counts_add_up_to_the_balanced_accuracy(paths):
    margin = torch.from_numpy(paths.states[:, 0])
    for threshold in (-1.0, 0.0, 0.7):
        caught, events, passed, rows = path_counts(margin, path_batch(paths), threshold).sum(axis=0)
        expected = accuracy(margin, paths, threshold)
        assert (caught / events + passed / rows) / 2 == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("folds", [None, 3])
def test_models_leave_out_the_folds_of_the_run_and_see_no_test_path(monkeypatch, folds):
    data = small(seed=2, folds=folds)
    given = []

    def fitted(paths, seed):
        given.append(set(paths.names))
        return lambda asked: asked.states[:, 0].astype(float)

    monkeypatch.setattr(baseline, "boosted", fitted)
    compare(data, FixedRule())
    train, val, _ = data.splits
    known = train if folds else train.followed_by(val)
    assert len(given) == (folds or 4)
    if folds:
        for names, out in zip(given, data.held_out(folds), strict=True):
            assert names == {known.names[i] for i in np.flatnonzero(~out)}
    assert set.union(*given) == set(known.names)
    assert not set.intersection(*given)


def test_states_are_features_and_time_without_lags(monkeypatch):
    given = []

    def fitted(paths, seed):
        given.append(paths.feature_names)
        return lambda asked: asked.states[:, 0].astype(float)

    monkeypatch.setattr(baseline, "boosted", fitted)
    compare(small(lags=3), FixedRule())
    assert set(given) == {("x", "time")}


def test_nothing_is_compared_where_no_test_path_was_stopped():
    data = small()
    train, val, test = data.splits
    never = TrajectorySet.from_paths(
        Trajectory(path.states, path.times, stopped=False, name=path.name) for path in test
    )
    data.__dict__["splits"] = type(data.splits)(train, val, never)
    assert compare(data, FixedRule()) is None


def test_difference_of_equal_counts_is_nothing_at_all():
    counts = np.array([[1, 1, 5, 7], [0, 1, 3, 3], [0, 0, 2, 4]], dtype=float)
    assert difference(counts, counts)[1:4] == (0, 0, 0)


def test_interval_of_the_difference_is_that_of_drawing_paths_again():
    """Rules that differ in stopped paths caught: the difference is half a mean of n draws."""
    rng, n = np.random.default_rng(0), 400
    gained = rng.random(n) < 0.3
    theirs = np.column_stack([np.zeros(n), np.ones(n), np.ones(n), np.ones(n)])
    ours = theirs.copy()
    ours[:, 0] = gained
    found = difference(ours, theirs)
    spread = 0.5 * gained.std() / np.sqrt(n)
    assert found.difference == pytest.approx(0.5 * gained.mean())
    assert found.low == pytest.approx(found.difference - 1.96 * spread, abs=0.15 * spread)
    assert found.high == pytest.approx(found.difference + 1.96 * spread, abs=0.15 * spread)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.912, 0.034, 0.01, 0.06), "this rule is +0.034 [+0.010, +0.060] ahead"),
        ((0.912, 0.01, -0.02, 0.04), "this rule +0.010 [-0.020, +0.040]: no clear difference"),
        ((0.912, -0.05, -0.08, -0.02), "this rule is -0.050 [-0.080, -0.020] behind"),
    ],
)
def test_sentence_says_who_is_ahead_or_that_nobody_is(values, words):
    said = Comparison(*values).sentence
    assert said.startswith("gradient boosting on the same paths: balanced accuracy 0.912; ")
    assert words in said


def test_many_rows_are_drawn_at_random_and_all_stops_stay(monkeypatch):
    monkeypatch.setattr(baseline, "MOST_ROWS", 300)
    given = []
    from sklearn.ensemble import HistGradientBoostingClassifier as Model

    fit = Model.fit
    monkeypatch.setattr(Model, "fit", lambda self, x, y: given.append((x, y)) or fit(self, x, y))
    paths = FatigueData(paths=80, test_paths=5).splits.train
    boosted(paths, 0)
    ((states, stop),) = given
    assert len(states) == 300
    assert stop.sum() == paths.stopped.sum()
    stops = paths.states[paths.last_rows[paths.stopped]]
    np.testing.assert_array_equal(states[stop], stops)


def test_last_rows_of_censored_paths_are_not_trained_on(paths):
    left_out = set(range(len(paths.states))) - set(baseline.transitions(paths))
    assert left_out == set(paths.last_rows[~paths.stopped])


@pytest.mark.parametrize("model", ["iqs", "auto"])
def test_fit_ends_with_the_baseline_and_writes_it_down(run_train, tmp_path, capsys, model):
    words = ["--trainer.max_epochs=2", "--baseline=true"]
    if model == "auto":
        words += ["--model=auto", "--quick", "--data=CP1"]
        run_train("fit", *words, data="", model="")
    else:
        run_train("fit", *words, model=model)
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-1].startswith("gradient boosting on the same paths: balanced accuracy 0.")
    (written,) = (tmp_path / "runs").glob(f"CP1/{model}/version_0/metrics.json")
    found = json.loads(written.read_text())
    assert f"{found['test/baseline_balanced_accuracy']:.3f}" in lines[-1]
    assert found["test/baseline_difference_low"] <= found["test/baseline_difference"]
    assert "test/balanced_accuracy" in found


def test_baseline_can_be_left_out(run_train, capsys):
    run_train("fit", "--trainer.max_epochs=1")
    assert "gradient boosting" not in capsys.readouterr().out
