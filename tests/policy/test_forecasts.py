"""How long is left: the estimates against loops and closed forms, the promise on a known law."""

import math

import numpy as np
import pytest
import torch

from lit_ios.batches import path_batch
from lit_ios.checks import UserError
from lit_ios.functional.remaining import time_left
from lit_ios.live.forecast import first_times, promised
from lit_ios.policy.forecasts import Grid, learn, paths_needed, survival_on_grid
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)
ROWS = 12  # at most, one unit of time apart


def simulate(count, rng, censoring=math.inf, informed=True):
    """Return paths with an exponential life, of which the margin says something, and margins.

    Events fall between rows; margins go up and down, so that first stops come at any row.
    """
    made, events, margins = [], [], []
    mean = 3 + 6 * rng.random(count) if informed else np.full(count, 5.0)
    lives, cuts = rng.exponential(mean), rng.exponential(censoring, count)
    cuts = np.floor(np.minimum(cuts, ROWS))  # observation ends with a row
    for life, cut, scale in zip(lives, cuts, mean, strict=True):
        rows = int(min(life, cut)) + 1
        made.append(Trajectory(np.zeros((rows, 1)), stopped=bool(life <= cut)))
        events.append(life if life <= cut else np.nan)
        margins.append(rng.normal(size=rows) - scale / 4)
    paths = TrajectorySet.from_paths(made)
    paths = TrajectorySet(
        paths.states, paths.times, paths.offsets, paths.stopped, paths.names,
        event_times=np.array(events),
    )  # fmt: skip
    return path_batch(paths), torch.from_numpy(np.concatenate(margins))


def first_rows(batch, wanted):
    """Return the first row of each path that is wanted, as a mask."""
    rows = wanted.nonzero()[:, 0]
    _, first = np.unique(batch.path[rows], return_index=True)
    found = np.zeros(len(wanted), dtype=bool)
    found[rows[first]] = True
    return found


def test_law_on_the_grid_equals_a_loop_over_rows():
    batch, margin = simulate(30, np.random.default_rng(0), censoring=8.0)
    rows, times = time_left(batch), torch.tensor([0.0, 1.0, 2.5, 6.0], dtype=torch.double)
    grid = Grid(
        torch.tensor([-3.0, -1.0, 0.0], dtype=torch.double),
        torch.tensor([0.0, 4.0], dtype=torch.double),
    )
    found = survival_on_grid(margin, rows, times, grid, 30)
    width_u, width_t = 0.053 * 30 ** (-1 / 6), 0.176 * 30 ** (-1 / 6)
    u = np.interp(margin, [-3, -1, 0], [0, 0.5, 1])
    t = np.interp(rows.elapsed, [0, 4], [0, 1])
    for i, place_u in enumerate([0, 0.5, 1]):
        for j, place_t in enumerate([0, 1]):
            weight = np.exp(-(((u - place_u) / width_u) ** 2 + ((t - place_t) / width_t) ** 2) / 2)
            weight += 0.1 / len(u)
            for k, x in enumerate(times.tolist()):
                survival = 1.0
                for y in sorted(set(rows.left.tolist())):
                    if y <= x:
                        here = (rows.left == y).numpy() & rows.seen.numpy()
                        at_risk = weight[(rows.left >= y).numpy()].sum()
                        survival *= 1 - weight[here].sum() / at_risk
                assert float(found[i, j, k]) == pytest.approx(survival, abs=1e-9)


@pytest.mark.parametrize("censoring", [math.inf, 6.0])
def test_exponential_lives_have_the_closed_form_whatever_the_margin(censoring):
    batch, margin = simulate(4000, np.random.default_rng(1), censoring, informed=False)
    forecast = learn(margin, batch, "rule")
    margins = np.quantile(margin, [0.2, 0.5, 0.8])
    rows = [(m, t) for m in margins for t in (0.0, 1.0, 3.0)]
    asked = (np.array(column) for column in zip(*rows, strict=True))
    left = forecast(*asked, np.zeros(9, bool), np.zeros(9))
    for horizon in (0.5, 2.0, 4.0):  # no memory: the same at any elapsed time
        assert left.within(horizon) == pytest.approx(1 - math.exp(-horizon / 5), abs=0.15)
        assert left.within(horizon).mean() == pytest.approx(1 - math.exp(-horizon / 5), abs=0.03)
    assert left.median.mean() == pytest.approx(5 * math.log(2), abs=0.4)


