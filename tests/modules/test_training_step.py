"""Training steps of every class, compared with the same mathematics written out by hand."""

import copy

import pytest
import torch
from models import plain_inputs
from torch.nn.functional import cross_entropy

from lit_ios.functional import cumulative_gain
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS

ALL = [Classifier, IQS, ModelBasedIQS, DOIQS]
GAMMA, EPSILON, LEARNING_RATE, STEPS = 0.9, 0.37, 0.01, 5


def make(cls, **kwargs):
    """Make a model whose temperature has moved away from its first value."""
    torch.manual_seed(0)
    kwargs = {"hidden": [8, 8], "gamma": GAMMA, **kwargs}
    module = cls(inputs=plain_inputs(), **kwargs)
    module.rule.epsilon.fill_(EPSILON)
    return module


def train(module, batch, steps=STEPS, chunk=1):
    """Run training_step as Lightning does, with plain optimizers."""
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: True
    for _ in range(steps // chunk):
        module.training_step([batch] * chunk, 0)
    return module


def gradients(module, batch, parts=None):
    """Return the gradient of the parts' losses, by parameter."""
    module.zero_grad()
    view, records = module.view(batch), {}
    sum(module._part_loss(part, view, records) for part in parts or module.parts).backward()
    return {name: p.grad for name, p in module.named_parameters()}


def assert_same_gradients(found, expected):
    for name, parameter in expected.named_parameters():
        zero = torch.zeros_like(parameter)
        a, b = (zero if g is None else g for g in (found[name], parameter.grad))
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)


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


class Networks:
    """The networks of a module as functions of (s, y)."""

    def __init__(self, module):
        rule = module.rule
        self.trunk, self.q_head = rule.head.trunk, rule.head.q
        self.change = None if rule.dynamics is None else rule.dynamics.change
        self.memory = rule.memory

    def q(self, state):
        return self.q_head(self.trunk(state))

    def successor(self, state):
        return state + self.change(self.trunk(state))

    def gain(self, state):
        return self.memory.head(self.memory.trunk(state)).squeeze(-1)

    def parameters(self, *parts):
        return [p for part in parts for p in part.parameters()]


def test_classifier_gradient_is_that_of_the_cross_entropy(train_batch, drawn):
    expected = make(Classifier)
    found = gradients(copy.deepcopy(expected), train_batch)
    net = Networks(expected)
    cross_entropy(net.q(drawn.state) / EPSILON, drawn.action.long()).backward()
    assert_same_gradients(found, expected)


def test_iqs_gradient_is_that_of_the_iq_objective(train_batch, drawn):
    expected = make(IQS)
    found = gradients(copy.deepcopy(expected), train_batch)
    net = Networks(expected)
    iq(net.q(drawn.state), value(net.q(drawn.next_state)), drawn.action).backward()
    assert_same_gradients(found, expected)


def test_q_loss_in_a_learnt_world_takes_the_predicted_successor_as_given(train_batch, drawn):
    expected = make(ModelBasedIQS)
    found = gradients(copy.deepcopy(expected), train_batch, ["q"])
    assert found["rule.dynamics.change.weight"] is None
    net = Networks(expected)
    predicted = net.successor(drawn.state).detach()
    iq(net.q(drawn.state), value(net.q(predicted)), drawn.action).backward()
    assert_same_gradients(found, expected)


def augmented(module, batch):
    """Return states and successors with y, and y⁻, by the definition of y, history by history.

    Rows come as often as they count.
    """
    with torch.no_grad():
        g = Networks(module).gain(batch.state)
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


def do_iqs_losses(module, batch, drawn):
    """Return the three losses of DO-IQS, what each holds constant being constant."""
    net = Networks(module)
    now, next_state, previous = augmented(module, batch)
    predicted, q = net.successor(now), net.q(now)
    next_value = value(net.q(predicted.detach()))
    target = (q[:, 1] - GAMMA * next_value - previous).detach()
    rows = drawn.action == 1
    return {
        "dynamics": mse(predicted, next_state, drawn.action),
        "q": iq(q, next_value, drawn.action),
        "gain": ((net.gain(drawn.state) - target)[rows] ** 2).mean(),
    }


@pytest.mark.parametrize("part", ["dynamics", "q", "gain"])
def test_each_loss_of_do_iqs_has_the_gradient_of_its_definition(part, train_batch, drawn):
    expected = make(DOIQS)
    found = gradients(copy.deepcopy(expected), train_batch, [part])
    do_iqs_losses(expected, train_batch, drawn)[part].backward()
    assert_same_gradients(found, expected)


def test_no_gradient_of_q_or_dynamics_reaches_the_gain_network(train_batch):
    found = gradients(make(DOIQS), train_batch, ["dynamics", "q"])
    assert all(g is None for name, g in found.items() if name.startswith("rule.memory"))


def assert_same_weights(module, expected):
    for (name, a), b in zip(module.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5, msg=name)


