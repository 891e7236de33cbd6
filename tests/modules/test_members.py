"""Several members trained at once, against the same networks trained one by one."""

import numpy as np
import pytest
import torch
from models import make

from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS
from lit_ios.rule.layers import StackedLinear
from lit_ios.sampling.oversampling import bootstrap_copies

ALL = [Classifier, IQS, ModelBasedIQS, DOIQS]
MEMBERS = 3


def train(module, batch, steps=4):
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: True
    module.training_step([batch] * steps, 0)


def member(module, cls, number, **kwargs):
    """Return a single network with the weights of one member."""
    alone = make(cls, hidden=[8, 6], **kwargs)
    stacked = dict(module.named_parameters())
    with torch.no_grad():
        for name, parameter in alone.named_parameters():
            weight = stacked[name][number]  # (in, out), or (1, out) for biases and scales
            parameter.copy_(weight.T if parameter.ndim == 2 else weight[0])
    return alone


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize(
    "settings", [{}, {"normalisation": "layer"}, {"gradient_clip": 0.01}], ids=str
)
def test_members_train_as_they_would_alone(cls, updates, settings, train_batch, path_batch):
    torch.manual_seed(0)
    kwargs = {"updates": updates, **settings}
    together = make(cls, hidden=[8, 6], members=MEMBERS, **kwargs)
    alone = [member(together, cls, k, **kwargs) for k in range(MEMBERS)]
    draws = np.random.default_rng(0).integers(0, 3, (MEMBERS, len(train_batch.step)))
    copies = train_batch.copies * torch.from_numpy(draws).float()  # (K, B)
    train(together, train_batch._replace(copies=copies))
    remembered = together.rule.remember(path_batch)
    q = together.rule.values(*remembered)
    for k, single in enumerate(alone):
        train(single, train_batch._replace(copies=copies[k]))
        state, h = single.rule.remember(path_batch)
        torch.testing.assert_close(q[k], single.rule.values(state, h), rtol=1e-3, atol=1e-4)
        if h.shape[-1]:
            torch.testing.assert_close(remembered.h[k], h, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3, 20])
def test_stacked_layers_are_those_of_the_members(outputs):
    layer = StackedLinear(20, outputs, MEMBERS).double()
    assert layer.narrow is (outputs < 16)
    state = torch.randn(MEMBERS, 7, 20, dtype=torch.double, requires_grad=True)
    for k in range(MEMBERS):
        expected = torch.nn.functional.linear(state[k], layer.weight[k].T, layer.bias[k, 0])
        torch.testing.assert_close(layer(state)[k], expected)
    weights = dict(layer.named_parameters())

    def apply(state, *values):
        named = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(layer, named, (state,))

    assert torch.autograd.gradcheck(apply, (state, *weights.values()))
    assert torch.autograd.gradgradcheck(apply, (state, *weights.values()))


@pytest.mark.parametrize("outputs", [3, 20])
def test_stacked_layers_learn_in_mixed_precision(outputs):
    layer = StackedLinear(20, outputs, MEMBERS)
    state = torch.randn(MEMBERS, 7, 20)
    gradients = []
    for enabled in (False, True):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled):
            loss = layer(state).square().mean()
        loss.backward()
        gradients.append([parameter.grad for parameter in layer.parameters()])
    for exact, rounded in zip(*gradients, strict=True):
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("cls", ALL)
def test_members_begin_with_weights_of_their_own(cls):
    for name, parameter in make(cls, members=MEMBERS).named_parameters():
        assert not torch.equal(parameter[0], parameter[1]), name


def lower_median(values):
    """Return the value that as many members reach as do not, or one more do."""
    return np.array([sorted(column)[(len(column) - 1) // 2] for column in values.T])


@pytest.mark.parametrize("members", [2, 3, 8])
@pytest.mark.parametrize("cls", ALL)
def test_members_speak_by_the_median_of_their_margins_and_gains(cls, members, path_batch):
    module = make(cls, members=members, seed=0).eval()
    rule = module.rule
    with torch.no_grad():
        found = rule.scan(path_batch, details=True)
        state, h = rule.remember(path_batch)
        q = rule.values(state, h)
    margins = (q[..., 0] - q[..., 1]).numpy()
    assert margins.shape == (members, len(path_batch.step))
    np.testing.assert_allclose(found.margin, lower_median(margins), atol=1e-6)
    np.testing.assert_allclose(found.stop_gain, lower_median(q[..., 0].numpy()), atol=1e-6)
    np.testing.assert_allclose(found.margin_spread, margins.std(0, ddof=1), atol=1e-6)
    if cls is DOIQS:
        with torch.no_grad():
            gains = rule.memory.gain(state).numpy()
        np.testing.assert_allclose(found.continuation_gain, lower_median(gains), atol=1e-6)


def test_only_the_members_asked_judge_a_path(path_batch):
    rule = make(DOIQS, members=4, seed=0).eval().rule
    judges = torch.tensor([[k <= p % 4 for p in range(9)] for k in range(4)])
    with torch.no_grad():
        found = rule.scan(path_batch, judges).margin
        q = rule.values(*rule.remember(path_batch))
    for row, path in enumerate(path_batch.path.tolist()):
        asked = [float(q[k, row, 0] - q[k, row, 1]) for k in range(4) if judges[k, path]]
        assert float(found[row]) == pytest.approx(sorted(asked)[(len(asked) - 1) // 2], abs=1e-6)


def test_one_member_has_no_spread(path_batch):
    assert make(IQS).eval().rule.scan(path_batch).margin_spread is None


def test_each_member_draws_as_many_paths_as_there_are():
    copies = bootstrap_copies(200, 30, np.random.default_rng(0))
    assert copies.shape == (200, 30)
    assert (copies.sum(1) == 30).all()
    # a path is left out with probability (1 − 1/30)^30
    left_out = (copies == 0).mean()
    assert abs(left_out - (1 - 1 / 30) ** 30) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("model", ["do_iqs_lb", "iqs_smote", "classifier"])
def test_members_train_test_predict_and_resume(model, run_train, tmp_path):
    members = "--model.init_args.members=3"
    whole = run_train("fit", members, "--trainer.max_epochs=2", model=model)
    whole = {name: value.clone() for name, value in whole.model.state_dict().items()}
    first = run_train("fit", members, "--trainer.max_epochs=1", model=model)
    checkpoint = f"{first.trainer.log_dir}/checkpoints/last.ckpt"
    again = ("fit", "--ckpt_path", checkpoint, "--trainer.max_epochs=2")
    resumed = run_train(*again, data="", model="", small=False)
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, whole[name]), name
    output = tmp_path / "decisions.csv"
    run_train(
        "predict", "--ckpt_path", checkpoint, f"--output={output}", data="", model="", small=False
    )
    assert "margin_spread" in output.read_text().splitlines()[0]
