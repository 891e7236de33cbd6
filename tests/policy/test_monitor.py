"""Evidence that paths have changed: exact while they have not, found when they have."""

import json
import math
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from policies import make_policy, random_paths

from lit_ios.carry import Usual
from lit_ios.checks import UserError
from lit_ios.live.evidence import ODDS, Jumper, OnlineRanks, RateEvidence, bets
from lit_ios.live.monitor import Monitor
from lit_ios.live.path_scores import PathScores, rounded
from lit_ios.live.watched import promised
from lit_ios.policy import StoppingPolicy


def scores(values, distances=None, stopped=None):
    values = [float(value) for value in values]
    distances = [0.5 + 0.01 * i for i in range(len(values))] if distances is None else distances
    return PathScores(values, list(distances), stopped or [True] * len(values))


def monitor_of(reference, threshold=0.0, promises=None, **settings):
    return Monitor(reference, threshold, promises or {}, "rule", **settings)


# Evidence ----------------------------------------------------------------------------------------


def test_ranks_are_those_of_a_loop_over_all_values_so_far():
    rng = np.random.default_rng(0)
    known, new = rng.integers(0, 6, 20).tolist(), rng.integers(0, 6, 60).tolist()
    ranks, seen = OnlineRanks(known), list(known)
    for value, tie in zip(new, rng.random(60), strict=True):
        seen.append(value)
        larger = sum(other > value for other in seen)
        equal = sum(other == value for other in seen)
        assert ranks.add(value, tie) == pytest.approx((larger + tie * equal) / len(seen), abs=1e-15)


def test_jumper_is_the_sum_of_all_stakes_in_exact_arithmetic():
    rng, jump = np.random.default_rng(1), Fraction(0.001)
    jumper, stakes = Jumper(5), [Fraction(1, 5)] * 5
    for p in np.concatenate([rng.random(60), rng.random(60) / 10]):
        gains = bets(p)
        stakes = [s * Fraction(g) for s, g in zip(stakes, gains.tolist(), strict=True)]
        total = sum(stakes)
        found = jumper.add(gains)
        assert found == pytest.approx(math.log(total.numerator) - math.log(total.denominator))
        stakes = [(1 - jump) * s + jump * total / 5 for s in stakes]


def test_every_bet_is_fair():
    """The mean of each over uniform p-values is 1, by the substitution p = u² and its mirror."""
    u = (np.arange(20_000) + 0.5) / 20_000
    for mirrored in (False, True):
        p = 1 - u**2 if mirrored else u**2
        mean = np.mean([bets(x) * 2 * v for x, v in zip(p, u, strict=True)], axis=0)
        kept = [0, 1, 2, 4] if mirrored else [0, 1, 2, 3]  # the other one's peak is not resolved
        np.testing.assert_allclose(mean[kept], 1, atol=1e-4)


