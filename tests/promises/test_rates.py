"""Promised rates: exact bounds, kept on fresh paths in the mean or as often as was said."""

import re

import numpy as np
import pytest
import torch
from scipy import stats
from worlds import counts, drawn, single_rows

from lit_ios.checks import UserError
from lit_ios.promises import AlarmsPerTime, FalseAlarms, MissRate, Sweep
from lit_ios.promises.binomial import allowed, interval, needed
from lit_ios.promises.choice import choose


@pytest.mark.parametrize(("level", "error", "paths"), [(0.05, 0.05, 59), (0.01, 0.05, 299)])
def test_confidence_needs_the_number_of_paths_of_the_formula(level, error, paths):
    assert needed(level, error) == paths
    assert (1 - level) ** paths <= error < (1 - level) ** (paths - 1)
    assert allowed(paths, level, error) == 0
    assert allowed(paths - 1, level, error) == -1


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("n", [10, 59, 300, 2000])
def test_allowed_misses_are_the_most_by_the_binomial_law(n, level):
    k = allowed(n, level, 0.1)
    law = stats.binom(n, level)
    assert k < 0 or law.cdf(k) <= 0.1
    assert law.cdf(k + 1) > 0.1
    mean = allowed(n, level, None)
    assert mean == max((k for k in range(n) if (k + 1) / (n + 1) <= level + 1e-12), default=-1)


@pytest.mark.parametrize(("k", "n"), [(0, 20), (3, 20), (20, 20), (50, 1000)])
def test_interval_is_the_exact_one(k, n):
    low, high = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert interval(k, n) == pytest.approx((low, high))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("promise", [MissRate(0.1), MissRate(0.2, 0.9), FalseAlarms(0.3)])
@pytest.mark.parametrize("seed", range(3))
def test_threshold_is_the_last_that_the_count_allows(promise, seed, ties):
    margin, batch = drawn(seed, count=90, ties=ties)
    sweep = Sweep(margin, batch)
    misses = isinstance(promise, MissRate)
    n = sweep.events if misses else sweep.censored
    error = None if promise.confidence is None else 1 - promise.confidence
    most = allowed(n, promise.level, error)
    found = choose(sweep, [promise]).threshold
    of = 0 if misses else 1
    assert counts(margin, batch, found)[of] <= most
    values = sorted(set(margin.tolist()))
    beyond = [b for b in values if (b > found + 1e-5 if misses else b < found - 1e-5)]
    nearest = min(beyond) if misses else max(beyond)
    assert counts(margin, batch, nearest)[of] > most


def test_promises_together_are_kept_by_the_highest_threshold_that_keeps_each():
    margin, batch = drawn(5, count=300)
    sweep = Sweep(margin, batch)
    both = choose(sweep, [MissRate(0.6), FalseAlarms(0.7)]).threshold
    assert both == pytest.approx(choose(sweep, [MissRate(0.6)]).threshold)
    missed, alarms = counts(margin, batch, both)
    assert missed + 1 <= 0.6 * 201
    assert alarms + 1 <= 0.7 * 101


def test_confidences_share_their_error():
    margin, batch = drawn(5, count=300, ties=False)
    sweep = Sweep(margin, batch)
    found = choose(sweep, [MissRate(0.6, 0.9), FalseAlarms(0.9, 0.9)]).threshold
    missed, alarms = counts(margin, batch, found)
    assert missed <= allowed(200, 0.6, 0.05)  # half of 0.1 each
    assert alarms <= allowed(100, 0.9, 0.05)
    alone = choose(sweep, [MissRate(0.6, 0.9)]).threshold
    assert counts(margin, batch, alone)[0] == allowed(200, 0.6, 0.1) > missed


def test_contradicting_promises_say_what_each_costs_and_whether_more_paths_help():
    margin, batch = drawn(5, count=300)
    with pytest.raises(UserError, match="no threshold keeps all promises") as refused:
        choose(Sweep(margin, batch), [MissRate(0.05), FalseAlarms(0.05)])
    words = str(refused.value)
    assert "misses" in words
    assert "of 100 censored paths" in words
    assert "More paths like these would not help" in words


