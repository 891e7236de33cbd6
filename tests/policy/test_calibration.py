"""Thresholds chosen on paths: exactly, by what was asked for, and never on training paths."""

from dataclasses import replace

import numpy as np
import pytest
from policies import make_policy, random_paths
from scipy.stats import binom, binomtest, chi2, sem, t

from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.promises import Balanced, Cost, FalseAlarms, MissRate
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
    assert found.event_miss_rate.value == pytest.approx(missed(margins, paths, max(allowed)) / n)
    assert (found.level("MissRate"), found.paths, found.events) == (level, 40, n)
    assert policy.threshold == found.threshold


@pytest.mark.parametrize(("level", "needed"), [(0.01, 99), (0.05, 19), (0.1, 9), (0.3, 3)])
def test_too_few_paths_for_a_level_are_refused_with_the_number_needed(level, needed):
    policy = make_policy("iqs")
    paths = random_paths(400)
    stopped = paths.select(paths.stopped)
    policy.calibrate(stopped.select(range(needed)), max_event_miss_rate=level)
    with pytest.raises(UserError, match=f"at least {needed} stopped paths are needed, not "):
        policy.calibrate(stopped.select(range(needed - 1)), max_event_miss_rate=level)


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
    margins = policy.margins(paths)
    found = [
        policy.calibrate(paths, miss_cost=cost, time_cost=1.0).threshold
        for cost in (1e-3, 3.0, 1e6)
    ]
    assert found == sorted(found, reverse=True)
    assert missed(margins, paths, found[-1]) == 0


def test_without_a_wish_the_balanced_accuracy_is_the_highest():
    policy, paths = make_policy("do_iqs"), random_paths(25)
    found = policy.calibrate(paths)
    assert found.words == ("highest balanced accuracy",)
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
        ({"max_event_miss_rate": 0.1, "choose": max}, "not by both"),
        ({"confidence": 0.9}, "confidence goes with"),
        ({"alarm_cost": 1.0}, "alarm_cost goes with"),
        ({"max_event_miss_rate": 0.1, "confidence": 1.0}, "confidence"),
        ({"max_false_alarm_rate": 0.0}, "max_false_alarm_rate"),
        ({"max_event_miss_rate": 0.0}, "max_event_miss_rate"),
        ({"max_event_miss_rate": 1.5}, "max_event_miss_rate"),
        ({"miss_cost": -1.0, "time_cost": 1.0}, "miss must be a number above 0"),
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
    assert found.false_alarm_rate.value == pytest.approx(np.mean(stopped))
    at_once = [own[0] >= found.threshold for own in first]
    assert found.stopped_at_first_row.value == pytest.approx(np.mean(at_once))


def test_calibration_without_censored_paths_knows_no_false_alarms():
    policy, paths = make_policy("iqs", seed=1), random_paths(40, 1)
    found = policy.calibrate(paths.select(paths.stopped))
    assert (found.censored, found.false_alarm_rate) == (0, None)


def test_promises_with_confidence_are_exact_and_recorded(tmp_path):
    policy, paths = make_policy("iqs", seed=1), random_paths(400, 1)
    margins, n = policy.margins(paths), int(paths.stopped.sum())
    found = policy.calibrate(paths, MissRate(0.05, confidence=0.95), Balanced())
    most = max(k for k in range(n) if binom(n, 0.05).cdf(k) <= 0.05)
    assert missed(margins, paths, found.threshold) <= most
    assert found.words == (
        "event-miss rate at most 0.05, with 0.95 confidence", "highest balanced accuracy"
    )  # fmt: skip
    policy.save(tmp_path / "a.ckpt")
    again = StoppingPolicy.load(tmp_path / "a.ckpt").calibration
    assert again == found
    assert again.promises[0] | {"words": ""} == {
        "promise": "MissRate", "level": 0.05, "confidence": 0.95, "words": "",
    }  # fmt: skip
    policy.threshold = 0.0
    assert policy.calibration is None


def test_keywords_are_short_for_promises():
    policy, paths = make_policy("iqs", seed=1), random_paths(400, 1)
    short = policy.calibrate(
        paths, max_event_miss_rate=0.5, max_false_alarm_rate=0.9, confidence=0.9
    )
    assert short == policy.calibrate(paths, MissRate(0.5, 0.9), FalseAlarms(0.9, 0.9))
    costs = policy.calibrate(paths, miss_cost=3.0, time_cost=1.0, alarm_cost=2.0)
    assert costs == policy.calibrate(paths, Cost(3.0, 1.0, 2.0))


