"""Section 1: what is stored for the cemetery never matters, in no loss and no gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_ios.functional import dynamics_loss, gain_loss, iq_loss

STORED = [0.0, -7.0, 1e30]
every_value_term = pytest.mark.parametrize(
    "value_term", ["expert", "initial", "literal", "discounted"]
)
every_error = pytest.mark.parametrize("error", ["mse", "l1", "gaussian"])


def overwritten(values: Tensor, action: Tensor, stored: float) -> Tensor:
    """Store a number in the successors of the stop rows."""
    stop = (action == 0).reshape(-1, *[1] * (values.dim() - 1))
    return values.detach().clone().masked_fill(stop, stored)


def iq_outcome(rows: Any, stored: float | None, **options: Any) -> dict[str, Tensor]:
    q = rows.q.detach().clone().requires_grad_()
    after = rows.next_value if stored is None else None
    if after is None:
        after = overwritten(rows.next_value, rows.action, stored)
    after = after.detach().clone().requires_grad_()
    loss = iq_loss(q, after, *rows[2:], epsilon=0.2, gamma=0.9, **options)
    q_gradient, after_gradient = torch.autograd.grad(
        loss.total, [q, after], allow_unused=True, materialize_grads=True
    )
    return {**loss._asdict(), "q": q_gradient, "next_value": after_gradient}


def dynamics_outcome(rows: Any, stored: float | None, error: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (3, len(rows.q), 4)
    predicted, observed, spread = torch.randn(shape, generator=generator, dtype=torch.float64)
    values = rows.next_value
    if stored is not None:
        observed = overwritten(observed, rows.action, stored)
        values = overwritten(values, rows.action, stored)
    inputs = [predicted.requires_grad_(), rows.q[:, 0].detach().clone().requires_grad_()]
    loss = dynamics_loss(
        inputs[0],
        observed,
        rows.action,
        rows.weight,
        error=error,
        log_variance=spread if error == "gaussian" else None,
        predicted_value=inputs[1],
        observed_value=values,
    )
    gradients = torch.autograd.grad(loss.total, inputs)
    return {**loss._asdict(), "predicted": gradients[0], "predicted_value": gradients[1]}


def gain_outcome(rows: Any, stored: float | None) -> dict[str, Tensor]:
    gain = rows.q[:, 1].detach().clone().requires_grad_()
    target = rows.next_value
    if stored is not None:
        target = overwritten(target, rows.action, stored)
    loss = gain_loss(gain, target, rows.action, rows.weight).total
    return {"total": loss, "gain": torch.autograd.grad(loss, gain)[0]}


@every_value_term
@pytest.mark.parametrize("stored", STORED)
def test_iq_loss_and_gradients_ignore_the_next_value_of_stop_rows(
    rows: Any, divergence: str, value_term: str, stored: float
) -> None:
    options = {"divergence": divergence, "value_term": value_term}
    before, after = (iq_outcome(rows, x, **options) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@every_value_term
def test_iq_loss_has_no_gradient_in_the_next_value_of_stop_rows(
    rows: Any, divergence: str, value_term: str
) -> None:
    gradient = iq_outcome(rows, None, divergence=divergence, value_term=value_term)["next_value"]
    assert not gradient[rows.action == 0].any()


@every_error
@pytest.mark.parametrize("stored", STORED)
def test_dynamics_loss_and_gradients_ignore_the_next_state_of_stop_rows(
    rows: Any, error: str, stored: float
) -> None:
    before, after = (dynamics_outcome(rows, x, error) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("stored", STORED)
def test_gain_loss_and_gradient_ignore_the_target_of_stop_rows(rows: Any, stored: float) -> None:
    before, after = (gain_outcome(rows, x) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("stored", [math.nan, math.inf])
def test_iq_loss_and_gradients_ignore_a_next_value_of_stop_rows_that_is_no_number(
    rows: Any, stored: float
) -> None:
    before, after = (iq_outcome(rows, x) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@every_error
@pytest.mark.parametrize("stored", [math.nan, math.inf])
def test_dynamics_loss_and_gradients_ignore_a_next_state_of_stop_rows_that_is_no_number(
    rows: Any, error: str, stored: float
) -> None:
    before, after = (dynamics_outcome(rows, x, error) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("stored", [math.nan, math.inf])
def test_gain_loss_and_gradient_ignore_a_target_of_stop_rows_that_is_no_number(
    rows: Any, stored: float
) -> None:
    before, after = (gain_outcome(rows, x) for x in (None, stored))
    torch.testing.assert_close(after, before, rtol=0, atol=0)