def test_paths_that_were_cut_off_do_not_shorten_the_law():
    """Taking their ends for stops would put the median at 5·6/11·log 2."""
    batch, margin = simulate(2000, np.random.default_rng(2), 6.0, informed=False)
    forecast = learn(margin, batch, "rule")
    left = forecast(np.full(1, float(margin.median())), np.zeros(1), np.zeros(1, bool), np.zeros(1))
    assert left.median[0] > 2.6 > 5 * 6 / 11 * math.log(2)


@pytest.mark.parametrize("censoring", [math.inf, 12.0])
def test_bounds_hold_as_often_as_promised_and_are_not_needlessly_low(censoring):
    rng, missed = np.random.default_rng([4, 0 if censoring == math.inf else 1]), []
    fresh, margin = simulate(1000, np.random.default_rng(5), censoring)
    rows, threshold, size = time_left(fresh), -1.0, 60
    at = {
        "first row": (fresh.step == 0).numpy(),
        "time 3": (fresh.step == 3).numpy(),
        "first stop": first_rows(fresh, margin >= threshold),
    }
    truth = rows.left.numpy()
    for _ in range(500):
        calibration, margins = simulate(size, rng, censoring)
        forecast = learn(margins, calibration, "rule", 0.8, seed=int(rng.integers(1 << 30)))
        left = forecast(
            margin.numpy(), rows.elapsed.numpy(), at["first stop"], np.full(len(margin), threshold)
        )
        low = [left.low, left.low, left.low_at_stop]
        missed.append([
            (bound[chosen] > truth[chosen]).mean()
            for bound, chosen in zip(low, at.values(), strict=True)
        ])  # fmt: skip
    mean = np.mean(missed, axis=0)
    error = np.std(missed, axis=0) / math.sqrt(len(missed)) + 0.2 / math.sqrt(len(truth))
    assert (mean <= 0.2 + 3 * error).all(), mean
    # of n paths, at most 1/(n + 1) is lost: n is 30 at the first row, some 15 at the others
    assert mean[0] >= 0.2 - 1 / 31 - 3 * error[0], mean
    assert (mean[1:] >= 0.2 - 1 / 12 - 3 * error[1:]).all(), mean


def test_a_bound_is_one_for_the_true_time_left_where_paths_were_cut_off():
    """Observation ends no later than the event, so the share that falls short is smaller yet."""
    rng, missed = np.random.default_rng(6), []
    for _ in range(100):
        batch, margins = simulate(60, rng, 6.0, informed=False)
        forecast = learn(margins, batch, "rule", 0.8, seed=int(rng.integers(1 << 30)))
        low = forecast(np.full(1, -1.2), np.zeros(1), np.zeros(1, bool), np.zeros(1)).low[0]
        missed.append(1 - math.exp(-low / 5))  # of exponential lives
    assert np.mean(missed) < 0.2


def test_promised_position_is_the_smallest_of_as_many_as_are_needed():
    assert promised(np.array([5.0, 3.0, 9.0] * 3), 0.9) == 3.0  # ⌊0.1 · 10⌋ = 1
    assert promised(np.arange(1.0, 9.0), 0.9) == 0.0  # eight are too few
    assert promised(np.arange(1.0, 20.0), 0.9) == 2.0  # ⌊0.1 · 20⌋
    assert [paths_needed(level) for level in (0.8, 0.9, 0.95, 0.99)] == [10, 18, 38, 198]


def test_quantiles_are_the_first_times_at_which_the_law_reaches_them():
    within = np.array([[0.2, 0.2, 0.6, 0.6], [0.0, 0.1, 0.4, 1.0]])
    times = np.array([0.0, 1.0, 3.0, 4.0])
    assert first_times(within, times, 0.1).tolist() == [0.0, 1.0]
    assert first_times(within, times, 0.5) == pytest.approx([2.5, 3 + 1 / 6])
    assert first_times(within, times, 0.9)[0] == math.inf