def test_intervals_are_those_of_the_formulas():
    policy, paths = make_policy("iqs", seed=1), random_paths(60, 1)
    found, margins = policy.calibrate(paths), policy.margins(paths)
    k, n = missed(margins, paths, found.threshold), int(paths.stopped.sum())
    exact = binomtest(k, n).proportion_ci(0.95, "exact")
    assert found.event_miss_rate == pytest.approx((k / n, exact.low, exact.high))
    left = []
    for i in np.flatnonzero(paths.stopped):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        reached = np.flatnonzero(margins[rows] >= found.threshold)
        left += [paths.times[rows][-1] - paths.times[rows][reached[0]]] if len(reached) else []
    low, high = t(len(left) - 1, np.mean(left), sem(left)).interval(0.95)
    assert found.time_to_event == pytest.approx((np.mean(left), low, high), rel=1e-5)


def test_lead_moves_the_threshold_down_until_enough_stops_are_early():
    policy, paths = make_policy("iqs", seed=1), random_paths(300, 1)
    long = paths.select(paths.events - paths.times[paths.offsets[:-1]] > 4)
    found = policy.calibrate(long, MissRate(0.3), lead=2.0)
    margins, late = policy.margins(long), 0
    for i in range(len(long)):
        rows = slice(long.offsets[i], long.offsets[i + 1])
        early = long.times[rows] <= long.times[rows][-1] - 2.0
        late += not (margins[rows][early] >= found.threshold).any()
    assert found.lead == 2.0
    assert late + 1 <= 0.3 * (len(long) + 1)
    assert found.event_miss_rate.value == pytest.approx(late / len(long))
    assert found.threshold < policy.calibrate(long, MissRate(0.3)).threshold


def test_column_of_groups_is_read_from_the_table():
    policy, paths = make_policy("iqs", seed=1), random_paths(200, 1)
    table = {
        "unit": [paths.names[i] for i in paths.path_of_row],
        "t": paths.times,
        "a": paths.states[:, 0],
        "b": paths.states[:, 1],
        "stop": (paths.actions == 0).astype(int),
        "site": ["north" if i % 2 else "south" for i in paths.path_of_row],
    }
    columns = {"path": "unit", "time": "t", "stop": "stop"}
    found = policy.calibrate(table, MissRate(0.1), per="site", **columns)
    labels = ["north" if i % 2 else "south" for i in range(len(paths))]
    assert found == policy.calibrate(paths, MissRate(0.1), per=labels)
    margins = policy.margins(paths)
    for group in found.groups:
        own = paths.select([i for i, label in enumerate(labels) if label == group.name])
        assert group.events == own.stopped.sum()
        assert group.missed == missed(policy.margins(own), own, found.threshold)
        assert group.missed + 1 <= 0.1 * (group.events + 1)
        assert group.promised
    assert [group.decisive for group in found.groups].count(True) == 1
    assert missed(margins, paths, found.threshold) == sum(g.missed for g in found.groups)
    with pytest.raises(UserError, match=r"no column 'sit' .*did you mean 'site'"):
        policy.calibrate(table, MissRate(0.1), per="sit", **columns)
    table["site"][1] = "west"
    with pytest.raises(UserError, match="belongs to several groups of 'site'"):
        policy.calibrate(table, MissRate(0.1), per="site", **columns)
    with pytest.raises(UserError, match="group of each of the 200 paths, got 2"):
        policy.calibrate(paths, MissRate(0.1), per=["a", "b"])
    with pytest.raises(UserError, match="names a column of a table"):
        policy.calibrate(paths, MissRate(0.1), per="site")


def test_path_under_two_names_counts_once():
    policy, paths = make_policy("iqs", seed=1), random_paths(60, 1)
    longer = paths.select(paths.lengths > 1)
    renamed = replace(longer, names=tuple(f"again {name}" for name in longer.names))
    with pytest.warns(UserWarning, match=r"are there twice, e.g. 'again p\d+' has the rows of 'p"):
        found = policy.calibrate(longer.followed_by(renamed), MissRate(0.2))
    assert found == policy.calibrate(longer, MissRate(0.2))
    both = policy.calibrate(longer.followed_by(renamed), MissRate(0.2), allow_known_paths=True)
    assert both.paths == 2 * found.paths


