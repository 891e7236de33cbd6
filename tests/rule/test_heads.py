"""Networks of a user's own: built by name, several at once as one by one, refused with reasons."""

import copy

import own_parts
import pytest
import torch
from models import plain_inputs

from lit_ios.checks import UserError
from lit_ios.modules import DOIQS, IQS, ModelBasedIQS
from lit_ios.policy import StoppingPolicy
from lit_ios.rule.heads import MemberHeads, build_head

HEADS = ["Residual", "Dueling", "LoopHead"]


def spec(name, **arguments):
    return {"class_path": f"{own_parts.__name__}.{name}", "init_args": arguments}


@pytest.mark.parametrize("name", HEADS)
def test_members_are_what_each_is_alone_gradients_included(name):
    torch.manual_seed(0)
    together = build_head(spec(name), 3, 2, 4).double().eval()
    torch.manual_seed(0)
    alone = [build_head(spec(name), 3, 2, 1).double().eval() for _ in range(4)]
    assert isinstance(together, MemberHeads)
    assert together._vectorised == (name != "LoopHead")
    state, h = torch.randn(5, 3).double(), torch.randn(4, 5, 2).double()
    weights = torch.randn(4, 5, 2).double()
    q = together(state, h)
    (q * weights).sum().backward()
    for k, head in enumerate(alone):
        own = head(state, h[k])
        torch.testing.assert_close(q[k], own)
        (own * weights[k]).sum().backward()
        for key, parameter in head.named_parameters():
            found = together.get_parameter(key.replace(".", "/")).grad[k]
            torch.testing.assert_close(found, parameter.grad, msg=key)


def test_members_drop_out_for_themselves_in_training_only():
    torch.manual_seed(0)
    together = build_head(spec("Residual", dropout=0.5), 3, 0, 2)
    state, h = torch.randn(50, 3), torch.zeros(50, 0)
    together.train()
    assert not torch.equal(together(state, h), together(state, h))
    together.eval()
    assert torch.equal(together(state, h), together(state, h))


@pytest.mark.parametrize("cls", [IQS, ModelBasedIQS, DOIQS])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize("name", HEADS)
def test_own_network_trains_in_every_variant(cls, members, updates, name, train_batch):
    torch.manual_seed(0)
    module = cls(inputs=plain_inputs(), head=spec(name), members=members, updates=updates)
    before = copy.deepcopy(module.state_dict())
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: True
    module.training_step([train_batch] * 2, 0)
    for key, parameter in module.named_parameters():
        assert torch.isfinite(parameter).all()
        assert not torch.equal(parameter, before[key]), key


def test_own_network_streams_through_torch(path_batch):
    module = IQS(inputs=plain_inputs(), head=spec("Residual"))
    policy = StoppingPolicy(module.rule)
    with torch.no_grad():
        expected = policy.rule.scan(path_batch).margin
    stream = policy.stream()
    for row in range(4):  # of the first path
        found = stream.step(path_batch.columns[row].numpy(), float(path_batch.time[row]))
        assert found.margin == pytest.approx(float(expected[row]), abs=1e-9)


class Wrong(own_parts.Residual):
    def features(self, state, h):
        return super().features(state, h)[:, :2]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (spec("BatchNormHead"), "batch normalisation cannot be used"),
        (spec("Residual", widht=3), "unexpected keyword argument 'widht'"),
        (spec("Average"), "must be a subclass of lit_ios.rule.heads.Head"),
        (spec("Nothing"), "cannot be imported"),
        ({"class_path": f"{__name__}.Wrong"}, "Wrong: two rows cannot be evaluated"),
        ("json.JSONDecoder", "must be a subclass"),
        (
            "never_imported.Head",
            r"not imported because a file names it: allow it with allow=\['nev",
        ),
        ({"class": "x"}, "must be a class path, or a mapping"),
        ({"class_path": "a.B", "args": 1}, "unknown args beside class_path"),
        (own_parts.Residual, "must be a class path"),
    ],
)
def test_what_cannot_be_a_network_is_refused_by_name(head, message):
    with pytest.raises(UserError, match=message):
        IQS(inputs=plain_inputs(), head=head, members=2)
