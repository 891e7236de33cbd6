"""E3: the IQ objective and its identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import IQLoss, cross_entropy_loss, iq_loss, recovered_reward

VALUE_TERMS = ["expert", "initial", "literal", "discounted"]
every_value_term = pytest.mark.parametrize("value_term", VALUE_TERMS)


def loop_reward_term(rows: Any, gamma: float, formula: Callable[[float], float]) -> float:
    above = below = 0.0
    for q, after, action, _, _, weight in zip(*(x.tolist() for x in rows), strict=True):
        reward = q[int(action)] - gamma * action * after
        above += weight * -formula(reward)
        below += weight
    return above / below


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_iq_reward_term_equals_a_loop(
    rows: Any, divergence: str, formula: Callable[[float], float], gamma: float
) -> None:
    loss = iq_loss(*rows, epsilon=0.1, gamma=gamma, divergence=divergence)
    assert loss.reward.item() == pytest.approx(loop_reward_term(rows, gamma, formula), rel=1e-12)


@every_value_term
def test_iq_total_is_reward_plus_value(rows: Any, divergence: str, value_term: str) -> None:
    loss = iq_loss(*rows, epsilon=0.1, gamma=0.9, divergence=divergence, value_term=value_term)
    assert loss.total.item() == pytest.approx(loss.reward.item() + loss.value.item(), rel=1e-13)


def test_iq_record_begins_with_total() -> None:
    assert IQLoss._fields[0] == "total"


def test_iq_loss_is_chi2_with_expert_value_by_default(rows: Any) -> None:
    default = iq_loss(*rows, epsilon=0.1, gamma=0.9).total
    named = iq_loss(
        *rows, epsilon=0.1, gamma=0.9, divergence="chi2", alpha=0.5, value_term="expert"
    )
    assert default.item() == named.total.item()


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_a_stop_target_of_twice_alpha_changes_chi2_by_a_constant(rows: Any, alpha: float) -> None:
    q = rows.q.clone().requires_grad_()
    given = {"epsilon": 0.1, "gamma": 0.9, "alpha": alpha}
    found = []
    for target in (None, 2 * alpha):
        loss = iq_loss(q, *rows[1:], stop_target=target, **given).total
        found.append((loss.item(), torch.autograd.grad(loss, q)[0]))
    stops = rows.weight[rows.action == 0].sum() / rows.weight.sum()
    assert found[1][0] - found[0][0] == pytest.approx(float(alpha * stops), rel=1e-9)
    torch.testing.assert_close(found[0][1], found[1][1])


def test_a_stop_target_is_regressed_towards_on_stop_rows_and_nowhere_else(rows: Any) -> None:
    given = {"epsilon": 0.1, "gamma": 0.9}
    plain = iq_loss(*rows, **given).reward * rows.weight.sum()
    fixed = iq_loss(*rows, stop_target=3.0, **given).reward * rows.weight.sum()
    stop = rows.action == 0
    value = rows.q[stop, 0]
    change = (rows.weight[stop] * ((value - 3).square() / 2 + value - value.square() / 2)).sum()
    torch.testing.assert_close(fixed - plain, change)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_iq_loss_of_tv_is_epsilon_times_cross_entropy(
    rows: Any, epsilon: float, gamma: float
) -> None:
    rows = rows._replace(q=8 * rows.q - 9)
    loss = iq_loss(*rows, epsilon=epsilon, gamma=gamma, divergence="tv").total
    entropy = cross_entropy_loss(rows.q, rows.action, rows.weight, epsilon).total
    assert loss.item() == pytest.approx(epsilon * entropy.item(), rel=1e-10)


@pytest.mark.parametrize("alpha", [None, 0.1, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_iq_loss_of_chi2_adds_the_mean_squared_reward_to_cross_entropy(
    rows: Any, alpha: float | None, epsilon: float
) -> None:
    rows = rows._replace(q=8 * rows.q - 9)
    loss = iq_loss(*rows, epsilon=epsilon, gamma=0.99, divergence="chi2", alpha=alpha).total
    entropy = cross_entropy_loss(rows.q, rows.action, rows.weight, epsilon).total
    taken = rows.q[range(len(rows.q)), rows.action.long()]
    reward = recovered_reward(taken, rows.action, rows.next_value, 0.99)
    squared = (rows.weight * reward**2).sum() / rows.weight.sum()
    expected = epsilon * entropy + squared / (4 * (alpha or 0.5))
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)


def test_iq_loss_of_chi2_tends_to_tv_for_large_alpha(rows: Any) -> None:
    chi2 = iq_loss(*rows, epsilon=0.1, gamma=0.9, divergence="chi2", alpha=1e12).total
    tv = iq_loss(*rows, epsilon=0.1, gamma=0.9, divergence="tv").total
    torch.testing.assert_close(chi2, tv)


@every_value_term
def test_iq_loss_passes_gradcheck(rows: Any, divergence: str, value_term: str) -> None:
    def total(q: Tensor, next_value: Tensor) -> Tensor:
        return iq_loss(
            q,
            next_value,
            *rows[2:],
            epsilon=0.3,
            gamma=0.9,
            divergence=divergence,
            value_term=value_term,
        ).total

    assert gradcheck(total, (rows.q.requires_grad_(), rows.next_value.requires_grad_()))


@every_value_term
def test_iq_loss_gradient_is_finite_for_tiny_epsilon(rows: Any, value_term: str) -> None:
    rows = rows._replace(q=(1000 * (rows.q - 1)).requires_grad_())
    loss = iq_loss(*rows, epsilon=1e-30, gamma=0.99, value_term=value_term).total
    assert torch.autograd.grad(loss, rows.q)[0].isfinite().all()


@every_value_term
def test_iq_loss_takes_integer_actions(rows: Any, value_term: str) -> None:
    whole = rows._replace(action=rows.action.long(), synthetic=rows.synthetic.long())
    loss = iq_loss(*whole, epsilon=0.1, gamma=0.9, value_term=value_term).total
    expected = iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term=value_term).total
    torch.testing.assert_close(loss, expected)


def test_iq_loss_names_the_argument_of_an_unknown_divergence(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"divergence.*'chi3'"):
        iq_loss(*rows, epsilon=0.1, gamma=0.9, divergence="chi3")


def test_iq_loss_names_the_argument_of_a_nonpositive_alpha(rows: Any) -> None:
    with pytest.raises(ValueError, match="alpha"):
        iq_loss(*rows, epsilon=0.1, gamma=0.9, alpha=0.0)