def test_what_is_no_promise_is_refused():
    policy, paths = make_policy("iqs"), random_paths(60)
    with pytest.raises(UserError, match="promises are objects such as MissRate"):
        policy.calibrate(paths, "unit", "time")
    with pytest.raises(UserError, match="only one goal can be served, got Cost and Balanced"):
        policy.calibrate(paths, Cost(1, 1), Balanced())


def test_groups_without_a_promise_to_keep_in_them_are_refused():
    policy, paths = make_policy("iqs"), random_paths(20)
    for goal in ({}, {"miss_cost": 1.0, "time_cost": 1.0}, {"choose": lambda margin, batch: 0.1}):
        with pytest.raises(UserError, match="per keeps promises within groups"):
            policy.calibrate(paths, per=["a"] * 20, **goal)


def test_misspelt_arguments_are_refused_for_paths_too():
    with pytest.raises(UserError, match="there is no argument max_event_mis_rate"):
        make_policy("iqs").calibrate(random_paths(40), max_event_mis_rate=0.1)


@pytest.mark.parametrize("given", [None, float("nan"), [1.0, 2.0], "x"])
def test_functions_that_return_no_threshold_are_refused(given):
    with pytest.raises(UserError, match="choose: <lambda> must return one number"):
        make_policy("iqs").calibrate(random_paths(20), choose=lambda margin, batch: given)


def test_what_is_promised_is_plain_json_also_without_events_or_stops(tmp_path):
    import json

    policy, paths = make_policy("iqs"), random_paths(60)
    censored = policy.calibrate(paths.select(~paths.stopped), FalseAlarms(0.2))
    never = policy.calibrate(paths, Cost(miss=1e-9, time=5.0))
    assert (policy.threshold, never.threshold) == (np.inf, np.inf)
    for found in (censored, never):
        again = type(found).from_plain(json.loads(json.dumps(found.plain(), allow_nan=False)))
        assert str(again) == str(found)  # NaN is not equal to itself
    assert np.isnan(censored.balanced_accuracy)
    policy.export(tmp_path / "never.pt2")
    policy.save(tmp_path / "never.ckpt")
    assert StoppingPolicy.load(tmp_path / "never.ckpt").calibration.threshold == np.inf


def test_calibrating_judges_each_path_once(monkeypatch):
    policy, judged = make_policy("iqs"), []
    scan = type(policy.rule).scan
    monkeypatch.setattr(
        type(policy.rule),
        "scan",
        lambda rule, batch, **how: judged.extend(batch.number.tolist()) or scan(rule, batch, **how),
    )
    policy.calibrate(random_paths(20), MissRate(0.2))
    assert sorted(judged) == list(range(20))


def test_alarms_per_time_are_counted_path_by_path_with_the_interval_of_chi_square():
    policy, paths = make_policy("iqs", seed=2), random_paths(60, 2)
    found = policy.calibrate(paths, MissRate(0.4))
    margins, count, time = policy.margins(paths), 0, 0.0
    for i in range(len(paths)):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        times, stops = paths.times[rows], np.flatnonzero(margins[rows] >= found.threshold)
        time += times[-1] - times[0]
        count += bool(len(stops)) and bool(not paths.stopped[i] or stops[0] < len(times) - 1)
    low, high = chi2(2 * count).ppf(0.025) / 2, chi2(2 * count + 2).ppf(0.975) / 2
    expected = count / time, low / time, high / time
    assert tuple(found.alarms_per_time) == pytest.approx(expected)


def test_risk_is_kept_with_promises_in_the_mean_and_not_with_groups_or_a_confidence(tmp_path):
    policy, paths = make_policy("iqs", seed=2), random_paths(200, 2)
    policy.calibrate(paths, MissRate(0.2), FalseAlarms(0.9, 0.9))
    policy.save(tmp_path / "policy.ckpt")
    mean, sure = StoppingPolicy.load(tmp_path / "policy.ckpt").calibration.promises
    n = int(paths.stopped.sum())
    assert mean["risk"] == pytest.approx(binom(n, 0.2).cdf(np.floor(0.2 * (n + 1)) - 1))
    assert "risk" not in sure
    (grouped,) = policy.calibrate(paths, MissRate(0.2), per=["a", "b"] * 100).promises
    assert "risk" not in grouped


def test_groups_that_are_neither_a_column_nor_a_list_are_refused():
    with pytest.raises(UserError, match="per must name a column or the group of each path, got 5"):
        make_policy("iqs").calibrate(random_paths(40), MissRate(0.4), per=5)
