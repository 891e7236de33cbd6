"""Held-out paths against test paths: combined by hand, row by row, and the file of runs."""

import json
import statistics

import numpy as np
import pytest

from benchmarks import gap
from benchmarks.grid import Job
from lit_ios.batches import path_batch
from lit_ios.scale import Place
from lit_ios.trajectories import Trajectory, TrajectorySet

SMALL = ("--data.init_args.paths=40", "--data.init_args.test_paths=10")
BY_HAND = {
    "mean": (statistics.fmean, statistics.fmean),
    "median": (statistics.median, statistics.median),
    "lower_median": (statistics.median_low, statistics.median_low),
    "mixed": (statistics.median_low, lambda margins: sorted(margins)[3]),
}


@pytest.fixture(scope="module")
def trained():
    return gap.train_once(Job("CP1", "iqs_folds", 100, 2, SMALL))


def accuracy_and_misses(margins, paths, threshold):
    """M1 and M3 by definition: a row counts as stopped once a margin reached the threshold."""
    caught, passed = [], []
    for number in range(len(paths.stopped)):
        rows = np.flatnonzero(paths.path.numpy() == number)
        stopped = np.maximum.accumulate(margins[rows]) >= threshold
        end = bool(paths.stopped[number])
        caught += [stopped[-1]] * end
        passed += list(~stopped[: len(rows) - end])
    return (np.mean(caught) + np.mean(passed)) / 2, 1 - np.mean(caught)


@pytest.mark.parametrize("name", gap.COMBINATIONS)
def test_held_out_margin_is_that_of_a_loop_over_rows_and_the_members_that_left_its_path_out(
    trained, name
):
    rule, paths, _ = trained
    margins = gap.member_margins(rule, paths)
    expected = [
        BY_HAND[name][0]([margins[k, row] for k in range(8) if paths.judges[k, path]])
        for row, path in enumerate(paths.path)
    ]
    found = gap.COMBINATIONS[name].held_out(gap.judges_only(margins, paths))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", gap.COMBINATIONS)
def test_test_margin_is_that_of_all_members(trained, name):
    margins = gap.member_margins(trained.rule, trained.test)
    assert len(margins) == 8
    expected = [BY_HAND[name][1](list(column)) for column in margins.T]
    np.testing.assert_allclose(gap.COMBINATIONS[name].together(margins), expected, rtol=1e-12)


def test_margins_are_kept_of_the_members_that_judge_the_path():
    paths = TrajectorySet.from_paths([Trajectory(np.zeros((n, 1))) for n in (2, 1)])
    judges = np.array([[True, False], [False, True], [True, True]])
    margins = np.array([[10.0, 11, 12], [20, 21, 22], [30, 31, 32]])  # of member and row
    kept = gap.judges_only(margins, path_batch(paths, judges=judges))
    assert kept.tolist() == [[10, 11, 22], [30, 31, 32]]


def test_lower_median_chooses_the_threshold_that_training_chose(trained):
    found = gap.compare(trained)["lower_median"]["threshold"]
    assert found == pytest.approx(float(trained.rule.threshold), abs=1e-5)


@pytest.mark.parametrize("name", gap.COMBINATIONS)
def test_accuracies_and_gaps_are_those_of_the_definition(trained, name):
    rule, held_out, test = trained
    found = gap.compare(trained)[name]
    judged = gap.judges_only(gap.member_margins(rule, held_out), held_out)
    known = accuracy_and_misses(
        gap.COMBINATIONS[name].held_out(judged), held_out, found["threshold"]
    )
    everyone = gap.member_margins(rule, test)
    fresh = accuracy_and_misses(gap.COMBINATIONS[name].together(everyone), test, found["threshold"])
    for i, metric in enumerate(("balanced_accuracy", "event_miss_rate")):
        assert found[f"held_out_{metric}"] == pytest.approx(known[i], abs=1e-6)
        assert found[f"test_{metric}"] == pytest.approx(fresh[i], abs=1e-6)
        assert found[f"gap_{metric}"] == pytest.approx(fresh[i] - known[i], abs=1e-6)


def fake(job):
    values = {column: float(job.seed) for column in gap.columns()}
    return job.row | {"combinations": dict.fromkeys(gap.COMBINATIONS, values)}


def test_runs_are_kept_as_they_end_and_finished_ones_are_not_repeated(tmp_path, monkeypatch):
    done = []

    def run(job):
        done.append(job.seed)
        if job.seed == 2 and done.count(2) == 1:
            raise ValueError("no luck")
        return fake(job)

    monkeypatch.setattr(gap, "run", run)
    jobs = [Job("CP1", "iqs_folds", seed, 1) for seed in range(3)]
    file = tmp_path / "results/gap.json"
    assert gap.run_missing(jobs[:1], file, Place()) == 0
    assert gap.run_missing(jobs, file, Place()) == 1
    assert gap.run_missing(jobs, file, Place()) == 0
    assert done == [0, 1, 2, 2]
    assert [row["seed"] for row in json.loads(file.read_text())["runs"]] == [0, 1, 2]


def test_table_has_mean_and_standard_deviation_over_the_runs_asked_for(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(gap, "run", fake)
    file = tmp_path / "gap.json"
    for seeds, epochs in (("4", "7"), ("2", "3")):
        gap.main([
            "--data=CP1", f"--seeds={seeds}", f"--epochs={epochs}", "--first-seed=0",
            "--processes=1", f"--file={file}",
        ])  # fmt: skip
    line = next(x for x in capsys.readouterr().out.splitlines()[::-1] if x.startswith("| mean |"))
    assert line.count("0.5000 ± 0.7071") == 6  # of 0 and 1
    content = json.loads(file.read_text())
    assert len(content["runs"]) == 6
    expected = {"mean": 0.5, "sd": pytest.approx(0.5**0.5)}
    assert content["summary"]["mean"]["gap_balanced_accuracy"] == expected


def test_real_data_are_trained_for_fewer_epochs():
    assert [gap.epochs_of(name, None) for name in ("CP1", "turbofan")] == [60, 40]
    assert gap.epochs_of("turbofan", 2) == 2