def test_jumper_and_ranks_are_those_of_crepes():
    martingales = pytest.importorskip("crepes.martingales", reason="crepes is not installed")
    values = np.random.default_rng(2).integers(0, 9, 80).astype(float)
    theirs = martingales.semi_online_p_values(values, seed=3)
    np.random.seed(3)  # noqa: NPY002 (as crepes draws them)
    ties = np.random.rand(80)  # noqa: NPY002
    ranks = OnlineRanks([])
    ours = [ranks.add(value, tie) for value, tie in zip(values, ties, strict=True)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    slopes = np.array([-1, 0, 1])
    betting = martingales.EpsilonBettingFunction(E=slopes)
    expected = martingales.SimpleJumper(J=0.02, bf=betting).apply(theirs)
    jumper = Jumper(3, jump=0.02)
    found = [math.exp(jumper.add(1 + slopes * (p - 0.5))) for p in ours]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_evidence_about_a_rate_is_a_mean_of_likelihood_ratios():
    evidence, level = RateEvidence(0.1), Fraction(1, 10)
    ratios = [Fraction(1)] * len(ODDS)
    for happens in [True, False, True, True, False] * 6:
        for i, factor in enumerate(ODDS):
            odds = Fraction(factor) * level / (1 - level)
            rate = odds / (1 + odds)
            ratios[i] *= rate / level if happens else (1 - rate) / (1 - level)
        found = evidence.add(happens)
        assert math.exp(found) == pytest.approx(float(sum(ratios) / len(ratios)))


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_evidence_about_a_rate_cannot_be_expected_to_grow_while_it_is_kept(rate):
    """Over all outcomes of eight cases, weighed by their probabilities."""
    mean = 0.0
    for yes in range(9):
        evidence = RateEvidence(0.1)
        for i in range(8):
            evidence.add(i < yes)
        mean += math.comb(8, yes) * rate**yes * (1 - rate) ** (8 - yes) * math.exp(evidence.log)
    assert mean == pytest.approx(1) if rate == 0.1 else mean < 1


# While nothing changes ---------------------------------------------------------------------------


def test_p_values_with_ties_are_uniform_and_independent_over_draws_of_everything():
    """Over 4,000 draws of 5 first and 3 further values of only three kinds."""
    rng = np.random.default_rng(4)
    found = np.empty((4000, 3))
    for row in found:
        values = rng.integers(0, 3, 8).tolist()
        ranks = OnlineRanks(values[:5])
        row[:] = [ranks.add(value, tie) for value, tie in zip(values[5:], rng.random(3),
                                                              strict=True)]  # fmt: skip
    for column in found.T:  # Kolmogorov's distance, level 0.001
        assert np.abs(np.sort(column) - np.arange(1, 4001) / 4000).max() < 1.95 / math.sqrt(4000)
    cells = np.histogramdd(found > 0.5, bins=[[-0.5, 0.5, 1.5]] * 3)[0].ravel()
    assert ((cells - 500) ** 2 / 500).sum() < 24.3  # χ² of 7 degrees, level 0.001


def test_alarms_of_unchanged_paths_are_as_rare_as_stated():
    rng, alarms = np.random.default_rng(5), 0
    for seed in range(200):
        both = rng.normal(size=(2, 160)).round(1)  # with ties, and the kinds depend on each other
        reference = scores(both[0, :40], np.abs(both.sum(0))[:40])
        watch = monitor_of(reference, alarm_probability=0.2, seed=seed)
        for margin, other in both[:, 40:].T:
            watch.add(margin, True, abs(margin + other))
        alarms += watch.alarm
    assert 1 <= alarms <= 57  # 200 × 0.2 and three standard deviations: 40 + 17


# When something does -----------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-1.5, 1.5])
def test_a_shift_of_margins_in_either_direction_raises_the_alarm_soon_after_it(shift):
    rng = np.random.default_rng(6)
    watch = monitor_of(scores(rng.normal(size=200), rng.random(200)))
    for value in rng.normal(size=100):
        watch.add(value, True, rng.random())
    assert not watch.alarm
    for value in rng.normal(size=100) + shift:
        watch.add(value, True, rng.random())
    assert 100 < watch.alarm_since < 160
    assert watch.verdicts["margin"].since == watch.alarm_since
    assert watch.verdicts["distance"].since is None


def test_strange_paths_raise_the_alarm_by_their_distance():
    rng = np.random.default_rng(7)
    watch = monitor_of(scores(rng.normal(size=100), rng.random(100)))
    for value in rng.normal(size=30):
        watch.add(value, True, 1 + rng.random())
    assert watch.verdicts["distance"].since == watch.alarm_since
    assert watch.verdicts["margin"].since is None
    text = watch.report()
    assert f"ALARM since path {watch.alarm_since}: other distances from the rows of tr" in text
    assert "paths with rows unlike those of training: 100.0%, in calibration 0.0%" in text


def test_promises_are_held_against_stopped_and_censored_paths_of_their_own():
    rng = np.random.default_rng(8)
    promises = {"event_miss_rate": 0.1, "false_alarm_rate": 0.2}
    watch = monitor_of(scores(rng.normal(size=50)), 0.0, promises)
    for i in range(60):
        watch.add(-1.0 if i % 2 else 1.0, stopped=True, distance=0.6)  # half of them missed
        watch.add(-1.0 if i % 6 else 1.0, stopped=False, distance=0.6)  # a sixth is a false alarm
    missed, false = watch.rates["event_miss_rate"], watch.rates["false_alarm_rate"]
    assert (missed.happened, missed.count, false.happened, false.count) == (30, 60, 10, 60)
    assert watch.broken == ["event_miss_rate"]
    text = watch.report()
    assert "missed events: 30 of 60 stopped paths (50.0%), promised at most 0.1: exceeded" in text
    assert "false alarms: 10 of 60 censored paths (16.7%), promised at most 0.2: nothing" in text


# Saved -------------------------------------------------------------------------------------------


def followed(count=25, **settings):
    rng = np.random.default_rng(9)
    reference = scores(rng.normal(size=30).round(1), rng.random(30))
    watch = monitor_of(reference, 0.2, {"event_miss_rate": 0.1}, **settings)
    for i in range(count):
        watch.add(round(rng.normal(), 1), bool(i % 3), rng.random(), f"p{i}")
    return watch


def test_restored_monitor_goes_on_to_the_bit():
    whole, half = followed(25, seed=3), followed(12, seed=3)
    saved = json.loads(json.dumps(half.state(), allow_nan=False))
    again = monitor_of(half.reference, 0.2, {"event_miss_rate": 0.1}, seed=3).restore(saved)
    for i in range(12, 25):
        again.add(whole.paths.margin[i], whole.paths.stopped[i], whole.paths.distance[i], f"p{i}")
    assert again.verdicts == whole.verdicts
    assert again.state() == whole.state()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rule": "x"}, "another rule"),
        ({"reference": "x"}, "another calibration"),
        ({"margin": [1.0]}, "damaged: a value of each kind"),
        ({"margin": ["a"] * 25}, "damaged: margin must be a number"),
        ({"margin": [math.nan] * 25}, "damaged: margin must be a number"),
        ({"distance": [-1.0] * 25}, "damaged: distance must be a number of at least 0"),
        ({"stopped": [1] * 25}, "damaged: stopped must be True or False"),
        ({"names": ["a"] * 25}, "damaged: path 'a' was added before"),
        ({"names": [1] * 25}, "damaged: the name of a path must be text"),
        ({"names": None}, "must be what state\\(\\) returned"),
    ],
)
def test_damaged_states_are_refused(change, why):
    watch = followed()
    with pytest.raises(UserError, match=why):
        monitor_of(watch.reference).restore(watch.state() | change)


