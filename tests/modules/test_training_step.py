"""One training step of every class, compared with the same mathematics written out by hand."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from lit_ios.functional import cumulative_gain
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS

ALL = [Classifier, IQS, ModelBasedIQS, DOIQS]
GAMMA, EPSILON, LEARNING_RATE = 0.99, 0.1, 0.01


def make(cls, **kwargs):
    torch.manual_seed(0)
    kwargs = {"hidden": [8, 8], "include_time": False, **kwargs}
    return cls(feature_names=["a", "b"], **kwargs)


def step(module, batch):
    """Run training_step as Lightning does, with plain optimizers."""
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: True
    module.training_step([batch], 0)
    return module


@pytest.fixture
def drawn(train_batch):
    """Return the batch with every row as often as it counts."""
    rows = torch.arange(len(train_batch.state)).repeat_interleave(train_batch.copies.long())
    return type(train_batch)(*(column[rows] for column in train_batch[:7]))


def value(q):
    return EPSILON * torch.logsumexp(q / EPSILON, dim=1)


def iq(q, next_value, action):
    taken = q.gather(1, action.long()[:, None]).squeeze(1)
    reward = taken - GAMMA * action * next_value
    phi = reward - reward**2 / 2
    return -phi.mean() + (value(q) - GAMMA * action * next_value).mean()


def mse(predicted, observed, action):
    rows = action == 1
    return ((predicted[rows] - observed[rows]) ** 2).mean()


def adam(parameters, loss):
    """Step once with the default Adam."""
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def assert_same_weights(module, expected):
    for (name, a), b in zip(module.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)


def test_classifier_step_is_adam_on_cross_entropy(train_batch, drawn):
    expected = make(Classifier)
    module = step(copy.deepcopy(expected), train_batch)
    net = expected.network
    adam(net.parameters(), cross_entropy(net(drawn.state), drawn.action.long()))
    assert_same_weights(module, expected)


def test_iqs_step_is_adam_on_the_iq_objective(train_batch, drawn):
    expected = make(IQS)
    module = step(copy.deepcopy(expected), train_batch)
    net = expected.network
    next_value = value(net(drawn.next_state))
    adam(net.parameters(), iq(net(drawn.state), next_value, drawn.action))
    assert_same_weights(module, expected)


def test_model_based_alternating_step_updates_dynamics_before_q(train_batch, drawn):
    expected = make(ModelBasedIQS, updates="alternating")
    module = step(copy.deepcopy(expected), train_batch)
    net, batch = expected.network, drawn
    dynamics = [*net.trunk.parameters(), *net.dynamics_head.parameters()]
    predicted = batch.state + net.dynamics_head(net.trunk(batch.state))
    adam(dynamics, mse(predicted, batch.next_state, batch.action))
    predicted = (batch.state + net.dynamics_head(net.trunk(batch.state))).detach()
    q_parameters = [*net.trunk.parameters(), *net.q_head.parameters()]
    adam(q_parameters, iq(net(batch.state), value(net(predicted)), batch.action))
    assert_same_weights(module, expected)


def do_iqs_quantities(module, batch):
    """Return augmented states and y⁻ from the definition of y, history by history.

    Rows come as often as they count.
    """
    with torch.no_grad():
        g = module.gain_network(batch.state)
        y = torch.stack(
            [
                sum(GAMMA ** int(batch.step[k]) * g[k] for k in range(int(first), row + 1))
                for row, first in enumerate(batch.first_row)
            ]
        )
    at = torch.arange(len(y)).repeat_interleave(batch.copies.long())
    now = torch.cat([batch.state, y[:, None]], 1)[at]
    following = y[(at + 1).clamp(max=len(y) - 1)]
    next_state = torch.cat([batch.next_state[at], following[:, None]], 1)
    previous = torch.where(batch.step[at] > 0, y[at - 1], 0.0)
    return now, next_state, previous


def test_do_iqs_joint_step_is_one_backward_of_three_decoupled_losses(train_batch, drawn):
    expected = make(DOIQS, updates="joint")
    module = step(copy.deepcopy(expected), train_batch)
    net, gain, batch = expected.network, expected.gain_network, drawn
    now, next_state, previous = do_iqs_quantities(expected, train_batch)
    features = net.trunk(now)
    predicted = now + net.dynamics_head(features)
    q = net.q_head(features)
    next_value = value(net(predicted.detach()))
    target = (q[:, 1] - GAMMA * next_value - previous).detach()
    rows = batch.action == 1
    gain_loss = ((gain(batch.state) - target)[rows] ** 2).mean()
    total = mse(predicted, next_state, batch.action) + iq(q, next_value, batch.action) + gain_loss
    adam([*net.parameters(), *gain.parameters()], total)
    assert_same_weights(module, expected)


def test_do_iqs_alternating_step_updates_gain_last_with_the_new_q(train_batch, drawn):
    expected = make(DOIQS, updates="alternating")
    module = step(copy.deepcopy(expected), train_batch)
    net, gain, batch = expected.network, expected.gain_network, drawn
    now, next_state, previous = do_iqs_quantities(expected, train_batch)
    predicted = now + net.dynamics_head(net.trunk(now))
    adam(
        [*net.trunk.parameters(), *net.dynamics_head.parameters()],
        mse(predicted, next_state, batch.action),
    )
    predicted = (now + net.dynamics_head(net.trunk(now))).detach()
    adam(
        [*net.trunk.parameters(), *net.q_head.parameters()],
        iq(net(now), value(net(predicted)), batch.action),
    )
    with torch.no_grad():
        predicted = now + net.dynamics_head(net.trunk(now))
        target = net(now)[:, 1] - GAMMA * value(net(predicted)) - previous
    rows = batch.action == 1
    adam(gain.parameters(), ((gain(batch.state) - target)[rows] ** 2).mean())
    assert_same_weights(module, expected)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_every_parameter_is_trained_by_its_part(cls, updates, train_batch):
    module = make(cls, updates=updates)
    before = copy.deepcopy(module.state_dict())
    step(module, train_batch)
    for name, parameter in module.named_parameters():
        assert not torch.equal(parameter, before[name]), name


@pytest.mark.parametrize("cls", ALL)
def test_parts_own_disjoint_parameters_in_a_joint_update(cls):
    module = make(cls, updates="joint")
    owned = [id(p) for part in module.parts for p in module.part_parameters(part)]
    assert len(owned) == len(set(owned)) == len(list(module.parameters()))


@pytest.mark.parametrize("error", ["mse", "l1", "gaussian"])
@pytest.mark.parametrize("value_aware", [False, True])
def test_dynamics_options_train(error, value_aware, train_batch):
    module = make(ModelBasedIQS, dynamics_error=error, value_aware=value_aware)
    step(module, train_batch)
    assert all(torch.isfinite(p).all() for p in module.parameters())


def test_value_aware_term_trains_the_dynamics_but_not_the_q_head(train_batch):
    module = make(ModelBasedIQS, value_aware=True)
    module.dynamics_loss(module.view(train_batch)).value_error.backward()
    assert module.network.dynamics_head.weight.grad.abs().sum() > 0
    assert module.network.q_head.weight.grad is None


def test_synthetic_rows_count_by_the_confidence(train_batch):
    module = make(IQS)
    synthetic = torch.zeros_like(train_batch.synthetic)
    synthetic[::2] = 1
    batch = train_batch._replace(synthetic=synthetic)
    module.confidence.fill_(0.0)
    kept = [field[1::2] for field in batch[:7]]
    without = module.q_loss(module.view(type(batch)(*kept))).total
    torch.testing.assert_close(module.q_loss(module.view(batch)).total, without)


def test_do_iqs_asks_for_whole_paths_when_batched_by_row(train_batch):
    with pytest.raises(ValueError, match="batch_by to paths"):
        step(make(DOIQS), train_batch._replace(first_row=None))


def test_gradient_clip_limits_the_norm_of_each_parts_gradient(train_batch):
    torch.manual_seed(0)
    free, clipped = make(DOIQS), make(DOIQS, gradient_clip=0.3)
    clipped.load_state_dict(free.state_dict())
    for module in (free, clipped):
        step(module, train_batch)
    for part in free.parts:
        torch.nn.utils.clip_grad_norm_(list(free.part_parameters(part)), 0.3)
        for one, other in zip(*(m.part_parameters(part) for m in (free, clipped)), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


def test_y_in_training_equals_y_in_evaluation(train_batch):
    module = make(DOIQS)
    batch, view = train_batch, module.view(train_batch)
    gain = module.gain_network(batch.state)
    evaluated = cumulative_gain(gain, batch.step, batch.first_row, module.gamma)
    output = module.evaluate(batch.state, batch.step, batch.first_row)
    torch.testing.assert_close(view.y, evaluated.detach())
    torch.testing.assert_close(output.previous_y, view.previous_y, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize("members", [1, 3])
def test_step_never_looks_at_the_numbers(cls, updates, members, train_batch):
    """Tensors without data refuse `.item()` and branches: on a GPU nothing waits for a result."""
    module = make(cls, updates=updates, members=members, gradient_clip=None).to("meta")
    if members > 1:
        module.drawn = torch.ones(members, 10, device="meta")
    batch = type(train_batch)(*(column.to("meta") for column in train_batch))
    for part in module.parts:
        module._loss(part, module.view(batch))[0].sum().backward()
    for part in module.parts:
        assert all(p.grad is not None for p in module.part_parameters(part))
