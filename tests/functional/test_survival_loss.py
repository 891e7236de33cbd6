"""The loss of recurrent survival analysis, against a loop over paths."""

import math

import pytest
import torch

from lit_ios.functional import survival_loss

LENGTHS, STOPPED = [3, 1, 4, 2], [True, True, False, True]


def made(dtype=torch.double):
    lengths = torch.tensor(LENGTHS)
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    step = torch.arange(len(first)) - first
    action = torch.ones(len(first), dtype=dtype)
    action[(lengths.cumsum(0) - 1)[torch.tensor(STOPPED)]] = 0
    margin = torch.randn(len(first), dtype=dtype, generator=torch.Generator().manual_seed(0))
    return margin, action, step, first


def naive(margin, weights, epsilon, share):
    total, count, start = 0.0, 0.0, 0
    for length, stopped, weight in zip(LENGTHS, STOPPED, weights, strict=True):
        hazard = [1 / (1 + math.exp(-float(m) / epsilon)) for m in margin[start : start + length]]
        start += length
        survived = math.prod(1 - h for h in hazard)
        if stopped:
            just = hazard[-1] * math.prod(1 - h for h in hazard[:-1])
            loss = -share * math.log(just) - (1 - share) * math.log(1 - survived)
        else:
            loss = -math.log(survived)
        total, count = total + weight * loss, count + weight
    return total / count


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [2, 0, 1, 3]])
def test_survival_loss_is_the_mean_of_a_loop_over_paths(share, weights):
    margin, action, step, first = made()
    weight = torch.repeat_interleave(torch.tensor(weights), torch.tensor(LENGTHS)).double()
    given = {"epsilon": 0.7, "share": share}
    found = survival_loss(margin, action, step, first, weight, **given).total
    assert float(found) == pytest.approx(naive(margin, weights, 0.7, share), rel=1e-9)


def test_likelihood_alone_is_the_cross_entropy_of_all_rows():
    margin, action, step, first = made()
    weight = torch.ones_like(margin)
    loss = survival_loss(margin, action, step, first, weight, epsilon=1.0, share=1.0).total
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        margin, 1 - action, reduction="sum"
    )
    torch.testing.assert_close(loss, entropy / len(LENGTHS))


@pytest.mark.parametrize("size", [-100.0, 0.0, 100.0])
def test_survival_loss_and_its_gradient_are_finite(size):
    margin, action, step, first = made()
    margin = torch.full_like(margin, size).requires_grad_()
    weight = torch.ones_like(margin)
    loss = survival_loss(margin, action, step, first, weight, epsilon=1.0, share=0.5).total
    (gradient,) = torch.autograd.grad(loss, margin)
    assert loss.isfinite()
    assert gradient.isfinite().all()
