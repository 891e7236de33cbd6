"""E8 and E9: the stop rule, the stopping time, and the region the soft value would give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import NEVER, margin, soft_value, stopping_time, stops


@pytest.fixture
def q(generator: torch.Generator) -> Tensor:
    return torch.randn(40, 2, generator=generator, dtype=torch.float64)


def loop_stopping_time(stop: Tensor, step: Tensor, path: Tensor, paths: int) -> list[int]:
    times = []
    for wanted in range(paths):
        time = NEVER
        for i in range(len(stop)):
            if path[i] == wanted and stop[i] and step[i] < time:
                time = int(step[i])
        times.append(time)
    return times


def test_margin_equals_a_loop(q: Tensor) -> None:
    loop = [stop - go for stop, go in q.tolist()]
    torch.testing.assert_close(margin(q), torch.tensor(loop, dtype=torch.float64))


def test_margin_of_indifference_is_zero() -> None:
    assert margin(torch.full((1, 2), 3.7)).item() == 0


def test_margin_keeps_leading_dimensions(q: Tensor) -> None:
    assert torch.equal(margin(q.reshape(4, 10, 2)), margin(q).reshape(4, 10))


def test_margin_passes_gradcheck(q: Tensor) -> None:
    assert gradcheck(margin, q.requires_grad_())


@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.5])
def test_stops_equals_a_loop(q: Tensor, threshold: float) -> None:
    loop = [stop - go >= threshold for stop, go in q.tolist()]
    assert stops(margin(q), threshold).tolist() == loop


def test_stops_at_margin_zero_by_default() -> None:
    assert stops(torch.tensor([-1e-6, 0.0, 1e-6])).tolist() == [False, True, True]


def test_stops_at_the_threshold_itself() -> None:
    assert stops(torch.tensor([0.25]), torch.tensor(0.25)).item()


@pytest.mark.parametrize(
    ("threshold", "everywhere"), [(-float("inf"), True), (float("inf"), False)]
)
def test_stops_everywhere_or_nowhere_at_infinite_thresholds(
    q: Tensor, threshold: float, everywhere: bool
) -> None:
    assert stops(margin(q), threshold).eq(everywhere).all()


@pytest.mark.parametrize("share", [0.02, 0.2, 0.9])
def test_stopping_time_equals_a_loop_on_uneven_paths(
    generator: torch.Generator, share: float
) -> None:
    lengths = [1, 7, 30, 2, 1, 50]
    path = torch.repeat_interleave(torch.arange(6), torch.tensor(lengths))
    step = torch.cat([torch.arange(n) for n in lengths])
    stop = torch.rand(len(path), generator=generator) < share
    expected = loop_stopping_time(stop, step, path, 6)
    assert stopping_time(stop, step, path, 6).tolist() == expected


def test_stopping_time_does_not_depend_on_the_order_of_the_rows(
    generator: torch.Generator,
) -> None:
    path = torch.repeat_interleave(torch.arange(5), 8)
    step = torch.arange(8).repeat(5)
    stop = torch.rand(40, generator=generator) < 0.3
    order = torch.randperm(40, generator=generator)
    shuffled = stopping_time(stop[order], step[order], path[order], 5)
    assert shuffled.tolist() == stopping_time(stop, step, path, 5).tolist()


def test_stopping_time_of_several_crossings_is_the_first() -> None:
    stop = torch.tensor([False, True, False, True, True])
    assert stopping_time(stop, torch.arange(5), torch.zeros(5, dtype=torch.int64), 1).item() == 1


def test_stopping_time_without_a_crossing_is_never() -> None:
    stop = torch.zeros(5, dtype=torch.bool)
    time = stopping_time(stop, torch.arange(5), torch.zeros(5, dtype=torch.int64), 1)
    assert time.item() == NEVER


def test_stopping_time_of_a_crossing_at_once_is_zero() -> None:
    stop = torch.ones(5, dtype=torch.bool)
    time = stopping_time(stop, torch.arange(5), torch.zeros(5, dtype=torch.int64), 1)
    assert time.item() == 0


def test_stopping_time_of_a_path_without_rows_is_never() -> None:
    time = stopping_time(torch.tensor([True]), torch.tensor([0]), torch.tensor([1]), 3)
    assert time.tolist() == [NEVER, 0, NEVER]


def test_never_is_later_than_every_step() -> None:
    assert torch.iinfo(torch.int64).max <= NEVER


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 1.0, 100.0])
def test_region_where_stopping_reaches_the_soft_value_is_empty(
    generator: torch.Generator, epsilon: float
) -> None:
    # |m| ≤ 30 ε, so V − max Q = ε log(1 + e^{−|m|/ε}) ≥ 9e-14 ε, above float64 rounding of Q
    q = 30 * epsilon * (torch.rand(100_000, 2, generator=generator, dtype=torch.float64) - 0.5)
    assert not (q[:, 0] >= soft_value(q, epsilon)).any()


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 1.0, 100.0])
def test_soft_value_exceeds_a_winning_stop_by_epsilon_log_one_plus_the_odds(
    generator: torch.Generator, epsilon: float
) -> None:
    q = 10 * epsilon * (torch.rand(1000, 2, generator=generator, dtype=torch.float64) - 0.5)
    excess = soft_value(q, epsilon) - q[:, 0]
    expected = epsilon * (-(q[:, 0] - q[:, 1]) / epsilon).exp().log1p()
    torch.testing.assert_close(excess, expected, rtol=1e-8, atol=0)


def test_region_where_the_margin_is_not_negative_is_not_empty(generator: torch.Generator) -> None:
    q = torch.rand(1000, 2, generator=generator, dtype=torch.float64)
    assert stops(margin(q)).any()
