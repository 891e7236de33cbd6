"""M8: stops that must come by a lead before the event, against a loop over paths and rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from path_loop import random_paths, stop_step

from lit_ios.batches import last_in_time, path_batch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.metrics import path_metrics
from lit_ios.trajectories import Trajectory, TrajectorySet

pytestmark = pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")


def trajectory_set(paths):
    return TrajectorySet.from_paths(
        Trajectory(np.array(p.margins)[:, None], np.array(p.times), p.stopped) for p in paths
    )


@pytest.mark.parametrize("lead", [0.0, 4.0, 30.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_with_a_lead_are_those_of_a_loop(seed, lead):
    paths = random_paths(seed)
    rows = path_batch(trajectory_set(paths), lead=lead)
    found = path_metrics("", frontier=False)
    found.update(rows.columns[:, 0], rows, -0.5)
    found = found.compute()
    caught, passed, left = [], [], []
    for path in paths:
        policy, end = stop_step(path, -0.5), path.times[-1]
        in_time = [t for t, time in enumerate(path.times) if time <= end - lead]
        if path.stopped:
            caught.append(policy in in_time)
            passed += [t < policy for t in in_time[:-1]]
            left += [end - path.times[policy]] if caught[-1] else []
        else:
            passed += [t < policy for t in range(len(path.times))]
    assert float(found["event_miss_rate"]) == pytest.approx(1 - np.mean(caught))
    accuracy = (np.mean(caught) + np.mean(passed)) / 2
    assert float(found["balanced_accuracy"]) == pytest.approx(accuracy, abs=1e-6)
    if left:
        assert float(found["time_to_event_mean"]) == pytest.approx(np.mean(left), rel=1e-5)
        assert min(left) >= lead - 1e-6
    at_once = np.mean([path.margins[0] >= -0.5 for path in paths])
    assert float(found["stopped_at_first_row"]) == pytest.approx(at_once)


def test_lead_counts_to_the_event_where_that_is_later_than_the_last_row():
    path = Trajectory(np.zeros((3, 1)), np.array([0.0, 10.0, 20.0]))
    paths = TrajectorySet.from_paths([path])
    assert int(last_in_time(path_batch(paths, lead=10.0))[0]) == 1
    later = replace(paths, event_times=np.array([29.0]))
    assert int(last_in_time(path_batch(later, lead=10.0))[0]) == 1
    assert int(last_in_time(path_batch(later, lead=9.0))[0]) == 2
    assert int(last_in_time(path_batch(later, lead=30.0))[0]) == -1


def test_lead_that_is_a_sum_of_rounded_times_is_met():
    times = 0.1 * np.arange(11)  # 0.30000000000000004, …
    paths = TrajectorySet.from_paths([Trajectory(np.zeros((11, 1)), times)])
    assert int(last_in_time(path_batch(paths, lead=0.7))[0]) == 3


@pytest.mark.parametrize("lead", [0.0, 2.0, 100.0])
def test_stops_moved_earlier_end_paths_at_the_last_row_in_time(lead):
    paths = trajectory_set(random_paths(4))
    moved = paths.stopped_earlier(lead)
    last = last_in_time(path_batch(paths, lead=lead)).clamp(min=0).numpy()
    assert (moved.lengths == last + 1).all()
    assert (moved.stopped == paths.stopped).all()
    assert np.array_equal(moved.events, paths.events, equal_nan=True)
    for before, after in zip(paths, moved, strict=True):
        assert np.array_equal(before.states[: len(after)], after.states)


@pytest.mark.parametrize("lead", [-1.0, float("nan")])
def test_impossible_leads_are_refused(lead):
    with pytest.raises(ValueError, match="lead"):
        path_batch(trajectory_set(random_paths(1)), lead=lead)


def test_threshold_of_the_best_balance_minds_the_lead():
    paths = random_paths(5)
    rows = path_batch(trajectory_set(paths), lead=6.0)
    found = float(balanced_margin(rows.columns[:, 0], rows))
    scores = {}
    for threshold in [*torch.unique(rows.columns[:, 0]).tolist(), found]:
        metrics = path_metrics("", frontier=False)
        metrics.update(rows.columns[:, 0], rows, threshold)
        scores[threshold] = float(metrics.compute()["balanced_accuracy"])
    assert scores[found] == pytest.approx(max(scores.values()), abs=1e-6)