def test_promises_that_more_paths_would_keep_say_how_many():
    # half a hundredth of the events is missed at 0, and a tenth of the censored paths alarmed
    highest = [-1.0, *[1.0] * 199, *[1.0] * 10, *[-1.0] * 90]
    margin, batch = single_rows(highest, [True] * 200 + [False] * 100)
    promises = [MissRate(0.05, 0.95), FalseAlarms(0.2, 0.95)]
    sweep = Sweep(margin, batch)
    choose(sweep, promises)  # enough as they are
    few = sweep.among(torch.arange(300) % 4 == 0)
    with pytest.raises(UserError, match=r"at least 72 stopped paths are needed, not 50"):
        choose(few, promises)
    tight = [MissRate(0.05, 0.95), FalseAlarms(0.14, 0.95)]
    with pytest.raises(UserError, match=r"About [\d.]+ times as many paths") as refused:
        choose(sweep, tight)
    times = float(str(refused.value).split("About ")[1].split(" ")[0])
    choose(sweep.repeated(times * 1.1), tight)
    stopped, censored = re.findall(r"(\d+) stopped and (\d+) censored", str(refused.value))[0]
    assert int(stopped) == pytest.approx(200 * times, rel=0.05)
    assert int(censored) == pytest.approx(100 * times, rel=0.05)


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("kind", [MissRate, FalseAlarms])
@pytest.mark.parametrize("ties", [False, True])
def test_rates_on_fresh_paths_keep_the_promise_and_are_not_needlessly_low(kind, confidence, ties):
    # the law of the largest margin is known, and so is the rate on fresh paths
    rng, n, level, draws = np.random.default_rng(7), 120, 0.1, 600
    rates = []
    for _ in range(draws):
        highest = rng.normal(size=n)
        values = np.round(highest, 1) if ties else highest
        margin, batch = single_rows(values, [kind is MissRate] * n)
        found = choose(Sweep(margin, batch), [kind(level, confidence)]).threshold
        edge = np.ceil(found * 10) / 10 - 0.05 if ties else found  # what rounds to it
        missed = stats.norm.cdf(edge)
        rates.append(missed if kind is MissRate else 1 - missed)
    if confidence is None:
        error = np.std(rates) / np.sqrt(draws)
        assert np.mean(rates) <= level + 2 * error
        assert ties or np.mean(rates) >= level - 1 / (n + 1) - 2 * error
        return
    broken = int(np.sum(np.array(rates) > level))
    assert broken <= stats.binom(draws, 1 - confidence).ppf(0.999)
    k = allowed(n, level, 1 - confidence)
    exact = stats.binom(n, level).cdf(k)  # with which a continuous law breaks it
    assert ties or broken >= stats.binom(draws, exact).ppf(0.001)


def test_too_few_paths_say_how_many_are_needed():
    margin, batch = drawn(1, count=60)
    sweep = Sweep(margin, batch)
    with pytest.raises(UserError, match="at least 59 stopped paths are needed, not 40"):
        choose(sweep, [MissRate(0.05, 0.95)])
    with pytest.raises(UserError, match="at least 99 censored paths are needed, not 20"):
        choose(sweep, [FalseAlarms(0.01)])
    with pytest.raises(UserError, match="units of time must be observed"):
        choose(sweep, [AlarmsPerTime(1e-6)])


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_alarms_per_time_keep_the_promise(confidence):
    # a path of length T alarms iff its largest margin reaches b; both laws are known
    rng, n, rate, draws = np.random.default_rng(3), 150, 0.04, 300
    broken, rates = 0, []
    for _ in range(draws):
        lengths = rng.uniform(0.5, 4.0, n)
        highest = rng.normal(size=n)
        margin, batch = two_rows(highest, lengths)
        found = choose(Sweep(margin, batch), [AlarmsPerTime(rate, confidence=confidence)]).threshold
        true = (1 - stats.norm.cdf(found)) / 2.25  # mean length
        rates.append(true)
        broken += true > rate
    if confidence is None:
        assert np.mean(rates) <= rate + 2 * np.std(rates) / np.sqrt(draws)
        assert np.mean(rates) >= rate - 2 / (n * 2.25) - 2 * np.std(rates) / np.sqrt(draws)
    else:
        assert broken <= stats.binom(draws, 1 - confidence).ppf(0.999)
        assert np.mean(rates) > rate / 4  # it is not idle


