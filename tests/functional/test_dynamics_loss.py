"""E5: the prediction error of the next state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lit_ios.functional import dynamics_loss

ERRORS: dict[str, Callable[[float, float], float]] = {
    "mse": lambda difference, _: difference**2,
    "l1": lambda difference, _: abs(difference),
    "gaussian": lambda difference, log_variance: (
        (log_variance + difference**2 / math.exp(log_variance)) / 2
    ),
}
every_error = pytest.mark.parametrize("error", ERRORS)


class Step(NamedTuple):
    """Predicted and observed successors of the rows of a batch."""

    predicted: Tensor
    observed: Tensor
    action: Tensor
    weight: Tensor


@pytest.fixture
def step(rows: Any, generator: torch.Generator) -> Step:
    shape = (2, len(rows.q), 3)
    predicted, observed = torch.randn(shape, generator=generator, dtype=torch.float64)
    return Step(predicted, observed, rows.action, rows.weight)


@pytest.fixture
def log_variance(step: Step, generator: torch.Generator) -> Tensor:
    return torch.randn(step.predicted.shape, generator=generator, dtype=torch.float64)


def option(error: str, log_variance: Tensor) -> dict[str, Any]:
    """Give the variance to the error that needs it."""
    return {"error": error, "log_variance": log_variance if error == "gaussian" else None}


@every_error
def test_dynamics_error_equals_a_loop(step: Step, log_variance: Tensor, error: str) -> None:
    above = below = 0.0
    count, features = step.predicted.shape
    for i in range(count):
        if step.action[i] == 0:
            continue
        row = 0.0
        for j in range(features):
            difference = step.predicted[i, j].item() - step.observed[i, j].item()
            row += ERRORS[error](difference, log_variance[i, j].item()) / features
        above += step.weight[i].item() * row
        below += step.weight[i].item()
    loss = dynamics_loss(*step, **option(error, log_variance))
    assert loss.error.item() == pytest.approx(above / below, rel=1e-12)


def test_dynamics_error_is_mse_by_default(step: Step) -> None:
    assert dynamics_loss(*step).total.item() == dynamics_loss(*step, error="mse").total.item()


def test_gaussian_error_is_the_normal_likelihood_up_to_its_constant(
    step: Step, log_variance: Tensor
) -> None:
    normal = torch.distributions.Normal(step.predicted, (log_variance / 2).exp())
    likelihood = -normal.log_prob(step.observed).mean(-1) - math.log(2 * math.pi) / 2
    weight = step.weight * (step.action == 1)
    expected = (weight * likelihood).sum() / weight.sum()
    loss = dynamics_loss(*step, **option("gaussian", log_variance))
    torch.testing.assert_close(loss.error, expected)


def test_gaussian_error_of_unit_variance_is_half_the_mse(step: Step) -> None:
    gaussian = dynamics_loss(*step, error="gaussian", log_variance=torch.zeros_like(step.predicted))
    torch.testing.assert_close(gaussian.total, dynamics_loss(*step).total / 2)


@pytest.mark.parametrize("error", ["mse", "l1"])
def test_dynamics_error_of_a_perfect_prediction_is_zero(step: Step, error: str) -> None:
    loss = dynamics_loss(*step._replace(observed=step.predicted), error=error)
    assert loss.total.item() == 0


def test_value_error_equals_a_loop(step: Step, rows: Any) -> None:
    predicted, observed = rows.q.unbind(-1)
    above = below = 0.0
    for i in range(len(predicted)):
        if step.action[i] == 1:
            squared = (predicted[i].item() - observed[i].item()) ** 2
            above += step.weight[i].item() * squared
            below += step.weight[i].item()
    loss = dynamics_loss(*step, predicted_value=predicted, observed_value=observed)
    assert loss.value_error.item() == pytest.approx(above / below, rel=1e-12)


def test_value_error_is_zero_when_no_values_are_given(step: Step) -> None:
    assert dynamics_loss(*step).value_error.item() == 0


@every_error
def test_dynamics_total_is_error_plus_value_error(
    step: Step, rows: Any, log_variance: Tensor, error: str
) -> None:
    values = {"predicted_value": rows.q[:, 0], "observed_value": rows.q[:, 1]}
    loss = dynamics_loss(*step, **option(error, log_variance), **values)
    torch.testing.assert_close(loss.total, loss.error + loss.value_error)


@every_error
def test_dynamics_loss_without_a_continue_row_is_zero(
    step: Step, rows: Any, log_variance: Tensor, error: str
) -> None:
    stops = step._replace(action=torch.zeros_like(step.action))
    values = {"predicted_value": rows.q[:, 0], "observed_value": rows.q[:, 1]}
    assert dynamics_loss(*stops, **option(error, log_variance), **values).total.item() == 0


@every_error
def test_dynamics_loss_without_a_continue_row_has_zero_gradient(
    step: Step, rows: Any, log_variance: Tensor, error: str
) -> None:
    stops = step._replace(action=torch.zeros_like(step.action))
    inputs = [step.predicted.requires_grad_(), rows.q[:, 0].clone().requires_grad_()]
    values = {"predicted_value": inputs[1], "observed_value": rows.q[:, 1]}
    total = dynamics_loss(*stops, **option(error, log_variance), **values).total
    assert not any(gradient.any() for gradient in torch.autograd.grad(total, inputs))


@every_error
def test_dynamics_loss_does_not_depend_on_the_scale_of_the_weights(
    step: Step, log_variance: Tensor, error: str
) -> None:
    scaled = dynamics_loss(*step._replace(weight=1e-9 * step.weight), **option(error, log_variance))
    torch.testing.assert_close(scaled, dynamics_loss(*step, **option(error, log_variance)))


def test_dynamics_loss_ignores_rows_of_weight_zero(step: Step) -> None:
    silent = torch.arange(len(step.weight)) % 3 == 0
    with_them = dynamics_loss(*step._replace(weight=step.weight.masked_fill(silent, 0.0)))
    torch.testing.assert_close(with_them, dynamics_loss(*(x[~silent] for x in step)))


@every_error
def test_dynamics_loss_passes_gradcheck(
    step: Step, rows: Any, log_variance: Tensor, error: str
) -> None:
    def total(predicted: Tensor, log_variance: Tensor, value: Tensor) -> Tensor:
        return dynamics_loss(
            *step._replace(predicted=predicted),
            error=error,
            log_variance=log_variance,
            predicted_value=value,
            observed_value=rows.q[:, 1],
        ).total

    value = rows.q[:, 0].clone().requires_grad_()
    assert gradcheck(total, (step.predicted.requires_grad_(), log_variance.requires_grad_(), value))


def test_dynamics_loss_names_the_argument_of_an_unknown_error(step: Step) -> None:
    with pytest.raises(ValueError, match=r"error.*'huber'"):
        dynamics_loss(*step, error="huber")


def test_dynamics_loss_names_the_variance_missing_for_gaussian(step: Step) -> None:
    with pytest.raises(ValueError, match="log_variance"):
        dynamics_loss(*step, error="gaussian")
