"""Promises that are kept within each group large enough."""

import numpy as np
import pytest
import torch
from scipy import stats
from worlds import single_rows

from lit_ios.checks import UserError
from lit_ios.promises import FalseAlarms, MissRate, Sweep
from lit_ios.promises.binomial import allowed
from lit_ios.promises.choice import choose


def world(seed, sizes, shifts):
    rng = np.random.default_rng(seed)
    highest = np.concatenate([rng.normal(s, 1, n) for n, s in zip(sizes, shifts, strict=True)])
    label = np.repeat(np.arange(len(sizes)), sizes)
    margin, batch = single_rows(highest, [True] * len(highest))
    groups = {f"g{i}": torch.from_numpy(label == i) for i in range(len(sizes))}
    return margin, batch, groups


def test_each_large_group_is_kept_and_the_small_one_is_named():
    margin, batch, groups = world(1, (200, 100, 10), (0.0, -1.0, -3.0))
    found = choose(Sweep(margin, batch), [MissRate(0.05)], groups)
    assert found.too_small == ("g2",)
    assert found.decisive == "g1"
    for name, n in (("g0", 200), ("g1", 100)):
        missed = int((margin[groups[name]] < found.threshold).sum())
        assert missed <= allowed(n, 0.05, None)
    alone = choose(Sweep(margin, batch).among(groups["g0"]), [MissRate(0.05)]).threshold
    assert found.threshold < alone


def test_groups_share_the_error_of_a_confidence():
    margin, batch, groups = world(2, (200, 150), (0.0, 0.0))
    found = choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups)
    most = [allowed(n, 0.1, 0.05) for n in (200, 150)]
    missed = [int((margin[which] < found.threshold).sum()) for which in groups.values()]
    assert all(k <= m for k, m in zip(missed, most, strict=True))
    assert any(k == m for k, m in zip(missed, most, strict=True))  # not lower than it must be


def test_group_that_would_be_large_enough_alone_is_left_out_only_if_it_must_be():
    # 45 paths do at an error of 0.1 but not at 0.05: all three together are too many
    margin, batch, groups = world(3, (100, 100, 24), (0.0, 0.0, 0.0))
    found = choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups)
    assert found.too_small == ("g2",)  # (1 − 0.1)^24 > 0.1/3
    margin, batch, groups = world(3, (100, 100, 40), (0.0, 0.0, 0.0))
    assert choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups).too_small == ()


def test_group_that_is_large_enough_beside_two_but_not_three_is_left_out():
    # 30 paths do for an error of 0.1/2 (29 needed), not for 0.1/3 (33 needed)
    margin, batch, groups = world(3, (100, 30, 100), (0.0, 0.0, 0.0))
    found = choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups)
    assert found.too_small == ("g1",)
    most = allowed(100, 0.1, 0.05)
    missed = [int((margin[groups[name]] < found.threshold).sum()) for name in ("g0", "g2")]
    assert max(missed) == most


def test_largest_groups_are_taken_of_those_that_cannot_all_share_the_error():
    margin, batch, groups = world(4, (30, 31, 32), (0.0, 0.0, 0.0))
    found = choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups)
    assert found.too_small == ("g0",)


@pytest.mark.parametrize("seed", range(3))
def test_which_groups_are_large_enough_depends_on_nothing_but_their_sizes(seed):
    sizes, shifts = (25, 30, 31, 60, 80), np.random.default_rng(seed).normal(0, 3, 5)
    margin, batch, groups = world(seed, sizes, shifts)
    found = choose(Sweep(margin, batch), [MissRate(0.1, 0.9)], groups)
    assert found.too_small == ("g0", "g1", "g2")  # 33 are needed beside two others, 36 beside three


def test_the_promise_that_no_group_is_large_enough_for_is_named():
    margin, batch, groups = world(5, (40, 30), (0.0, 0.0))
    with pytest.raises(UserError, match=r"false alarms .* at least 9 censored .*, not 0, in 'g0'"):
        choose(Sweep(margin, batch), [MissRate(0.2), FalseAlarms(0.1)], groups)


def test_no_group_large_enough_is_refused_with_the_number_needed():
    margin, batch, groups = world(4, (12, 9), (0.0, 0.0))
    with pytest.raises(UserError, match=r"no group is large enough .* at least 19 stopped paths"):
        choose(Sweep(margin, batch), [MissRate(0.05)], groups)


def test_all_groups_keep_the_promise_together_as_often_as_was_said():
    rng, draws, broken = np.random.default_rng(5), 400, 0
    for _ in range(draws):
        highest = np.concatenate([rng.normal(0, 1, 80), rng.normal(-0.5, 1, 60)])
        margin, batch = single_rows(highest, [True] * 140)
        groups = {"a": torch.arange(140) < 80, "b": torch.arange(140) >= 80}
        found = choose(Sweep(margin, batch), [MissRate(0.15, 0.9)], groups).threshold
        broken += stats.norm.cdf(found) > 0.15 or stats.norm.cdf(found + 0.5) > 0.15
    assert broken <= stats.binom(draws, 0.1).ppf(0.999)


def test_low_promises_in_groups_take_the_lowest_threshold_that_keeps_all():
    margin, batch, groups = world(6, (60, 80), (0.0, 1.0))
    batch = batch._replace(stopped=torch.zeros(140, dtype=torch.bool))
    found = choose(Sweep(margin, batch), [FalseAlarms(0.2)], groups)
    assert found.decisive == "g1"
    alarms = int((margin[groups["g1"]] >= found.threshold).sum())
    assert alarms == allowed(80, 0.2, None)
