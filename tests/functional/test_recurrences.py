"""E12 against loops over rows, PyTorch's own GRU, and E6."""

import numpy as np
import pytest
import torch

from lit_ios.functional import cumulative_gain, decayed_sum, discount, gru_scan, gru_step
from lit_ios.functional.recurrences import BLOCK

DECAY = torch.tensor([1.0, 0.97, 0.5, 0.0], dtype=torch.double)


def rows_of(lengths):
    """Return number and first row of each row of paths of these lengths."""
    lengths = torch.tensor(lengths)
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    return torch.arange(len(first)) - first, first


def naive_sum(values, decay, step):
    sums, h = [], None
    for row, t in enumerate(step.tolist()):
        h = values[..., row, :] + (0 if t == 0 else decay * h)
        sums.append(h)
    return torch.stack(sums, -2)


LENGTHS = {
    "short": [4, 1, 7, 2],
    "one row": [1],
    "block": [BLOCK, BLOCK, 3],
    "across blocks": [5, 3 * BLOCK + 7, 1, BLOCK - 9, 40],
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("members", [(), (3,)])
def test_decayed_sum_equals_a_loop_over_rows(lengths, members):
    step, first = rows_of(lengths)
    values = torch.randn(*members, len(step), 4, dtype=torch.double)
    torch.testing.assert_close(
        decayed_sum(values, DECAY, first), naive_sum(values, DECAY, step), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("lengths", [LENGTHS["short"], [BLOCK + 3, 2]])
def test_gradient_of_decayed_sum_is_that_of_the_loop(lengths):
    step, first = rows_of(lengths)
    values = torch.randn(2, len(step), 4, dtype=torch.double, requires_grad=True)
    weight = torch.randn_like(values)
    (found,) = torch.autograd.grad((decayed_sum(values, DECAY, first) * weight).sum(), values)
    (naive,) = torch.autograd.grad((naive_sum(values, DECAY, step) * weight).sum(), values)
    torch.testing.assert_close(found, naive, rtol=1e-12, atol=1e-12)


def test_decayed_sum_without_decay_of_discounted_gains_is_the_cumulative_gain():
    step, first = rows_of(LENGTHS["across blocks"])
    gain = torch.randn(len(step), dtype=torch.double)
    discounted = (gain * discount(0.99, step, torch.double))[:, None]
    y = decayed_sum(discounted, torch.ones(1, dtype=torch.double), first)[:, 0]
    torch.testing.assert_close(y, cumulative_gain(gain, step, first, 0.99), rtol=0, atol=1e-12)


def test_decayed_sum_of_a_long_path_neither_overflows_nor_drifts():
    step, first = rows_of([20_000])
    ones = torch.ones(len(step), 3)
    decay = torch.tensor([0.97, 0.5, 0.01], dtype=torch.double)
    geometric = (1 - decay ** (step[:, None] + 1.0)) / (1 - decay)
    torch.testing.assert_close(
        decayed_sum(ones, decay, first), geometric.float(), rtol=1e-5, atol=0
    )


def test_decayed_sum_of_no_rows_is_empty():
    assert decayed_sum(torch.zeros(0, 4), DECAY, torch.zeros(0, dtype=torch.long)).shape == (0, 4)


def units(members=2, inputs=3, width=4):
    """Return PyTorch's GRUs and what `gru_scan` takes of them."""
    cells = [torch.nn.GRU(inputs, width, dtype=torch.double) for _ in range(members)]
    weight = torch.stack([cell.weight_hh_l0.detach().T for cell in cells]).requires_grad_()
    bias = torch.stack([cell.bias_hh_l0.detach()[None] for cell in cells]).requires_grad_()
    return cells, weight, bias


@pytest.mark.parametrize("lengths", [[4, 1, 7, 2, 7], [1], [3, 3, 3], [1, 2, 3, 4]])
def test_gru_scan_and_its_gradients_are_those_of_pytorch(lengths):
    torch.manual_seed(0)
    cells, weight, bias = units()
    step, first = rows_of(lengths)
    state = torch.randn(len(step), 3, dtype=torch.double, requires_grad=True)
    driven = torch.stack([state @ c.weight_ih_l0.detach().T + c.bias_ih_l0.detach() for c in cells])
    found = gru_scan(driven, weight, bias, step, first)
    ends = np.cumsum(lengths)
    expected = torch.stack(
        [
            torch.cat([cell(state[e - n : e])[0] for n, e in zip(lengths, ends, strict=True)])
            for cell in cells
        ]
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    mix = torch.randn_like(found)
    of_state, of_weight, of_bias = torch.autograd.grad((found * mix).sum(), [state, weight, bias])
    theirs = [p for cell in cells for p in (cell.weight_hh_l0, cell.bias_hh_l0)]
    naive = torch.autograd.grad((expected * mix).sum(), [state, *theirs])
    torch.testing.assert_close(of_state, naive[0], rtol=1e-10, atol=1e-12)
    for k in range(len(cells)):
        torch.testing.assert_close(of_weight[k].T, naive[1 + 2 * k], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(of_bias[k, 0], naive[2 + 2 * k], rtol=1e-10, atol=1e-12)


def test_gru_scan_passes_gradcheck():
    torch.manual_seed(0)
    _, weight, bias = units(width=2)
    step, first = rows_of([3, 1, 2])
    driven = torch.randn(2, 6, 6, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *given: gru_scan(*given, step, first), (driven, weight, bias)
    )


def test_gru_step_is_a_row_of_the_scan():
    _, weight, bias = units(members=1)
    step, first = rows_of([5])
    driven = torch.randn(1, 5, 12, dtype=torch.double)
    h = torch.zeros(1, 1, 4, dtype=torch.double)
    for row, expected in enumerate(gru_scan(driven, weight, bias, step, first)[0]):
        h = gru_step(h, driven[:, row : row + 1], torch.baddbmm(bias, h, weight))
        torch.testing.assert_close(h[0, 0], expected, rtol=1e-12, atol=1e-12)


def test_gru_step_with_a_closed_gate_keeps_and_with_an_open_one_forgets():
    h, driven = torch.full((1, 1), 0.7), torch.tensor([[0.0, 50.0, 0.3]])
    assert float(gru_step(h, driven, torch.zeros(1, 3))) == pytest.approx(0.7)
    driven[0, 1] = -50.0
    assert float(gru_step(h, driven, torch.zeros(1, 3))) == pytest.approx(np.tanh(0.3))
