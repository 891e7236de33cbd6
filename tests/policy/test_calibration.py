"""Thresholds chosen on paths: exactly, by what was asked for, and never on training paths."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from policies import make_policy, random_paths

from lit_ios.batches import path_batch
from lit_ios.checks import UserError
from lit_ios.functional.frontier import cheapest_margin, conformal_margin, events_needed
from lit_ios.trajectories import TrajectorySet


def missed(margins, paths, threshold):
    """Count stopped paths whose margins stay below the threshold, path by path."""
    count = 0
    for i in range(len(paths)):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        count += bool(paths.stopped[i]) and not (margins[rows] >= threshold).any()
    return count


@pytest.mark.parametrize("level", [0.05, 0.1, 0.25, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_guaranteed_rate_takes_the_highest_threshold_that_is_allowed(level, seed):
    policy, paths = make_policy("do_iqs", seed=seed), random_paths(40, seed)
    margins = policy.margins(paths)
    n = int(paths.stopped.sum())
    allowed = [
        b for b in margins if (missed(margins, paths, b) + 1) / (n + 1) <= level + 1e-12
    ]  # every row's margin is a candidate
    found = policy.calibrate(paths, max_event_miss_rate=level)
    assert found.threshold == pytest.approx(max(allowed), abs=2e-6)
    assert found.threshold < max(allowed)  # single precision misses no more
    assert found.event_miss_rate == pytest.approx(missed(margins, paths, max(allowed)) / n)
    assert (found.rule, found.level, found.paths, found.events) == (
        "event_miss_rate", level, 40, n
    )  # fmt: skip
    assert policy.threshold == found.threshold


@pytest.mark.parametrize(("level", "needed"), [(0.01, 99), (0.05, 19), (0.1, 9), (0.3, 3)])
def test_too_few_paths_for_a_level_are_refused_with_the_number_needed(level, needed):
    assert events_needed(level) == needed
    conformal_margin(torch.arange(needed, dtype=torch.double), level)
    with pytest.raises(UserError, match=f"at least {needed} calibration paths .* there are"):
        conformal_margin(torch.arange(needed - 1, dtype=torch.double), level)


@pytest.mark.parametrize("level", [0.02, 0.1])
@pytest.mark.parametrize("events", [60, 250])
def test_mean_miss_rate_on_fresh_paths_is_below_the_level_and_not_needlessly_low(level, events):
    # the share of fresh paths that b misses is known: the law of the largest margin is normal
    normal = torch.distributions.Normal(0.0, 1.0)
    torch.manual_seed(3)
    rates = []
    for _ in range(500):
        highest = torch.randn(events, dtype=torch.double)
        rates.append(float(normal.cdf(conformal_margin(highest, level))))
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= level + 2 * error
    # of n paths one more can be missed than is allowed: the mean lies within 1/(n + 1) below
    assert np.mean(rates) >= level - 1 / (events + 1) - 2 * error


@pytest.mark.parametrize("seed", range(8))
def test_cheapest_threshold_costs_no_more_than_any_other(seed):
    policy, paths = make_policy("iqs", seed=seed), random_paths(12, seed)
    margins = policy.margins(paths)

    def cost(threshold):
        total = 0.0
        for i in range(len(paths)):
            rows = slice(paths.offsets[i], paths.offsets[i + 1])
            first = np.flatnonzero(margins[rows] >= threshold)
            if len(first):
                total += 0.7 * (paths.times[rows][-1] - paths.times[rows][first[0]])
            elif paths.stopped[i]:
                total += 3.0
        return total

    found = policy.calibrate(paths, miss_cost=3.0, time_cost=0.7).threshold
    costs = [cost(b) for b in [*margins, np.inf]]
    assert cost(found) == pytest.approx(min(costs))


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
@pytest.mark.parametrize("cost", [0.5, 2.0, 10.0])
def test_live_paths_decide_as_whole_ones_at_the_threshold_chosen(variant, cost):
    policy, paths = make_policy(variant), random_paths(15)
    wishes = [{"miss_cost": cost, "time_cost": 1.0}, {"max_event_miss_rate": 0.3}, {}]
    thresholds = [policy.calibrate(paths, **goal).threshold for goal in wishes]
    for threshold in [*thresholds, *policy.frontier(paths, draws=1).threshold]:
        policy.threshold = float(threshold)
        whole = policy.margins(paths) >= policy.threshold
        live = []
        for path in paths:
            stream = policy.stream()
            live += [stream.step(x, t).stop for x, t in zip(path.states, path.times, strict=True)]
        assert (whole == live).all()


def test_dear_misses_lower_the_threshold_and_dear_time_raises_it():
    policy, paths = make_policy("iqs"), random_paths(20)
    batch = path_batch(paths)
    margin = torch.from_numpy(policy.margins(paths))
    found = [float(cheapest_margin(margin, batch, cost, 1.0)) for cost in (1e-3, 3.0, 1e6)]
    assert found == sorted(found, reverse=True)
    assert missed(margin.numpy(), paths, found[-1]) == 0


def test_without_a_wish_the_balanced_accuracy_is_the_highest():
    policy, paths = make_policy("do_iqs"), random_paths(25)
    found = policy.calibrate(paths)
    assert found.rule == "balanced_accuracy"
    scores = []
    for threshold in policy.margins(paths):
        policy.threshold = float(threshold)
        scores.append(balanced_accuracy(policy, paths))
    assert found.balanced_accuracy == pytest.approx(max(scores), abs=1e-6)


def balanced_accuracy(policy, paths):
    margins, caught, passed, rows = policy.margins(paths), 0, 0, 0
    for i in range(len(paths)):
        values = margins[paths.offsets[i] : paths.offsets[i + 1]]
        reached = np.flatnonzero(values >= policy.threshold)
        first = reached[0] if len(reached) else len(values)
        caught += bool(paths.stopped[i]) and first < len(values)
        continues = len(values) - bool(paths.stopped[i])
        passed, rows = passed + min(first, continues), rows + continues
    return (caught / paths.stopped.sum() + passed / rows) / 2


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"miss_cost": 1.0}, "needed together"),
        ({"max_event_miss_rate": 0.1, "miss_cost": 1.0, "time_cost": 1.0}, "not by two"),
        ({"max_event_miss_rate": 0.0}, "max_event_miss_rate"),
        ({"max_event_miss_rate": 1.5}, "max_event_miss_rate"),
        ({"miss_cost": -1.0, "time_cost": 1.0}, "miss_cost"),
    ],
)
def test_goals_that_cannot_be_are_refused(goal, message):
    policy = make_policy("iqs")
    with pytest.raises(UserError, match=message):
        policy.calibrate(random_paths(), **goal)
    assert policy.threshold == pytest.approx(0.05)


def test_paths_of_one_row_say_nothing_of_continuing():
    paths = random_paths(60)
    single = paths.select((paths.lengths == 1) & paths.stopped)
    with pytest.raises(UserError, match="every calibration path has a single row"):
        make_policy("iqs").calibrate(single)


def test_events_known_of_censored_paths_do_not_count(recwarn):
    policy, paths = make_policy("iqs"), random_paths(20)
    later = replace(paths, event_times=np.where(paths.stopped, np.nan, 1e6))
    assert policy.calibrate(later) == policy.calibrate(paths)
    assert policy.frontier(later, draws=1).chosen == policy.frontier(paths, draws=1).chosen


def test_paths_without_a_stop_or_with_other_features_are_refused():
    paths = random_paths()
    with pytest.raises(UserError, match="no calibration path was stopped"):
        make_policy("iqs").calibrate(paths.select(~paths.stopped))
    other = TrajectorySet(
        paths.states, paths.times, paths.offsets, paths.stopped, paths.names, ("a", "c")
    )
    with pytest.raises(UserError, match="the columns a, b are needed, in this order; got a, c"):
        make_policy("iqs").calibrate(other)


def test_calibration_says_how_often_censored_paths_are_stopped():
    policy, paths = make_policy("iqs", seed=1), random_paths(40, 1)
    margins = policy.margins(paths)
    found = policy.calibrate(paths)
    first = [margins[paths.offsets[i] : paths.offsets[i + 1]] for i in range(len(paths))]
    censored = [own for own, stopped in zip(first, paths.stopped, strict=True) if not stopped]
    assert found.censored == len(censored) > 0
    stopped = [bool((own >= found.threshold).any()) for own in censored]
    assert found.false_alarm_rate == pytest.approx(np.mean(stopped))
    at_once = [own[0] >= found.threshold for own in first]
    assert found.stopped_at_first_row == pytest.approx(np.mean(at_once))


def test_calibration_without_censored_paths_knows_no_false_alarms():
    policy, paths = make_policy("iqs", seed=1), random_paths(40, 1)
    found = policy.calibrate(paths.select(paths.stopped))
    assert (found.censored, found.false_alarm_rate) == (0, None)
