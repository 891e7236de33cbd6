"""What a module remembers: gradients against loops over rows, refusals, all variants."""

import pytest
import pytorch_lightning as pl
import torch
from models import make

from datamodules import ChangePointData
from lit_ios.functional import cross_entropy_loss, iq_loss, soft_value
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS, RecurrentSurvival

KINDS = ["accumulate", "gru"]
MODULES = [Classifier, IQS, ModelBasedIQS, DOIQS, RecurrentSurvival]


def looped(memory, batch):
    """Return h of all rows by advancing row by row, with gradients."""
    h, rows = None, []
    for row in range(len(batch.state)):
        t = batch.step[row : row + 1]
        if int(t) == 0:
            h = memory.init(1).to(batch.state.dtype)
        h = memory.advance(h, batch.state[row : row + 1], t)
        rows.append(h)
    return torch.cat(rows, -2)


def double(batch):
    return type(batch)(
        *(x.double() if x is not None and x.is_floating_point() else x for x in batch)
    )


def gradients(loss, module):
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
    return dict(zip(names, found, strict=True))


def assert_same(found, expected):
    for name in expected:
        if expected[name] is None:
            assert found[name] is None or not found[name].any(), name
        else:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_q_flows_through_h_and_the_successors_h_as_in_a_loop(
    train_batch, kind, members
):
    batch = double(train_batch)
    module = make(IQS, memory=kind, members=members, seed=0).double()
    found = gradients(module.q_loss(module.view(batch)).total, module)
    h = looped(module.rule.memory, batch)
    value = module.rule.values(batch.state, h)
    below = torch.cat([value[..., 1:, :], value[..., :1, :]], -2)  # the row after, in the path
    naive = iq_loss(
        value, soft_value(below, module.rule.epsilon), batch.action, batch.step, batch.synthetic,
        batch.copies, epsilon=module.rule.epsilon, gamma=module.rule.gamma,
    ).total  # fmt: skip
    expected = gradients(naive, module)
    assert any(expected[name].any() for name in expected if "memory" in name)
    assert_same(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_learns_what_to_remember(train_batch, kind):
    batch = double(train_batch)
    module = make(Classifier, memory=kind, seed=0).double()
    found = gradients(module.q_loss(module.view(batch)).total, module)
    q = module.rule.values(batch.state, looped(module.rule.memory, batch))
    naive = cross_entropy_loss(q, batch.action, batch.copies, module.rule.epsilon).total
    assert_same(found, gradients(naive, module))


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_learnt_world_h_advances_to_a_successor_held_constant(train_batch, kind):
    batch = double(train_batch)
    module = make(ModelBasedIQS, memory=kind, seed=0).double()
    rule = module.rule
    found = gradients(module.q_loss(module.view(batch)).total, module)
    h = looped(rule.memory, batch)
    features = rule.head.features(batch.state, h)
    constant = (batch.state + rule.dynamics.change(features)).detach()
    following = rule.memory.advance(h, constant, batch.step + 1)
    next_value = soft_value(rule.values(constant, following), rule.epsilon)
    naive = iq_loss(
        rule.head.values(features), next_value, batch.action, batch.step, batch.synthetic,
        batch.copies, epsilon=rule.epsilon, gamma=rule.gamma,
    ).total  # fmt: skip
    assert_same(found, gradients(naive, module))


@pytest.mark.parametrize("cls", [ModelBasedIQS, DOIQS])
@pytest.mark.parametrize("kind", KINDS)
def test_the_dynamics_do_not_train_the_memory(train_batch, cls, kind):
    module = make(cls, memory=kind, seed=0)
    found = gradients(module.dynamics_loss(module.view(train_batch)).total, module)
    assert all(g is None or not g.any() for name, g in found.items() if ".memory." in name)
    assert found["rule.head.trunk.0.weight"].any()


@pytest.mark.parametrize("kind", [None, "gru"])
def test_q_trains_the_gain_network_only_if_told_to(train_batch, kind):
    batch = double(train_batch)
    found = {}
    for told in (False, True):
        module = make(DOIQS, gain_gradient=told, memory=kind, seed=0).double()
        found[told] = gradients(module.q_loss(module.view(batch)).total, module)
    memory = "rule.memory." if kind is None else "rule.memory.memories.0."
    gain = [name for name in found[True] if name.startswith(memory)]
    assert gain
    assert all(found[False][name] is None or not found[False][name].any() for name in gain)
    y = looped(module.rule.memory, batch)
    rule = module.rule
    features = rule.head.features(batch.state, y)
    predicted = rule.predict(batch.state, y, features)[0].detach()
    next_q = rule.values(*rule.split(predicted, y, batch.step))
    naive = iq_loss(
        rule.head.values(features), soft_value(next_q, rule.epsilon), batch.action, batch.step,
        batch.synthetic, batch.copies, epsilon=rule.epsilon, gamma=rule.gamma,
    ).total  # fmt: skip
    expected = gradients(naive, module)
    for name in gain:
        torch.testing.assert_close(found[True][name], expected[name], rtol=1e-6, atol=1e-9)


def test_alternating_gain_steps_see_the_sum_of_both_losses(train_batch):
    batch = double(train_batch)
    module = make(DOIQS, gain_gradient=True, updates="alternating", seed=0).double()
    view = module.view(batch)
    both = gradients(module.gain_loss(view).total, module)
    joint = make(DOIQS, gain_gradient=True, seed=0).double()
    view = joint.view(batch)
    alone = gradients(joint.gain_loss(view).total + joint.q_loss(view).total, joint)
    gain = [name for name in both if ".memory." in name]
    for name in gain:
        torch.testing.assert_close(both[name], alone[name], rtol=1e-9, atol=1e-12)


def test_of_whole_paths_the_row_below_is_the_successor(train_batch):
    module = make(IQS, seed=0)
    by_row = module.view(train_batch._replace(first_row=None))
    by_path = module.view(train_batch)
    goes_on = train_batch.action > 0
    goes_on[train_batch.copies == 0] = False  # the last row of a censored path
    torch.testing.assert_close(by_path.next_value[goes_on], by_row.next_value[goes_on])
    torch.testing.assert_close(
        module.q_loss(by_path).total, module.q_loss(by_row).total, rtol=1e-5, atol=1e-6
    )


def train(module, **options):
    data = ChangePointData(paths=24, test_paths=6, batch_size=60, **options)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    torch.manual_seed(0)
    made = module(data)
    trainer.fit(made, data)
    return made


@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cls", MODULES)
def test_every_variant_trains_with_every_memory(cls, kind, updates):
    def module(data):
        return cls.for_data(data, hidden=[8], memory=kind, members=2, updates=updates)

    before = cls.for_data(
        ChangePointData(paths=24, test_paths=6), hidden=[8], memory=kind, members=2
    )
    drawn = "none" if cls is RecurrentSurvival else "bootstrap"
    trained = train(module, oversampling=drawn, folds=2)
    moved = [
        not torch.equal(a, b)
        for a, b in zip(
            trained.rule.memory.parameters(), before.rule.memory.parameters(), strict=True
        )
    ]
    assert all(moved)


@pytest.mark.parametrize("cls", MODULES[:-1])
@pytest.mark.parametrize("kind", KINDS)
def test_synthetic_rows_have_no_past_to_remember(cls, kind):
    with pytest.raises(ValueError, match="SMOTE rows do not have"):
        train(lambda data: cls.for_data(data, hidden=[8], memory=kind), oversampling="smote")


def test_memory_refuses_batches_that_tear_paths_apart():
    with pytest.raises(ValueError, match=r"set data\.init_args\.batch_by to auto or paths"):
        train(lambda data: IQS.for_data(data, hidden=[8], memory="gru"), batch_by="rows")


def test_an_unknown_memory_is_an_error_that_lists_those_there_are():
    with pytest.raises(ValueError, match="none, accumulate, gru or a class path, got 'lstm'"):
        make(IQS, memory="lstm")


@pytest.mark.parametrize("kind", KINDS)
def test_members_remember_as_each_would_alone(kind):
    together = make(IQS, memory=kind, members=3, seed=0).rule.memory.double()
    alone = make(IQS, memory=kind, seed=1).rule.memory.double()
    state = torch.randn(9, 2, dtype=torch.double)
    step = torch.tensor([0, 1, 2, 3, 0, 1, 0, 1, 2])
    first = torch.tensor([0, 0, 0, 0, 4, 4, 6, 6, 6])
    for k in range(3):
        with torch.no_grad():
            for (_, one), (_, all_of_them) in zip(
                alone.named_parameters(), together.named_parameters(), strict=True
            ):
                values = all_of_them[k]
                one.copy_(values.T if one.ndim == 2 else values.reshape(one.shape))
        torch.testing.assert_close(
            together.scan(state, step, first)[k], alone.scan(state, step, first)
        )


def test_successors_are_drawn_from_the_predicted_distribution(train_batch):
    batch = double(train_batch)
    options = {"dynamics_error": "gaussian", "seed": 0}
    plain = make(ModelBasedIQS, **options).double()
    drawn = make(ModelBasedIQS, successor_samples=4000, **options).double()
    torch.manual_seed(0)
    found = drawn.view(batch).next_value
    mean, log_variance = plain.view(batch).prediction
    rule, total = plain.rule, 0.0
    generator = torch.Generator().manual_seed(1)
    for _ in range(4000):
        noise = torch.randn(mean.shape, dtype=mean.dtype, generator=generator)
        successor = mean + (0.5 * log_variance).exp() * noise
        total = total + soft_value(rule.values(successor, successor[:, :0]), rule.epsilon)
    torch.testing.assert_close(found, total / 4000, rtol=0, atol=0.02)


def test_members_can_share_the_mean_of_their_predicted_successors(train_batch):
    module = make(ModelBasedIQS, members=3, dynamics_ensemble=True, seed=0)
    view = module.view(train_batch)
    mean = torch.stack(list(view.prediction[0])).mean(0)
    for k in range(3):
        torch.testing.assert_close(view.successor[k], mean)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"successor_samples": 3}, "needs dynamics_error: gaussian"),
        ({"dynamics_ensemble": True}, "needs several members"),
    ],
)
def test_what_cannot_be_honoured_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(ModelBasedIQS, **options)


