"""The time left, product-limit estimates and Brier scores against plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_ios.batches import path_batch
from lit_ios.functional.remaining import (
    TimeLeft,
    brier_score,
    followed,
    product_limit,
    time_left,
)
from lit_ios.trajectories import Trajectory, TrajectorySet

observed = st.lists(
    st.tuples(st.integers(0, 6), st.booleans(), st.floats(0.01, 3)), min_size=1, max_size=25
)


def loop_product_limit(left, seen, weight, x):
    survival = 1.0
    for y in sorted(set(left)):
        if y <= x:
            at_risk = sum(w for t, w in zip(left, weight, strict=True) if t >= y)
            rows = zip(left, seen, weight, strict=True)
            survival *= 1 - sum(w for t, s, w in rows if t == y and s) / at_risk
    return survival


@given(observed)
def test_product_limit_equals_a_loop(rows):
    left, seen, weight = (list(column) for column in zip(*rows, strict=True))
    times = [-1.0, 0.0, 0.5, 2.0, 6.0, 9.0]
    found = product_limit(
        torch.tensor(left, dtype=torch.double),
        torch.tensor(seen),
        torch.tensor([weight, [1.0] * len(left)], dtype=torch.double),
        torch.tensor(times, dtype=torch.double),
    )
    for row, weights in zip(found, (weight, [1.0] * len(left)), strict=True):
        expected = [loop_product_limit(left, seen, weights, x) for x in times]
        assert row.tolist() == pytest.approx(expected, abs=1e-9)


def test_product_limit_without_censoring_is_the_share_that_lasts_longer():
    left = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0], dtype=torch.double)
    weight, times = torch.ones(5, dtype=torch.double), torch.arange(7, dtype=torch.double)
    found = product_limit(left, torch.ones(5, dtype=bool), weight, times)
    assert found.tolist() == pytest.approx([float((left > x).double().mean()) for x in range(7)])


def test_time_left_ends_with_the_known_event_else_with_the_last_row():
    paths = TrajectorySet(
        states=np.zeros((6, 1)),
        times=np.array([10.0, 12.0, 0.0, 3.0, 5.0, 6.0]),
        offsets=np.array([0, 2, 4, 6]),
        stopped=np.array([True, False, False]),
        names=("stopped", "censored", "known to end later"),
        event_times=np.array([np.nan, np.nan, 9.0]),
    )
    rows = time_left(path_batch(paths))
    assert rows.elapsed.tolist() == [0, 2, 0, 3, 0, 1]
    assert rows.left.tolist() == [2, 0, 3, 0, 4, 3]
    assert rows.seen.tolist() == [True, True, False, False, True, True]


def loop_followed(ends, seen, x):
    share = 1.0
    for c in sorted({end for end, s in zip(ends, seen, strict=True) if not s}):
        if c < x:
            cut = sum(end == c and not s for end, s in zip(ends, seen, strict=True))
            longer = sum(end > c for end in ends)
            share *= 1 - cut / (longer + cut)
    return share


def random_rows(seed=0, paths=40, censored=True):
    rng, made = np.random.default_rng(seed), []
    for i in range(paths):
        length = int(rng.integers(1, 12))
        stopped = not censored or bool(rng.random() < 0.6)
        made.append(Trajectory(np.zeros((length, 1)), np.arange(length) * 0.1, stopped, str(i)))
    return path_batch(TrajectorySet.from_paths(made))


@pytest.mark.parametrize("horizon", [0.0, 0.1, 0.3, 0.5])
def test_brier_score_equals_a_loop(horizon):
    batch = random_rows()
    rows = time_left(batch)
    ends, seen = (rows.elapsed + rows.left)[batch.last_row], rows.seen[batch.last_row]
    within = torch.rand(len(rows.left), generator=torch.Generator().manual_seed(0)).double()
    ends_in_steps = [round(float(end) * 10) for end in ends]  # whole numbers have no rounding
    total, weights, h = 0.0, 0.0, round(horizon * 10)
    for i in range(len(within)):
        t, left = round(float(rows.elapsed[i]) * 10), round(float(rows.left[i]) * 10)
        if loop_followed(ends_in_steps, seen, t + h) < 0.1:
            continue
        came = bool(rows.seen[i]) and left <= h
        if not came and left < h:
            continue
        until = t + left if came else t + h
        weight = loop_followed(ends_in_steps, seen, t) / loop_followed(ends_in_steps, seen, until)
        total += weight * (float(within[i]) - came) ** 2
        weights += weight
    assert float(brier_score(within, rows, horizon, ends, seen)) == pytest.approx(total / weights)


def test_brier_score_without_censoring_is_the_mean_square():
    batch = random_rows(censored=False)
    rows = time_left(batch)
    ends, seen = (rows.elapsed + rows.left)[batch.last_row], rows.seen[batch.last_row]
    within = torch.full((len(rows.left),), 0.3, dtype=torch.double)
    expected = (within - (rows.left <= 0.2 + 1e-9).double()).square().mean()
    assert float(brier_score(within, rows, 0.2, ends, seen)) == pytest.approx(float(expected))


def test_weights_for_censoring_make_up_for_what_is_not_seen():
    rng = np.random.default_rng(3)
    event, cut = rng.exponential(5, 40_000), rng.exponential(8, 40_000)
    seen, end = torch.from_numpy(event <= cut), torch.from_numpy(np.minimum(event, cut))
    rows = TimeLeft(torch.zeros(40_000, dtype=torch.double), end, seen)
    within = torch.full((40_000,), 0.2, dtype=torch.double)
    for horizon in (1.0, 4.0):
        share = 1 - math.exp(-horizon / 5)
        expected = share * 0.8**2 + (1 - share) * 0.2**2
        assert float(brier_score(within, rows, horizon, end, seen)) == pytest.approx(
            expected, abs=0.01
        )


@given(observed)
@settings(max_examples=50)
def test_share_of_paths_that_are_followed_equals_a_loop(rows):
    ends, seen, _ = (list(column) for column in zip(*rows, strict=True))
    times = torch.tensor([0.0, 1.0, 2.5, 6.0, 7.0], dtype=torch.double)
    found = followed(torch.tensor(ends, dtype=torch.double), torch.tensor(seen), times)
    expected = [loop_followed(ends, seen, float(x)) for x in times]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