def test_grid_is_as_large_for_many_paths_as_for_few():
    for count in (20, 300, 1500):
        batch, margin = simulate(count, np.random.default_rng(7))
        forecast = learn(margin, batch, "rule")
        assert forecast.survival.size <= 25 * 13 * 64
        assert forecast.bounds.size <= 25 * 13 * 48
        assert len(forecast.starts) <= 256
        assert len(forecast.one(0.0, 2.0, False, 0.0).corners) == 4  # all that a row looks at


def test_too_few_paths_are_refused_with_how_many_are_needed():
    batch, margin = simulate(17, np.random.default_rng(8))
    with pytest.raises(UserError, match=r"confidence 0\.9 needs at least 18 .* there are 17"):
        learn(margin, batch, "rule")
    learn(margin, batch, "rule", confidence=0.8)
    with pytest.raises(UserError, match="confidence must be a number of at least"):
        learn(margin, batch, "rule", confidence=0.3)


def test_paths_none_of_which_was_stopped_are_refused():
    batch, margin = simulate(40, np.random.default_rng(9))
    unknown = batch._replace(event_time=None, stopped=torch.zeros(40, dtype=torch.bool))
    with pytest.raises(UserError, match="no calibration path was stopped"):
        learn(margin, unknown, "rule")


def test_equal_margins_leave_the_law_of_the_clock():
    batch, margin = simulate(200, np.random.default_rng(10), informed=False)
    forecast = learn(torch.zeros_like(margin), batch, "rule")
    asked = np.zeros(1), np.zeros(1), np.zeros(1, bool), np.zeros(1)
    assert forecast(*asked).within(2.0)[0] == pytest.approx(1 - math.exp(-2 / 5), abs=0.1)


def test_rows_that_are_regularly_spaced_have_an_interval_each():
    batch, margin = simulate(200, np.random.default_rng(11))
    batch = batch._replace(time=batch.time * 0.1, event_time=batch.event_time * 0.1)
    starts = learn(margin, batch, "rule").starts
    which = np.searchsorted(starts, np.arange(ROWS + 1) * 0.1, side="right") - 1
    assert which[: len(starts)].tolist() == list(range(len(starts)))


def test_very_long_paths_have_wider_intervals():
    lengths = np.random.default_rng(12).integers(500, 3000, 20)
    paths = TrajectorySet.from_paths(Trajectory(np.zeros((n, 1))) for n in lengths)
    forecast = learn(torch.arange(len(paths.states)) % 7.0, path_batch(paths), "rule")
    assert 200 < len(forecast.starts) <= 256


def test_between_knots_the_law_and_the_bounds_are_linear():
    from scipy.interpolate import RegularGridInterpolator

    batch, margin = simulate(80, np.random.default_rng(13), 9.0)
    forecast = learn(margin, batch, "rule")
    rng = np.random.default_rng(14)
    m = rng.uniform(forecast.margins[0], forecast.margins[-1], 50)
    t = rng.uniform(0, forecast.elapsed[-1], 50)
    left = forecast(m, t, np.zeros(50, bool), np.zeros(50))
    knots = (forecast.margins, forecast.elapsed)
    law = RegularGridInterpolator((*knots, forecast.times), forecast.survival)
    for horizon in (0.0, 0.7, 3.1, float(forecast.times[-1])):
        expected = 1 - law(np.stack([m, t, np.full(50, horizon)], 1))
        np.testing.assert_allclose(left.within(horizon), expected, atol=1e-9)
    bold = RegularGridInterpolator((*knots, np.arange(48.0)), forecast.bounds)
    interval = [sum(start <= x for start in forecast.starts) - 1 for x in t]
    expected = bold(np.stack([m, t, forecast.positions[interval]], 1))
    np.testing.assert_allclose(left.low, expected, atol=1e-6)
    outside = forecast(np.array([1e9, -1e9]), np.array([1e9, 0.0]), np.zeros(2, bool), np.zeros(2))
    corners = [forecast.survival[-1, -1, 0], forecast.survival[0, 0, 0]]
    assert outside.within(0.0) == pytest.approx(1 - np.array(corners))
