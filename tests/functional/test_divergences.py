"""φ of E3: values, tangents, and finiteness for every reward."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import phi

CURVED = ["hellinger", "kl", "kl_fix", "js"]  # continued by their tangents
every_alpha = pytest.mark.parametrize("alpha", [None, 0.5, 2.0])


def grid(step: float, low: float = -5.0, high: float = 5.0) -> Tensor:
    return torch.arange(low, high, step, dtype=torch.float64)


def slope(reward: Tensor, divergence: str, alpha: float | None = None) -> Tensor:
    reward = reward.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(phi(reward, divergence, alpha).sum(), reward)
    return gradient


def test_phi_equals_its_formula_inside_its_domain(
    divergence: str, formula: Callable[[float], float]
) -> None:
    reward = grid(0.05, low=-0.25)
    loop = [formula(r) for r in reward.tolist()]
    expected = torch.tensor(loop, dtype=torch.float64)
    torch.testing.assert_close(phi(reward, divergence), expected, rtol=1e-12, atol=1e-14)


def test_phi_is_chi2_by_default() -> None:
    reward = grid(0.5)
    torch.testing.assert_close(phi(reward), reward - reward.square() / 2)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 7.0])
def test_phi_chi2_uses_the_alpha_given(alpha: float) -> None:
    reward = grid(0.5)
    loop = [r - r**2 / (4 * alpha) for r in reward.tolist()]
    torch.testing.assert_close(
        phi(reward, "chi2", alpha), torch.tensor(loop, dtype=torch.float64), atol=1e-12, rtol=1e-12
    )


@pytest.mark.parametrize("divergence", [*CURVED, "tv"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 7.0])
def test_phi_alpha_adds_the_chi2_term(divergence: str, alpha: float) -> None:
    reward = grid(0.1)
    added = phi(reward, divergence, alpha) - phi(reward, divergence)
    torch.testing.assert_close(added, -reward.square() / (4 * alpha), rtol=1e-9, atol=1e-12)


def test_phi_with_a_large_alpha_tends_to_phi_without_the_chi2_term(divergence: str) -> None:
    reward = grid(0.1)
    plain = reward if divergence == "chi2" else phi(reward, divergence)
    torch.testing.assert_close(phi(reward, divergence, 1e12), plain)


@every_alpha
def test_phi_is_concave(divergence: str, alpha: float | None) -> None:
    value = phi(grid(1e-3), divergence, alpha)
    bend = value[2:] - 2 * value[1:-1] + value[:-2]
    assert bend.max() <= 1e-12


def test_phi_increases_where_the_formula_does(divergence: str) -> None:
    reward = grid(1e-3, high=1.0)  # chi2 turns at r = 2α = 1
    assert (slope(reward, divergence) > 0).all()


def test_phi_is_continuous(divergence: str) -> None:
    jumps = [phi(grid(step), divergence).diff().abs().max() for step in (1e-3, 1e-4)]
    assert jumps[1] <= 0.2 * jumps[0]


def test_phi_slope_is_continuous(divergence: str) -> None:
    jumps = [slope(grid(step), divergence).diff().abs().max() for step in (1e-3, 1e-4)]
    assert jumps[1] <= 0.2 * jumps[0]


@pytest.mark.parametrize("divergence", CURVED)
def test_phi_is_a_straight_line_far_outside_its_domain(divergence: str) -> None:
    reward = torch.linspace(-100, -5, 20, dtype=torch.float64)
    value = phi(reward, divergence)
    torch.testing.assert_close(
        value, torch.linspace(value[0].item(), value[-1].item(), 20, dtype=torch.float64)
    )


@pytest.mark.parametrize("divergence", CURVED)
def test_phi_lies_on_or_above_its_formula(
    divergence: str, formula: Callable[[float], float]
) -> None:
    reward = grid(1e-3, low=-0.69, high=0.0)  # the smallest domain: js, r > −log 2
    loop = torch.tensor([formula(r) for r in reward.tolist()], dtype=torch.float64)
    assert (phi(reward, divergence) >= loop - 1e-12).all()


@pytest.mark.parametrize("divergence", ["chi2", "hellinger", "kl_fix", "js", "tv"])
def test_phi_vanishes_at_zero(divergence: str) -> None:
    assert phi(torch.zeros(1), divergence).item() == 0


@pytest.mark.parametrize("divergence", ["chi2", "hellinger", "kl_fix", "js", "tv"])
@every_alpha
def test_phi_slope_at_zero_is_one(divergence: str, alpha: float | None) -> None:
    assert slope(torch.zeros(1, dtype=torch.float64), divergence, alpha).item() == pytest.approx(1)


@every_alpha
def test_phi_slope_of_kl_at_zero_is_one_over_e(alpha: float | None) -> None:
    at_zero = slope(torch.zeros(1, dtype=torch.float64), "kl", alpha).item()
    assert at_zero == pytest.approx(math.exp(-1))


@every_alpha
@pytest.mark.parametrize("reward", [-1e6, -100.0, 100.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_phi_and_its_slope_are_finite_far_out(
    divergence: str, alpha: float | None, reward: float, dtype: torch.dtype
) -> None:
    far = torch.tensor([reward], dtype=dtype)
    assert phi(far, divergence, alpha).isfinite().all()
    assert slope(far, divergence, alpha).isfinite().all()


def test_phi_equals_its_formula_at_plus_one_hundred(
    divergence: str, formula: Callable[[float], float]
) -> None:
    value = phi(torch.tensor([100.0], dtype=torch.float64), divergence).item()
    assert value == pytest.approx(formula(100.0), rel=1e-12, abs=1e-50)


@every_alpha
def test_phi_passes_gradcheck(divergence: str, alpha: float | None) -> None:
    reward = grid(0.173).requires_grad_()
    assert gradcheck(lambda r: phi(r, divergence, alpha), reward)


def test_phi_names_the_argument_of_an_unknown_divergence() -> None:
    with pytest.raises(ValueError, match=r"divergence.*'chi3'"):
        phi(torch.zeros(1), "chi3")


@pytest.mark.parametrize("alpha", [0, 0.0, -0.5])
def test_phi_names_the_argument_of_a_nonpositive_alpha(divergence: str, alpha: float) -> None:
    with pytest.raises(ValueError, match=rf"alpha.*{alpha}"):
        phi(torch.zeros(1), divergence, alpha)
