"""The trade-off for every threshold, and what paths drawn anew would change in it."""

import numpy as np
import pytest
import torch
from policies import make_policy, random_paths

from lit_ios.batches import path_batch
from lit_ios.functional.frontier import frontier_bands, records
from lit_ios.plotting import frontiers


def naive_times(margins, paths, drawn, levels):
    """For each level the mean time left at the highest threshold that misses no more of `drawn`."""
    points = []
    for threshold in sorted(set(margins), reverse=True):
        left = []
        for i in drawn:
            rows = slice(paths.offsets[i], paths.offsets[i + 1])
            reached = np.flatnonzero(margins[rows] >= threshold)
            if len(reached):
                left.append(paths.times[rows][-1] - paths.times[rows][reached[0]])
        points.append((1 - len(left) / len(drawn), np.mean(left) if left else np.nan))
    return [
        next((time for rate, time in points if rate <= level + 1e-9), np.nan) for level in levels
    ]


@pytest.mark.parametrize("seed", range(4))
def test_curve_is_that_of_a_loop_over_thresholds(seed):
    policy, paths = make_policy("do_iqs", seed=seed), random_paths(15, seed)
    curve = policy.frontier(paths, draws=5)
    expected = naive_times(
        policy.margins(paths), paths, np.flatnonzero(paths.stopped), curve.event_miss_rate
    )
    assert np.allclose(curve.time_to_event, expected)
    assert (np.diff(curve.event_miss_rate) < 0).all()
    assert curve.event_miss_rate[-1] == pytest.approx(0.0)


def test_band_is_that_of_paths_repeated_as_often_as_they_were_drawn():
    policy, paths = make_policy("iqs", seed=3), random_paths(12, 3)
    margins, batch = policy.margins(paths), path_batch(paths)
    found = records(torch.from_numpy(margins), batch)
    levels = torch.tensor([0.75, 0.5, 0.25, 0.0], dtype=torch.double)
    low, high = frontier_bands(found, batch.stopped, levels, draws=40, seed=7, coverage=0.8)
    stopped = np.flatnonzero(paths.stopped)
    generator = torch.Generator().manual_seed(7)
    times = []
    for _ in range(40):
        drawn = stopped[torch.randint(len(stopped), (len(stopped),), generator=generator).numpy()]
        times.append(naive_times(margins, paths, drawn, levels.tolist()))
    assert np.allclose(low, np.nanquantile(times, 0.1, axis=0))
    assert np.allclose(high, np.nanquantile(times, 0.9, axis=0))


def test_band_is_known_at_every_rate_there_can_be():
    policy, paths = make_policy("iqs", seed=3), random_paths(12, 3)
    curve = policy.frontier(paths, draws=40, seed=7)
    events = paths.stopped.sum()
    assert np.allclose(curve.band_rate, np.arange(events) / events)
    batch = path_batch(paths)
    found = records(torch.from_numpy(policy.margins(paths)), batch)
    for i, rate in enumerate(curve.band_rate):
        level = torch.tensor([rate])
        low, high = frontier_bands(found, batch.stopped, level, draws=40, seed=7)
        assert np.allclose([curve.low[i], curve.high[i]], [low[0], high[0]], equal_nan=True)


def test_chosen_point_is_the_policys_own():
    policy, paths = make_policy("iqs", threshold=0.0), random_paths(20, 5)
    margins = policy.margins(paths)
    left, events = [], 0
    for i in np.flatnonzero(paths.stopped):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        reached = np.flatnonzero(margins[rows] >= 0)
        events += 1
        if len(reached):
            left.append(paths.times[rows][-1] - paths.times[rows][reached[0]])
    chosen = policy.frontier(paths, draws=2).chosen
    assert chosen.event_miss_rate == pytest.approx(1 - len(left) / events)
    assert chosen.time_to_event == pytest.approx(np.mean(left), rel=1e-5)


@pytest.mark.parametrize("lead", [0.0, 2.5])
def test_false_alarms_of_every_threshold_are_those_of_a_loop(lead):
    policy, paths = make_policy("iqs", seed=2), random_paths(20, 2)
    margins = policy.margins(paths)
    curve = policy.frontier(paths, draws=2, lead=lead)
    for threshold, missed, alarms in zip(
        curve.threshold, curve.event_miss_rate, curve.false_alarm_rate, strict=True
    ):
        stopped, caught = [], []
        for i in range(len(paths)):
            rows = slice(paths.offsets[i], paths.offsets[i + 1])
            reached = np.flatnonzero(margins[rows] >= threshold)
            if paths.stopped[i]:
                times = paths.times[rows]
                caught.append(len(reached) and times[reached[0]] <= times[-1] - lead)
            else:
                stopped.append(len(reached) > 0)
        assert alarms == pytest.approx(np.mean(stopped))
        assert missed == pytest.approx(1 - np.mean(caught))
    alone = policy.frontier(paths.select(paths.stopped), draws=2)
    assert np.isnan(alone.false_alarm_rate).all()


def test_several_curves_make_one_figure(tmp_path):
    paths = random_paths(20)
    curves = {v: make_policy(v).frontier(paths, draws=20) for v in ("iqs", "do_iqs", "classifier")}
    curves["never"] = make_policy("iqs", threshold=np.inf).frontier(paths, draws=2)
    frontiers(curves, "hours").savefig(tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
