"""E6: the cumulative gain, over whole paths and streaming."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import cumulative_gain, next_cumulative_gain

GAMMAS = [0.5, 0.99, 1.0]


class Paths(NamedTuple):
    """Gains of whole paths, one below the other, as `cumulative_gain` takes them."""

    gain: Tensor
    step: Tensor
    first_row: Tensor


def stacked(gains: list[Tensor]) -> Paths:
    """Put paths one below the other."""
    lengths = torch.tensor([len(gain) for gain in gains])
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    gain = torch.cat(gains)
    return Paths(gain, (torch.arange(len(gain)) - first).to(gain.dtype), first)


@pytest.fixture
def gains(generator: torch.Generator) -> list[Tensor]:
    lengths = [1, 5, 1, 1, 12, 3, 1]
    return [torch.randn(n, generator=generator, dtype=torch.float64) for n in lengths]


def resummed(gain: list[float], gamma: float) -> list[float]:
    """Add up the whole history again at every row, as E6 is written."""
    return [sum(gamma**k * gain[k] for k in range(t + 1)) for t in range(len(gain))]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_cumulative_gain_equals_the_history_summed_again(gains: list[Tensor], gamma: float) -> None:
    loop = [y for gain in gains for y in resummed(gain.tolist(), gamma)]
    y = cumulative_gain(*stacked(gains), gamma)
    torch.testing.assert_close(y, torch.tensor(loop, dtype=torch.float64), rtol=1e-11, atol=1e-13)


def test_cumulative_gain_without_discount_is_the_running_sum(gains: list[Tensor]) -> None:
    expected = torch.cat([gain.cumsum(0) for gain in gains])
    torch.testing.assert_close(cumulative_gain(*stacked(gains), 1.0), expected)


def test_cumulative_gain_under_full_discount_is_the_first_gain(gains: list[Tensor]) -> None:
    expected = torch.cat([gain[:1].expand(len(gain)) for gain in gains])
    torch.testing.assert_close(cumulative_gain(*stacked(gains), 0.0), expected)


def test_cumulative_gain_of_a_single_row_is_its_gain() -> None:
    paths = stacked([torch.tensor([-2.5])])
    assert cumulative_gain(*paths, 0.9).tolist() == [-2.5]


@pytest.mark.parametrize("order", [[6, 5, 4, 3, 2, 1, 0], [4, 0, 6, 2, 5, 1, 3]])
def test_cumulative_gain_does_not_depend_on_the_order_of_the_paths(
    gains: list[Tensor], order: list[int]
) -> None:
    lengths = [len(gain) for gain in gains]
    straight = cumulative_gain(*stacked(gains), 0.9).split(lengths)
    shuffled = cumulative_gain(*stacked([gains[i] for i in order]), 0.9)
    torch.testing.assert_close(shuffled, torch.cat([straight[i] for i in order]))


def test_cumulative_gain_of_a_path_does_not_depend_on_the_others(gains: list[Tensor]) -> None:
    alone = [cumulative_gain(*stacked([gain]), 0.9) for gain in gains]
    torch.testing.assert_close(cumulative_gain(*stacked(gains), 0.9), torch.cat(alone))


def test_cumulative_gain_keeps_the_type_of_the_gain(gains: list[Tensor]) -> None:
    paths = stacked([gain.float() for gain in gains])
    assert cumulative_gain(*paths, 0.9).dtype == torch.float32


def test_cumulative_gain_of_many_rows_in_float32_is_precise(generator: torch.Generator) -> None:
    rows, gamma = 200_000, 0.99
    lengths = []
    while sum(lengths) < rows:
        length = int(torch.randint(1, 400, (), generator=generator))
        lengths.append(min(length, rows - sum(lengths)))
    gain = torch.rand(rows, generator=generator) + 0.1  # positive: relative errors mean something
    paths = stacked(list(gain.split(lengths)))
    loop = []
    for path in gain.double().split(lengths):
        y = 0.0
        for t, g in enumerate(path.tolist()):
            y += gamma**t * g
            loop.append(y)
    expected = torch.tensor(loop, dtype=torch.float64)
    error = cumulative_gain(paths.gain, paths.step.long(), paths.first_row, gamma) - expected
    assert (error.abs() / expected).max() <= 1e-5


def test_cumulative_gain_is_exact_in_float64_for_integer_steps() -> None:
    gain = torch.ones(400, dtype=torch.float64)
    paths = stacked([gain])
    y = cumulative_gain(gain, paths.step.long(), paths.first_row, 0.99)
    expected = [(1 - 0.99 ** (t + 1)) / (1 - 0.99) for t in range(400)]
    torch.testing.assert_close(y, torch.tensor(expected, dtype=torch.float64), rtol=1e-11, atol=0)


def test_cumulative_gain_passes_gradcheck(gains: list[Tensor]) -> None:
    gain, step, first_row = stacked(gains)
    assert gradcheck(lambda g: cumulative_gain(g, step, first_row, 0.8), gain.requires_grad_())


@pytest.mark.parametrize("gamma", GAMMAS)
def test_next_cumulative_gain_reproduces_the_cumulative_gain_row_by_row(
    gains: list[Tensor], gamma: float
) -> None:
    streamed = []
    for gain in gains:
        y = torch.zeros((), dtype=torch.float64)
        for t, g in enumerate(gain):
            y = next_cumulative_gain(y, g, torch.tensor(t, dtype=torch.float64), gamma)
            streamed.append(y)
    torch.testing.assert_close(torch.stack(streamed), cumulative_gain(*stacked(gains), gamma))


def test_next_cumulative_gain_equals_a_loop(generator: torch.Generator) -> None:
    y, gain = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    step = torch.tensor([0, 1, 2, 10, 50, 3], dtype=torch.float64)
    loop = [y[i].item() + 0.9 ** step[i].item() * gain[i].item() for i in range(6)]
    torch.testing.assert_close(
        next_cumulative_gain(y, gain, step, 0.9), torch.tensor(loop, dtype=torch.float64)
    )


def test_next_cumulative_gain_starts_with_the_first_gain() -> None:
    y = next_cumulative_gain(torch.zeros(1), torch.tensor([0.75]), torch.zeros(1), 0.9)
    assert y.item() == 0.75


def test_next_cumulative_gain_is_exact_in_float64_for_integer_steps() -> None:
    one = torch.ones(1, dtype=torch.float64)
    y = next_cumulative_gain(torch.zeros_like(one), one, torch.tensor([300]), 0.99)
    assert y.item() == pytest.approx(0.99**300, rel=1e-12)


def test_next_cumulative_gain_passes_gradcheck(generator: torch.Generator) -> None:
    y, gain = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    step = torch.arange(4, dtype=torch.float64)
    inputs = (y.clone().requires_grad_(), gain.clone().requires_grad_())
    assert gradcheck(lambda y, g: next_cumulative_gain(y, g, step, 0.9), inputs)