def test_rounding_keeps_order_and_forgets_what_engines_differ_by():
    values = np.sort(
        np.concatenate([np.random.default_rng(0).normal(size=500) * 30, [9.99996, 10]])
    )
    found = [rounded(value) for value in values]
    assert found == sorted(found)
    assert rounded(0.12344) == rounded(0.1234 + 1e-6) != rounded(0.1236)
    assert rounded(1234.56) == pytest.approx(1234.6)


@pytest.mark.parametrize(
    ("change", "levels"),
    [
        ({}, {"event_miss_rate": 0.1, "false_alarm_rate": 0.2}),
        ({"lead": 3.0}, {"false_alarm_rate": 0.2}),
        ({"groups": [{"promised": True}]}, {"event_miss_rate": 0.1, "false_alarm_rate": 0.2}),
        ({"groups": [{"promised": True}, {"promised": False}]}, {}),
    ],
)
def test_promises_are_judged_only_where_largest_margins_of_all_paths_can_tell(change, levels):
    made = [("MissRate", 0.3), ("MissRate", 0.1), ("FalseAlarms", 0.2)]
    calibration = {"promises": [{"promise": name, "level": level} for name, level in made]}
    calibration["promises"] += [{"promise": None}, {"promise": "Cost"}]
    assert promised(calibration | change) == levels
    assert promised({}) == {}


# Policies ----------------------------------------------------------------------------------------


@pytest.fixture
def calibrated():
    policy = make_policy("do_iqs_lb")
    policy.rule.familiarity.set(
        Usual(np.eye(3), np.array(0.4), np.full(3, 0.4), np.zeros(3), np.full(3, 0.3))
    )
    policy.calibrate(random_paths(40, seed=3), max_event_miss_rate=0.3)
    return policy


def test_reference_is_what_live_calibration_paths_come_to(calibrated):
    paths = random_paths(40, seed=3)
    for i, path in enumerate(paths):
        stream, margins = calibrated.stream(), []
        for x, t in zip(path.states, path.times, strict=True):
            margins.append(stream.step(x, t).margin)
        assert stream.highest == max(margins)
        assert calibrated.reference["margin"][i] == pytest.approx(max(margins), abs=1e-9)
        assert calibrated.reference["distance"][i] == pytest.approx(stream.furthest, abs=1e-9)
        assert calibrated.reference["stopped"][i] == path.stopped


