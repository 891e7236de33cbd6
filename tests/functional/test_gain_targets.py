"""E7 and E10: what the gain network learns, and the gains shown to a user."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import gain_target, recovered_gains

TARGETS: dict[str, Callable[[float, float, float, float, float], float]] = {
    "literal": lambda q, v, y, t, gamma: q - gamma * v - y,
    "residual": lambda q, v, y, t, gamma: q - gamma * v,
    "scaled": lambda q, v, y, t, gamma: (q - gamma * v - y) / gamma**t,
}
every_target = pytest.mark.parametrize("kind", TARGETS)


@pytest.fixture
def inputs(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Q(s̃,1), V(ŝ̃'), y⁻ and t."""
    q, value, y = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    return q, value, y, torch.tensor([0, 1, 2, 3, 10, 50, 0, 7], dtype=torch.float64)


@every_target
@pytest.mark.parametrize("gamma", [0.75, 0.99, 1.0])
def test_gain_target_equals_a_loop(inputs: tuple[Tensor, ...], kind: str, gamma: float) -> None:
    loop = [TARGETS[kind](*row, gamma) for row in zip(*(x.tolist() for x in inputs), strict=True)]
    target = gain_target(*inputs, gamma, kind)
    torch.testing.assert_close(target, torch.tensor(loop, dtype=torch.float64), rtol=1e-11, atol=0)


def test_gain_target_is_literal_by_default(inputs: tuple[Tensor, ...]) -> None:
    assert torch.equal(gain_target(*inputs, 0.9), gain_target(*inputs, 0.9, "literal"))


@every_target
def test_gain_target_at_the_first_row_is_the_bellman_residual(kind: str) -> None:
    start = torch.zeros(1, dtype=torch.float64)
    target = gain_target(start + 3, start + 2, start, start, 0.5, kind)
    assert target.item() == 3 - 0.5 * 2


def test_scaled_gain_target_equals_literal_without_discount(inputs: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(
        gain_target(*inputs, 1.0, "scaled"), gain_target(*inputs, 1.0, "literal")
    )


def test_scaled_gain_target_is_exact_in_float64_for_integer_steps(
    inputs: tuple[Tensor, ...],
) -> None:
    q, value, y, step = inputs
    exact = gain_target(q, value, y, step, 0.75, "scaled")
    whole = gain_target(q, value, y, step.long(), 0.75, "scaled")
    torch.testing.assert_close(whole, exact, rtol=1e-12, atol=0)


@every_target
def test_gain_target_passes_gradcheck(inputs: tuple[Tensor, ...], kind: str) -> None:
    *values, step = inputs
    values = [x.clone().requires_grad_() for x in values]
    assert gradcheck(lambda q, v, y: gain_target(q, v, y, step, 0.9, kind), values)


def test_gain_target_names_what_is_unknown(inputs: tuple[Tensor, ...]) -> None:
    with pytest.raises(ValueError, match=r"(kind|target).*'total'"):
        gain_target(*inputs, 0.9, "total")


@pytest.fixture
def q(generator: torch.Generator) -> Tensor:
    return torch.randn(8, 2, generator=generator, dtype=torch.float64)


def test_recovered_gains_equal_a_loop(q: Tensor, inputs: tuple[Tensor, ...]) -> None:
    value = inputs[1]
    gains = recovered_gains(q, value, 0.9)
    stop = [q[i][0].item() for i in range(8)]
    go = [q[i][1].item() - 0.9 * value[i].item() for i in range(8)]
    expected = torch.tensor([stop, go], dtype=torch.float64)
    torch.testing.assert_close(torch.stack([gains.stop, gains.go]), expected)


def test_recovered_gains_without_future_are_the_action_values(q: Tensor) -> None:
    gains = recovered_gains(q, torch.full((8,), 5.0, dtype=torch.float64), 0.0)
    torch.testing.assert_close(torch.stack(gains, dim=-1), q)


def test_recovered_gains_pass_gradcheck(q: Tensor, inputs: tuple[Tensor, ...]) -> None:
    value = inputs[1].clone().requires_grad_()
    assert gradcheck(lambda q, v: tuple(recovered_gains(q, v, 0.9)), (q.requires_grad_(), value))
