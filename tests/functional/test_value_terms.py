"""E3′: the four value terms of the IQ objective."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_ios.functional import iq_loss


def soft(q: list[float], epsilon: float) -> float:
    return epsilon * math.log(sum(math.exp(x / epsilon) for x in q))


def loop_value_term(rows: Any, gamma: float, epsilon: float, value_term: str) -> float:
    above = below = 0.0
    for q, after, action, step, synthetic, weight in zip(*(x.tolist() for x in rows), strict=True):
        term = soft(q, epsilon) - gamma * action * after
        if value_term == "initial":
            if step > 0 or synthetic:
                continue
            term = (1 - gamma) * soft(q, epsilon)
        if value_term == "literal" and synthetic:
            term *= 1 - gamma
        if value_term == "discounted":
            weight *= gamma**step
        above += weight * term
        below += weight
    return above / below


def stopped_path(generator: torch.Generator, length: int, epsilon: float) -> dict[str, Tensor]:
    """Return one whole path of real rows, each followed by the next, stopped at the last."""
    q = torch.randn(length, 2, generator=generator, dtype=torch.float64)
    value = torch.tensor([soft(row, epsilon) for row in q.tolist()], dtype=torch.float64)
    action = torch.ones(length, dtype=torch.float64)
    action[-1] = 0
    return {
        "q": q,
        "next_value": torch.cat([value[1:], torch.tensor([123.0], dtype=torch.float64)]),
        "action": action,
        "step": torch.arange(length, dtype=torch.float64),
        "synthetic": torch.zeros(length, dtype=torch.float64),
        "weight": torch.ones(length, dtype=torch.float64),
    }


@pytest.mark.parametrize("value_term", ["expert", "initial", "literal", "discounted"])
@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_iq_value_term_equals_a_loop(
    rows: Any, value_term: str, gamma: float, epsilon: float
) -> None:
    loss = iq_loss(*rows, epsilon=epsilon, gamma=gamma, value_term=value_term)
    expected = loop_value_term(rows, gamma, epsilon, value_term)
    assert loss.value.item() == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_iq_value_term_tends_to_the_hard_maximum(rows: Any) -> None:
    loss = iq_loss(*rows, epsilon=1e-12, gamma=0.9)
    difference = rows.q.amax(-1) - 0.9 * rows.action * rows.next_value
    torch.testing.assert_close(
        loss.value, (rows.weight * difference).sum() / rows.weight.sum(), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("length", [1, 2, 17])
@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_discounted_value_term_of_a_stopped_path_telescopes_to_its_first_value(
    generator: torch.Generator, length: int, gamma: float
) -> None:
    path = stopped_path(generator, length, epsilon=0.2)
    loss = iq_loss(**path, epsilon=0.2, gamma=gamma, value_term="discounted")
    first = soft(path["q"][0].tolist(), 0.2)
    expected = first * (1 - gamma) / (1 - gamma**length)
    assert loss.value.item() == pytest.approx(expected, rel=1e-11)


def test_discounted_value_term_equals_expert_without_discount(rows: Any) -> None:
    discounted = iq_loss(*rows, epsilon=0.1, gamma=1.0, value_term="discounted").value
    torch.testing.assert_close(discounted, iq_loss(*rows, epsilon=0.1, gamma=1.0).value)


def test_discounted_value_term_is_exact_in_float64_for_integer_steps(rows: Any) -> None:
    rows = rows._replace(step=100 * rows.step.long())
    loss = iq_loss(*rows, epsilon=0.1, gamma=0.99, value_term="discounted")
    expected = loop_value_term(rows, 0.99, 0.1, "discounted")
    assert loss.value.item() == pytest.approx(expected, rel=1e-12)


def test_initial_value_term_uses_only_real_first_rows(rows: Any) -> None:
    first = (rows.step == 0) & (rows.synthetic == 0)
    changed = torch.where(first[:, None], rows.q, rows.q + 5)
    before = iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term="initial").value
    after = iq_loss(*rows._replace(q=changed), epsilon=0.1, gamma=0.9, value_term="initial").value
    assert after.item() == before.item() != 0


def test_initial_value_term_without_a_first_row_is_zero(rows: Any) -> None:
    rows = rows._replace(step=rows.step + 1)
    assert iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term="initial").value.item() == 0


def test_initial_value_term_without_a_first_row_has_zero_gradient(rows: Any) -> None:
    rows = rows._replace(step=rows.step + 1, q=rows.q.requires_grad_())
    value = iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term="initial").value
    assert not torch.autograd.grad(value, rows.q)[0].any()


def test_literal_value_term_of_synthetic_rows_is_theirs_times_one_minus_gamma(rows: Any) -> None:
    synthetic = type(rows)(*(x[rows.synthetic == 1] for x in rows))
    literal = iq_loss(*synthetic, epsilon=0.1, gamma=0.9, value_term="literal").value
    expert = iq_loss(*synthetic, epsilon=0.1, gamma=0.9, value_term="expert").value
    torch.testing.assert_close(literal, (1 - 0.9) * expert)


def test_literal_value_term_equals_expert_without_synthetic_rows(rows: Any) -> None:
    rows = rows._replace(synthetic=torch.zeros_like(rows.synthetic))
    literal = iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term="literal").value
    assert literal.item() == iq_loss(*rows, epsilon=0.1, gamma=0.9).value.item()


def test_iq_loss_names_the_argument_of_an_unknown_value_term(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"value_term.*'online'"):
        iq_loss(*rows, epsilon=0.1, gamma=0.9, value_term="online")