def two_rows(highest, lengths):
    """Return censored paths that begin at −10 and end with their largest margin."""
    from worlds import make_paths

    margins = [[-10.0, value] for value in highest]
    return make_paths(margins, [False] * len(margins), [[0.0, end] for end in lengths])


def test_alarms_within_the_window_do_not_count():
    from worlds import make_paths

    margins, times = [[0.0, 1.0, 5.0], [0.0, 0.0, 5.0]] * 30, [[0.0, 8.0, 10.0]] * 60
    margin, batch = make_paths(margins, [True] * 60, times)
    sweep = Sweep(margin, batch)
    strict = AlarmsPerTime(0.01).price(sweep, None)
    lenient = AlarmsPerTime(0.01, window=3.0).price(sweep, None)
    at = sweep.threshold.tolist().index(1.0)  # stops half of them at time 8
    assert strict[at] == torch.inf
    assert lenient[at] == 0


@pytest.mark.parametrize("confidence", [0, 1, 1.0, 1.5, -0.1, float("nan")])
def test_confidences_that_are_no_probabilities_are_refused(confidence):
    with pytest.raises(UserError, match="confidence must be a number above 0 and below 1, got"):
        MissRate(0.05, confidence)


def test_promise_that_no_threshold_keeps_says_what_is_possible():
    from worlds import make_paths

    margin, batch = make_paths([[0.0, 1.0]] * 30 + [[0.0]] * 10, [True] * 40, lead=1.0)
    with pytest.raises(
        UserError,
        match="not even to stop every path at its first row keeps it, which misses 10 of 40 events",
    ):
        choose(Sweep(margin, batch), [MissRate(0.2)])


@pytest.mark.parametrize("kind", [MissRate, FalseAlarms])
@pytest.mark.parametrize(("n", "level"), [(30, 0.1), (120, 0.05), (200, 0.3)])
def test_risk_of_a_promise_in_the_mean_is_that_of_the_order_statistic(kind, n, level):
    margin, batch = single_rows(np.random.default_rng(1).normal(size=n), [kind is MissRate] * n)
    # the rate on fresh paths is the (k + 1)-th smallest of n uniform numbers: Beta(k + 1, n − k)
    k = max(k for k in range(n) if (k + 1) / (n + 1) <= level + 1e-12)
    exact = stats.beta(k + 1, n - k).sf(level)
    assert kind(level).risk(Sweep(margin, batch)) == pytest.approx(exact)
    assert kind(level, 0.9).risk(Sweep(margin, batch)) is None


@pytest.mark.parametrize(("n", "confidence"), [(20, None), (35, 0.95), (58, 0.95)])
def test_too_few_paths_are_told_the_least_level_they_can_promise(n, confidence):
    margin, batch = single_rows(np.random.default_rng(1).normal(size=n), [True] * n)
    with pytest.raises(UserError, match=r"which can promise ([\d.]+) at best") as refused:
        choose(Sweep(margin, batch), [MissRate(0.01, confidence)])
    best = float(str(refused.value).split("promise ")[-1].split(" ")[0])
    choose(Sweep(margin, batch), [MissRate(best, confidence)])
    with pytest.raises(UserError, match="stopped paths are needed"):
        choose(Sweep(margin, batch), [MissRate(best - 0.002, confidence)])
