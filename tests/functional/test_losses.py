"""E4, E5, E7 and the classifiers' loss: weighted means, dynamics, gain, cross-entropy."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import (
    confidence_weight,
    cross_entropy_loss,
    gain_loss,
    iq_loss,
    weighted_mean,
)


def losses(rows: Any, value_term: str = "expert") -> dict[str, Tensor]:
    """Evaluate every loss that takes a weight, on the same rows."""
    return {
        "cross_entropy": cross_entropy_loss(rows.q, rows.action, rows.weight, 0.2).total,
        "gain": gain_loss(rows.q[:, 1], rows.next_value, rows.action, rows.weight).total,
        "iq": iq_loss(*rows, epsilon=0.2, gamma=0.9, value_term=value_term).total,
    }


def test_weighted_mean_equals_a_loop(rows: Any) -> None:
    above = below = 0.0
    for value, weight in zip(rows.next_value.tolist(), rows.weight.tolist(), strict=True):
        above += weight * value
        below += weight
    mean = weighted_mean(rows.next_value, rows.weight)
    assert mean.item() == pytest.approx(above / below, rel=1e-13)


def test_weighted_mean_with_equal_weights_is_the_mean(rows: Any) -> None:
    mean = weighted_mean(rows.next_value, torch.full_like(rows.weight, 0.3))
    torch.testing.assert_close(mean, rows.next_value.mean())


def test_weighted_mean_without_weight_is_zero(rows: Any) -> None:
    assert weighted_mean(rows.next_value, torch.zeros_like(rows.weight)).item() == 0


def test_weighted_mean_without_weight_has_zero_gradient(rows: Any) -> None:
    values = rows.next_value.requires_grad_()
    mean = weighted_mean(values, torch.zeros_like(rows.weight))
    assert not torch.autograd.grad(mean, values)[0].any()


def test_weighted_mean_passes_gradcheck(rows: Any) -> None:
    assert gradcheck(weighted_mean, (rows.next_value.requires_grad_(), rows.weight))


@pytest.mark.parametrize("value_term", ["expert", "initial", "literal", "discounted"])
def test_rows_of_weight_zero_do_not_matter(rows: Any, value_term: str) -> None:
    silent = torch.arange(len(rows.q)) % 3 == 0
    weight = rows.weight.masked_fill(silent, 0.0)
    with_them = losses(rows._replace(weight=weight), value_term)
    without = losses(type(rows)(*(x[~silent] for x in rows)), value_term)
    torch.testing.assert_close(with_them, without)


@pytest.mark.parametrize("value_term", ["expert", "initial", "literal", "discounted"])
@pytest.mark.parametrize("factor", [1e-9, 3.0, 1e9])
def test_losses_do_not_depend_on_the_scale_of_the_weights(
    rows: Any, value_term: str, factor: float
) -> None:
    scaled = losses(rows._replace(weight=factor * rows.weight), value_term)
    torch.testing.assert_close(scaled, losses(rows, value_term), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("value_term", ["expert", "initial", "literal", "discounted"])
def test_row_of_weight_two_counts_like_two_rows(rows: Any, value_term: str) -> None:
    ones = rows._replace(weight=torch.ones_like(rows.weight))
    doubled = ones._replace(weight=torch.where(torch.arange(len(rows.q)) == 1, 2.0, ones.weight))
    repeated = type(rows)(*(torch.cat([x, x[1:2]]) for x in ones))
    torch.testing.assert_close(losses(doubled, value_term), losses(repeated, value_term))


@pytest.mark.parametrize("epoch", [0, 1, 50, 199])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_confidence_weight_is_one_for_expert_rows_and_alpha_for_synthetic_ones(
    epoch: int, dtype: torch.dtype
) -> None:
    confidence = 0.99 * 0.95**epoch
    synthetic = torch.tensor([0, 1, 1, 0, 1], dtype=dtype)
    loop = [confidence if is_synthetic else 1.0 for is_synthetic in synthetic.tolist()]
    weight = confidence_weight(synthetic, confidence)
    torch.testing.assert_close(weight, torch.tensor(loop, dtype=dtype), rtol=1e-5, atol=0)


def test_confidence_weight_takes_the_confidence_as_a_tensor() -> None:
    synthetic = torch.tensor([0.0, 1.0])
    weight = confidence_weight(synthetic, torch.tensor(0.25))
    torch.testing.assert_close(weight, torch.tensor([1.0, 0.25]))


def test_confidence_weight_of_full_confidence_is_one_on_every_row() -> None:
    weight = confidence_weight(torch.tensor([0.0, 1.0]), 1.0)
    torch.testing.assert_close(weight, torch.ones(2))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_cross_entropy_equals_a_loop(rows: Any, epsilon: float) -> None:
    above = below = 0.0
    for q, action, weight in zip(
        rows.q.tolist(), rows.action.tolist(), rows.weight.tolist(), strict=True
    ):
        value = epsilon * math.log(sum(math.exp(x / epsilon) for x in q))
        above += weight * -(q[int(action)] - value) / epsilon
        below += weight
    loss = cross_entropy_loss(rows.q, rows.action, rows.weight, epsilon)
    assert loss.total.item() == pytest.approx(above / below, rel=1e-12)


def test_cross_entropy_of_indifference_is_log_two(rows: Any) -> None:
    loss = cross_entropy_loss(torch.ones_like(rows.q), rows.action, rows.weight, 0.1)
    assert loss.total.item() == pytest.approx(math.log(2))


def test_cross_entropy_of_the_right_answers_tends_to_zero(rows: Any) -> None:
    q = torch.stack([1 - rows.action, rows.action], dim=-1)
    assert cross_entropy_loss(q, rows.action, rows.weight, 1e-6).total.item() == 0


def test_cross_entropy_passes_gradcheck(rows: Any) -> None:
    def total(q: Tensor) -> Tensor:
        return cross_entropy_loss(q, rows.action, rows.weight, 0.4).total

    assert gradcheck(total, rows.q.requires_grad_())


def test_gain_loss_equals_a_loop(rows: Any) -> None:
    gain, target = rows.q[:, 0], rows.next_value
    above = below = 0.0
    for i in range(len(gain)):
        if rows.action[i] == 1:
            above += rows.weight[i].item() * (gain[i].item() - target[i].item()) ** 2
            below += rows.weight[i].item()
    loss = gain_loss(gain, target, rows.action, rows.weight)
    assert loss.total.item() == pytest.approx(above / below, rel=1e-13)


def test_gain_loss_on_its_target_is_zero(rows: Any) -> None:
    assert gain_loss(rows.next_value, rows.next_value, rows.action, rows.weight).total.item() == 0


def test_gain_loss_without_a_continue_row_is_zero(rows: Any) -> None:
    stops = torch.zeros_like(rows.action)
    assert gain_loss(rows.q[:, 0], rows.next_value, stops, rows.weight).total.item() == 0


def test_gain_loss_without_a_continue_row_has_zero_gradient(rows: Any) -> None:
    gain = rows.q[:, 0].clone().requires_grad_()
    loss = gain_loss(gain, rows.next_value, torch.zeros_like(rows.action), rows.weight).total
    assert not torch.autograd.grad(loss, gain)[0].any()


def test_gain_loss_passes_gradcheck(rows: Any) -> None:
    def total(gain: Tensor) -> Tensor:
        return gain_loss(gain, rows.next_value, rows.action, rows.weight).total

    assert gradcheck(total, rows.q[:, 0].clone().requires_grad_())