@pytest.mark.parametrize("kind", ["bootstrap", "smote"])
def test_survival_analysis_takes_each_path_once(kind):
    with pytest.raises(ValueError, match="takes each path whole and once"):
        train(
            lambda data: RecurrentSurvival.for_data(data, hidden=[8], memory="none"),
            oversampling=kind,
        )


def test_dynamics_are_not_shared_between_members_that_leave_out_different_paths():
    with pytest.raises(ValueError, match="cannot be used with folds"):
        train(
            lambda data: ModelBasedIQS.for_data(
                data, hidden=[8], members=2, dynamics_ensemble=True
            ),
            folds=2,
        )


@pytest.mark.parametrize("option", [{"smote_windows": 2}, {"synthetic_confidence": "neighbors"}])
def test_options_of_synthetic_rows_need_such_rows(option):
    with pytest.raises(ValueError, match="needs oversampling: smote"):
        ChangePointData(oversampling="bootstrap", **option)


def test_gated_units_learn_in_mixed_precision_wherever_the_backward_pass_runs():
    memory = make(IQS, memory="gru", members=2, seed=0).rule.memory
    state, step, first = torch.randn(6, 2), torch.arange(6), torch.zeros(6, dtype=torch.long)
    plain = torch.autograd.grad(memory.scan(state, step, first).sum(), memory.recurrent.weight)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = memory.scan(state, step, first)
    (mixed,) = torch.autograd.grad(h.sum(), memory.recurrent.weight)
    torch.testing.assert_close(mixed, plain, rtol=0.05, atol=0.05)
