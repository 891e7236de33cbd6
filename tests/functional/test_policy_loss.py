"""E11 against a loop over paths, its limit M1, and whole training steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datamodules.loaders import PathLoader
from lit_ios.data_record import Inputs
from lit_ios.functional import policy_loss
from lit_ios.metrics import BalancedAccuracy
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS
from lit_ios.rule import ColumnEncoder

INPUTS = Inputs(ColumnEncoder(("a", "b")).spec, include_time=False).plain()

path = st.tuples(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.booleans())


def columns(paths):
    """Return margins, actions, first rows and weights; the end of a censored path counts not."""
    margin, action, first, weight = [], [], [], []
    for margins, stopped in paths:
        first += [len(margin)] * len(margins)
        margin += margins
        action += [1.0] * (len(margins) - 1) + [0.0 if stopped else 1.0]
        weight += [1.0] * (len(margins) - 1) + [1.0 if stopped else 0.0]
    as_double = [torch.tensor(x, dtype=torch.float64) for x in (margin, action, weight)]
    return as_double[0], as_double[1], torch.tensor(first), as_double[2]


@given(st.lists(path, min_size=1, max_size=5), st.floats(0.05, 2))
@settings(max_examples=100, deadline=None)
def test_policy_loss_is_the_soft_balanced_accuracy_of_a_loop(paths, epsilon):
    stays, stops = [], []
    for margins, stopped in paths:
        survival = 1.0
        for t, margin in enumerate(margins):
            survival = survival * torch.sigmoid(
                torch.tensor(-margin / epsilon, dtype=torch.float64)
            )
            if t < len(margins) - 1:
                stays.append(survival)
            elif stopped:
                stops.append(1 - survival)
    expected = -0.5 * sum(float(sum(x)) / len(x) for x in (stays, stops) if x)
    margin, action, first, weight = columns(paths)
    found = policy_loss(margin, action, first, weight, epsilon=epsilon).total
    assert float(found) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(path, st.integers(0, 3)), min_size=1, max_size=5), st.floats(0.05, 2))
@settings(max_examples=100, deadline=None)
def test_policy_loss_counts_a_path_as_often_as_it_is_seen(paths, epsilon):
    seen = [count for (margins, _), count in paths for _ in margins]
    margin, action, first, weight = columns([one for one, _ in paths])
    again = columns([one for one, count in paths for _ in range(count)])
    if (again[3] > 0).any():
        weight = weight * torch.tensor(seen)
        found = policy_loss(margin, action, first, weight, epsilon=epsilon).total
        expected = policy_loss(*again, epsilon=epsilon).total
        assert float(found) == pytest.approx(float(expected), abs=1e-9)


def test_policy_loss_tends_to_minus_the_balanced_accuracy(paths):
    batch = next(iter(PathLoader(paths)))
    margin = torch.randn(len(batch.columns), generator=torch.Generator().manual_seed(0))
    metric = BalancedAccuracy()
    metric.update(margin, batch, torch.tensor(0.0))
    last = torch.zeros(len(margin), dtype=torch.bool)
    last[batch.last_row] = True
    action = (~last | ~batch.stopped[batch.path]).float()
    found = policy_loss(margin, action, batch.first_row, torch.ones(len(margin)), epsilon=1e-6)
    assert float(found.total) == pytest.approx(-float(metric.compute()), abs=1e-6)


def test_what_is_trained_tends_to_minus_the_balanced_accuracy(train_batch, path_batch):
    torch.manual_seed(0)
    module = IQS(inputs=INPUTS, epsilon=1e-6, policy_weight=1.0)
    metric = BalancedAccuracy()
    metric.update(module(path_batch).margin, path_batch, torch.tensor(0.0))  # two are censored
    found = module._policy_loss(module.view(train_batch)).total.item()  # with stops drawn again
    assert found == pytest.approx(-metric.compute().item(), abs=1e-6)
    assert 0.1 < -found < 0.9


def test_gradient_is_that_of_differences():
    paths = [([0.3, -0.2, 0.5], True), ([0.1, -1.0], False), ([0.7], True)]
    margin, action, first, weight = columns(paths)
    margin.requires_grad_()
    torch.autograd.gradcheck(
        lambda m: policy_loss(m, action, first, weight, epsilon=0.5).total, (margin,)
    )


@pytest.mark.parametrize("cls", [Classifier, IQS, ModelBasedIQS, DOIQS])
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize("members", [1, 2])
def test_policy_weight_trains_the_rule_of_every_class(cls, updates, members, train_batch):
    torch.manual_seed(0)
    module = cls(inputs=INPUTS, hidden=[16], updates=updates, members=members, policy_weight=1000.0)
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: True
    before = module._policy_loss(module.view(train_batch)).total.mean()
    module.training_step([train_batch] * 100, 0)
    after = module._policy_loss(module.view(train_batch)).total.mean()
    assert after < before - 0.05


def test_policy_weight_asks_for_whole_paths(train_batch):
    module = IQS(inputs=INPUTS, policy_weight=0.3)
    with pytest.raises(ValueError, match="batch_by to auto or paths"):
        module._policy_loss(module.view(train_batch._replace(first_row=None)))


def test_negative_policy_weight_is_refused():
    with pytest.raises(ValueError, match=r"policy_weight must be a number of at least 0, got -1"):
        IQS(inputs=INPUTS, policy_weight=-1)