def test_joint_steps_of_do_iqs_are_adam_on_the_sum_of_its_losses(train_batch, drawn):
    expected = make(DOIQS, updates="joint")
    module = train(copy.deepcopy(expected), train_batch)
    optimizer = torch.optim.Adam(expected.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        sum(do_iqs_losses(expected, train_batch, drawn).values()).backward()
        optimizer.step()
    assert_same_weights(module, expected)


def test_alternating_steps_build_each_loss_after_the_part_before_has_stepped(train_batch, drawn):
    expected = make(DOIQS, updates="alternating")
    module = train(copy.deepcopy(expected), train_batch)
    net = Networks(expected)
    owned = {
        "dynamics": net.parameters(net.trunk, net.change),
        "q": net.parameters(net.trunk, net.q_head),
        "gain": net.parameters(net.memory),
    }
    optimizers = {part: torch.optim.Adam(p, lr=LEARNING_RATE) for part, p in owned.items()}
    for _ in range(STEPS):
        for part, optimizer in optimizers.items():
            expected.zero_grad()
            do_iqs_losses(expected, train_batch, drawn)[part].backward()
            optimizer.step()
    assert_same_weights(module, expected)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_every_parameter_is_trained_by_its_part(cls, updates, train_batch):
    module = make(cls, updates=updates)
    before = copy.deepcopy(module.state_dict())
    train(module, train_batch, 1)
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
    train(module, train_batch, 1)
    assert all(torch.isfinite(p).all() for p in module.parameters())


def test_value_aware_term_is_the_error_of_the_value_at_the_predicted_successor(train_batch, drawn):
    module = make(ModelBasedIQS, value_aware=True)
    found = module.dynamics_loss(module.view(train_batch)).value_error
    net = Networks(module)
    predicted = value(net.q(net.successor(drawn.state)))
    error = ((predicted - value(net.q(drawn.next_state)))[drawn.action == 1] ** 2).mean()
    torch.testing.assert_close(found, error)


def test_value_aware_term_trains_the_dynamics_but_not_the_values(train_batch):
    module = make(ModelBasedIQS, value_aware=True)
    module.dynamics_loss(module.view(train_batch)).value_error.backward()
    assert module.rule.dynamics.change.weight.grad.abs().sum() > 0
    assert module.rule.head.q.weight.grad is None


def test_synthetic_rows_count_by_the_confidence(train_batch):
    module = make(IQS)
    synthetic = torch.zeros_like(train_batch.synthetic)
    synthetic[::2] = 1
    batch = train_batch._replace(synthetic=synthetic)
    module.confidence.fill_(0.0)
    kept = [field[1::2] for field in batch[:6]]
    without = module.q_loss(module.view(type(batch)(*kept))).total
    torch.testing.assert_close(module.q_loss(module.view(batch)).total, without)


def test_do_iqs_asks_for_whole_paths_when_batched_by_row(train_batch):
    with pytest.raises(ValueError, match="batch_by to auto or paths"):
        train(make(DOIQS), train_batch._replace(first_row=None), 1)


def test_gradient_clip_limits_the_norm_of_each_parts_gradient(train_batch):
    free, clipped = make(DOIQS), make(DOIQS, gradient_clip=0.3)
    for module in (free, clipped):
        train(module, train_batch, 1)
    for part in free.parts:
        torch.nn.utils.clip_grad_norm_(list(free.part_parameters(part)), 0.3)
        for one, other in zip(*(m.part_parameters(part) for m in (free, clipped)), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


def test_y_in_training_equals_y_in_evaluation(train_batch):
    module = make(DOIQS)
    batch, view = train_batch, module.view(train_batch)
    gain = module.rule.memory.gain(batch.state)
    evaluated = cumulative_gain(gain, batch.step, batch.first_row, GAMMA)
    torch.testing.assert_close(view.h[:, 0], evaluated.detach())
    scanned = module.rule.memory.scan(batch.state, batch.step, batch.first_row)
    torch.testing.assert_close(view.h, scanned.detach())


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize("members", [1, 3])
def test_step_never_looks_at_the_numbers(cls, updates, members, train_batch):
    """Tensors without data refuse `.item()` and branches: on a GPU nothing waits for a result."""
    module = make(cls, updates=updates, members=members, gradient_clip=None).to("meta")
    batch = type(train_batch)(*(c if c is None else c.to("meta") for c in train_batch))
    if members > 1:
        batch = batch._replace(copies=batch.copies.expand(members, -1))
    for part in module.parts:
        module._part_loss(part, module.view(batch), {}).sum().backward()
    for part in module.parts:
        assert all(p.grad is not None for p in module.part_parameters(part))


@pytest.mark.parametrize("members", [1, 3])
def test_policy_objective_counts_rows_as_often_as_the_member_sees_them(members, train_batch):
    """E11 of each member, row by row, on the paths that the member drew."""
    module = make(IQS, members=members, policy_weight=1.0)
    batch = train_batch
    paths = torch.unique(batch.first_row, return_inverse=True)[1]
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, 3, (members, int(paths.max()) + 1), generator=generator).float()
    if members > 1:
        batch = batch._replace(seen=drawn[:, paths])
    found = module._policy_loss(module.view(batch)).total.reshape(members)
    with torch.no_grad():
        q = module.rule.values(batch.state, batch.state[:, :0]).reshape(members, -1, 2)
    for k in range(members):
        stays, stops = [0.0, 0.0], [0.0, 0.0]
        for row in range(len(batch.state)):
            survival = 1.0
            for other in range(int(batch.first_row[row]), row + 1):
                margin = q[k, other, 0] - q[k, other, 1]
                survival *= 1 - torch.sigmoid(margin / EPSILON)
            count = drawn[k, paths[row]] if members > 1 else 1.0
            total = stays if batch.action[row] == 1 else stops
            total[0] += count * (survival if batch.action[row] == 1 else 1 - survival)
            total[1] += count
        expected = -0.5 * (stays[0] / stays[1] + stops[0] / stops[1])
        torch.testing.assert_close(found[k].detach(), expected, rtol=1e-4, atol=1e-5)
