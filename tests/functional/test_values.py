"""E1 and E2: soft value, policy, recovered reward."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import (
    action_value,
    log_policy,
    margin,
    recovered_reward,
    soft_value,
    stop_probability,
)

EPSILONS = [0.05, 0.1, 1.0, 10.0]
TINY_EPSILONS = [1e-6, 1e-12, 1e-30]


@pytest.fixture
def q(generator: torch.Generator) -> Tensor:
    return 2 * torch.randn(9, 2, generator=generator, dtype=torch.float64)


@pytest.fixture
def action() -> Tensor:
    return torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1], dtype=torch.float64)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def extreme_q(request: pytest.FixtureRequest) -> Tensor:
    values = [[1e3, -1e3], [-1e3, 1e3], [1e3, 999.0], [-1e3, -1e3], [0.0, 1e-3], [1e3, 1e3]]
    return torch.tensor(values, dtype=request.param)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_soft_value_equals_a_loop(q: Tensor, epsilon: float) -> None:
    loop = [epsilon * math.log(sum(math.exp(x / epsilon) for x in row)) for row in q.tolist()]
    torch.testing.assert_close(soft_value(q, epsilon), torch.tensor(loop, dtype=torch.float64))


def test_soft_value_of_equal_actions_is_their_value_plus_epsilon_log_two() -> None:
    q = torch.full((1, 2), 3.0, dtype=torch.float64)
    assert soft_value(q, 0.25).item() == pytest.approx(3 + 0.25 * math.log(2), rel=1e-14)


@pytest.mark.parametrize("epsilon", TINY_EPSILONS)
def test_soft_value_tends_to_the_maximum(extreme_q: Tensor, epsilon: float) -> None:
    torch.testing.assert_close(soft_value(extreme_q, epsilon), extreme_q.amax(-1))


@pytest.mark.parametrize("epsilon", [*TINY_EPSILONS, 1e-3, 1.0])
def test_soft_value_gradient_is_finite_for_extreme_values(
    extreme_q: Tensor, epsilon: float
) -> None:
    q = extreme_q.requires_grad_()
    (gradient,) = torch.autograd.grad(soft_value(q, epsilon).sum(), q)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_soft_value_gradient_is_the_policy(q: Tensor, epsilon: float) -> None:
    q.requires_grad_()
    (gradient,) = torch.autograd.grad(soft_value(q, epsilon).sum(), q)
    torch.testing.assert_close(gradient, log_policy(q, epsilon).exp())


def test_soft_value_takes_epsilon_as_a_tensor(q: Tensor) -> None:
    epsilon = torch.tensor(0.3, dtype=torch.float64)
    torch.testing.assert_close(soft_value(q, epsilon), soft_value(q, 0.3))


def test_soft_value_keeps_leading_dimensions(q: Tensor) -> None:
    torch.testing.assert_close(
        soft_value(q.reshape(3, 3, 2), 0.1), soft_value(q, 0.1).reshape(3, 3)
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_soft_value_passes_gradcheck(q: Tensor, epsilon: float) -> None:
    assert gradcheck(lambda q: soft_value(q, epsilon), q.requires_grad_())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_log_policy_equals_a_loop(q: Tensor, epsilon: float) -> None:
    loop = []
    for row in q.tolist():
        value = epsilon * math.log(sum(math.exp(x / epsilon) for x in row))
        loop.append([(x - value) / epsilon for x in row])
    torch.testing.assert_close(
        log_policy(q, epsilon), torch.tensor(loop, dtype=torch.float64), rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize("epsilon", [*EPSILONS, *TINY_EPSILONS])
def test_policy_sums_to_one(q: Tensor, epsilon: float) -> None:
    total = log_policy(q, epsilon).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("epsilon", TINY_EPSILONS)
def test_policy_tends_to_the_argmax(q: Tensor, epsilon: float) -> None:
    best = torch.nn.functional.one_hot(q.argmax(-1), 2).double()
    torch.testing.assert_close(log_policy(q, epsilon).exp(), best)


@pytest.mark.parametrize("epsilon", [*TINY_EPSILONS, 1e-3, 1.0])
def test_log_policy_is_finite_for_extreme_values(extreme_q: Tensor, epsilon: float) -> None:
    assert log_policy(extreme_q, epsilon).isfinite().all()


def test_log_policy_passes_gradcheck(q: Tensor) -> None:
    assert gradcheck(lambda q: log_policy(q, 0.4), q.requires_grad_())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_stop_probability_equals_a_loop(q: Tensor, epsilon: float) -> None:
    loop = [1 / (1 + math.exp(-(stop - go) / epsilon)) for stop, go in q.tolist()]
    torch.testing.assert_close(
        stop_probability(q[:, 0] - q[:, 1], epsilon), torch.tensor(loop, dtype=torch.float64)
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_stop_probability_is_the_policy_of_action_zero(q: Tensor, epsilon: float) -> None:
    torch.testing.assert_close(
        stop_probability(margin(q), epsilon), log_policy(q, epsilon)[:, 0].exp()
    )


@pytest.mark.parametrize("epsilon", TINY_EPSILONS)
def test_stop_probability_tends_to_the_stop_rule(epsilon: float) -> None:
    margins = torch.tensor([-1e3, -0.1, 0.1, 1e3], dtype=torch.float64)
    expected = torch.tensor([0, 0, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(stop_probability(margins, epsilon), expected)


def test_stop_probability_passes_gradcheck(q: Tensor) -> None:
    assert gradcheck(lambda m: stop_probability(m, 0.4), margin(q).requires_grad_())


def test_action_value_equals_a_loop(q: Tensor, action: Tensor) -> None:
    loop = [row[int(a)] for row, a in zip(q.tolist(), action, strict=True)]
    torch.testing.assert_close(action_value(q, action), torch.tensor(loop, dtype=torch.float64))


def test_action_value_takes_integer_actions(q: Tensor, action: Tensor) -> None:
    torch.testing.assert_close(action_value(q, action.long()), action_value(q, action))


def test_action_value_keeps_a_small_value_beside_a_large_one() -> None:
    q = torch.tensor([[1e3, 1e-3]], dtype=torch.float32)
    picked = action_value(q, torch.ones(1))
    torch.testing.assert_close(picked, torch.tensor([1e-3]))


def test_action_value_passes_gradcheck(q: Tensor, action: Tensor) -> None:
    assert gradcheck(lambda q: action_value(q, action), q.requires_grad_())


@pytest.mark.parametrize("gamma", [0.0, 0.4, 0.99, 1.0])
def test_recovered_reward_equals_a_loop(q: Tensor, action: Tensor, gamma: float) -> None:
    taken, following = q.unbind(-1)
    loop = [
        taken[i].item() - gamma * action[i].item() * following[i].item() for i in range(len(taken))
    ]
    torch.testing.assert_close(
        recovered_reward(taken, action, following, gamma), torch.tensor(loop, dtype=torch.float64)
    )


def test_recovered_reward_without_future_is_the_action_value(q: Tensor, action: Tensor) -> None:
    torch.testing.assert_close(recovered_reward(q[:, 0], action, q[:, 1], 0.0), q[:, 0])


def test_recovered_reward_of_a_stop_is_its_action_value(q: Tensor) -> None:
    stop = torch.zeros(len(q), dtype=torch.float64)
    torch.testing.assert_close(recovered_reward(q[:, 0], stop, 1e30 * q[:, 1], 0.99), q[:, 0])


def test_recovered_reward_passes_gradcheck(q: Tensor, action: Tensor) -> None:
    taken, following = (x.clone().requires_grad_() for x in q.unbind(-1))
    assert gradcheck(lambda x, y: recovered_reward(x, action, y, 0.9), (taken, following))