def test_whole_live_and_single_paths_give_the_same_monitor(calibrated):
    paths = random_paths(20, seed=4)
    whole, live = calibrated.monitor(), calibrated.monitor()
    assert whole.add_paths(paths) == 20
    for path in paths:
        stream = calibrated.stream()
        for x, t in zip(path.states, path.times, strict=True):
            stream.step(x, t)
        live.add_stream(stream, path.stopped, path.name)
    assert whole.verdicts == live.verdicts
    assert whole.rates["event_miss_rate"].level == 0.3
    assert whole.add_paths(paths) == 0  # they are there
    assert "20 paths since calibration on 40" in repr(whole)


def test_path_of_a_table_that_is_there_under_two_names_counts_once(calibrated):
    paths = random_paths(30, seed=4)
    longer = paths.select(paths.lengths > 1)
    renamed = replace(longer, names=tuple(f"again {name}" for name in longer.names))
    watch, once = calibrated.monitor(), calibrated.monitor()
    with pytest.warns(UserWarning, match="are there twice"):
        assert watch.add_paths(longer.followed_by(renamed)) == len(longer)
    once.add_paths(longer)
    assert watch.verdicts == once.verdicts


def test_monitor_survives_saving_the_policy_and_a_threshold_set_by_hand(calibrated, tmp_path):
    calibrated.save(tmp_path / "a.ckpt")
    policy = StoppingPolicy.load(tmp_path / "a.ckpt")
    first = calibrated.monitor(alarm_probability=0.05, seed=2)
    first.add_paths(random_paths(20, seed=4))
    again = policy.monitor(first.state())
    assert again.verdicts == first.verdicts
    assert (again.alarm_probability, again.seed) == (0.05, 2)
    policy.threshold = 0.0
    assert list(policy.monitor().rates) == []  # nothing is promised of it
    assert "promised" not in policy.monitor(first.state()).report()


def test_what_a_monitor_cannot_take_is_refused(calibrated):
    with pytest.raises(UserError, match="40 of these 40 paths were calibrated on"):
        calibrated.monitor().add_paths(random_paths(40, seed=3))
    with pytest.raises(UserError, match="calibrate the policy first"):
        make_policy("iqs").monitor()
    with pytest.raises(UserError, match="no rows yet"):
        calibrated.monitor().add_stream(calibrated.stream(), True)
    with pytest.raises(UserError, match="alarm_probability must be a number above 0"):
        calibrated.monitor(alarm_probability=0)
    with pytest.raises(UserError, match="seed of the saved monitor is 0: it cannot become 1"):
        calibrated.monitor(calibrated.monitor().state(), seed=1)
    state = calibrated.monitor().state()
    calibrated.calibrate(random_paths(40, seed=5))
    with pytest.raises(UserError, match="another calibration"):
        calibrated.monitor(state)


def test_exported_file_watches_as_the_policy_does(calibrated, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    from lit_ios import runtime

    exported = runtime.load(calibrated.export(tmp_path / "policy.onnx"))
    paths, ours, theirs = random_paths(8, seed=4), calibrated.monitor(), exported.monitor()
    ours.add_paths(paths)
    for path in paths:
        stream = exported.stream()
        for x, t in zip(path.states, path.times, strict=True):
            stream.step(x, t)
        theirs.add_stream(stream, path.stopped, path.name)
    assert theirs.verdicts == ours.verdicts
    assert calibrated.monitor(theirs.state()).verdicts == ours.verdicts
    with pytest.raises(UserError, match="judges no tables"):
        theirs.add_paths(paths)


def test_figure_shows_each_kind_of_evidence_and_its_line(calibrated):
    watch = calibrated.monitor()
    watch.add_paths(random_paths(20, seed=4))
    axes = watch.figure().axes[0]
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(drawn["largest margins"]) == watch.verdicts["margin"].log10
    assert {*drawn} >= {"distances from the rows of training", "missed events"}
    lines = [list(line.get_ydata()) for line in axes.lines]
    assert lines.count([math.log10(200)] * 2) == 2
    assert lines.count([2.0, 2.0]) == 1


def test_monitor_needs_no_torch():
    import subprocess

    code = "import sys; from lit_ios.live import Monitor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
