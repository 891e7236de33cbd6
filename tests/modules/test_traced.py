"""The graph of a training step, compared with the same step done eagerly."""

import copy
import json

import pytest
import torch
from models import plain_inputs

from lit_ios import modules
from lit_ios.batches import TrainBatch
from lit_ios.modules.traced import Rates, rows_of, trace

LB, PATHS = {"copies": True}, {"paths": True}
CASES = {
    "classifier": ("Classifier", {}, {}),
    "iqs": ("IQS", {}, {}),
    "smote": ("IQS", {}, {"synthetic": True}),
    "model_based": ("ModelBasedIQS", {}, {"synthetic": True}),
    "do_iqs": ("DOIQS", {}, PATHS),
    "do_iqs_lb": ("DOIQS", {}, PATHS | LB),
    "alternating": ("DOIQS", {"updates": "alternating", "gradient_clip": 0.1}, PATHS),
    "gain_gradient": ("DOIQS", {"gain_gradient": True, "memory": "accumulate"}, PATHS | LB),
    "value_aware": ("ModelBasedIQS", {"value_aware": True, "dynamics_error": "gaussian"}, {}),
    "accumulate": ("IQS", {"memory": "accumulate"}, PATHS),
    "gru": ("IQS", {"memory": "gru", "normalisation": "layer"}, PATHS),
    "world_with_gru": ("ModelBasedIQS", {"memory": "gru"}, PATHS),
    "policy_objective": ("IQS", {"policy_weight": 0.5, "divergence": "kl"}, PATHS),
    "members": ("DOIQS", {"members": 3, "gradient_clip": 0.1}, PATHS | {"members": 3}),
    "members_with_gru": ("IQS", {"members": 3, "memory": "gru"}, PATHS | {"members": 3}),
    "shared_dynamics": (
        "ModelBasedIQS", {"members": 3, "dynamics_ensemble": True}, {"members": 3},
    ),
    "survival": ("RecurrentSurvival", {}, PATHS),
    "adamw": ("IQS", {"optimizer": "torch.optim.AdamW"}, {}),
}  # fmt: skip


def make_batch(rows, seed, paths=False, copies=False, synthetic=False, members=0):
    """Return random rows, of whole paths of unequal lengths if that is asked for."""
    random = torch.Generator().manual_seed(seed)
    ends = torch.rand(rows, generator=random) < 0.15
    ends[-1] = True
    begin = torch.cat([torch.ones(1, dtype=torch.bool), ends[:-1]])
    first = torch.cummax(torch.where(begin, torch.arange(rows), 0), 0).values
    state = torch.randn(rows, 3, generator=random)
    made = (torch.rand(rows, generator=random) < 0.3) & ends if synthetic else ends & False
    shape = (members, rows) if members else (rows,)
    count = torch.randint(1 if not copies else 0, 4 if copies else 2, shape, generator=random)
    return TrainBatch(
        state=state.double(),
        action=(~ends).double(),
        next_state=state.roll(-1, 0).masked_fill(ends[:, None], 0).double(),
        step=torch.arange(rows) - first,
        synthetic=made.double(),
        copies=count.double(),
        first_row=first if paths else None,
        seen=torch.ones(members, rows).double() if members else None,
    )


def make(name, **more):
    """Return a module in double precision, its optimizers, and what its batches are like."""
    cls, settings, kind = CASES[name]
    torch.manual_seed(0)
    settings = {"hidden": [8, 8], "gamma": 0.9, **settings, **more}
    module = getattr(modules, cls)(inputs=plain_inputs("abc"), **settings).double()
    module.rule.epsilon.fill_(0.37)
    module.confidence.fill_(0.6)
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    return module, optimizers, kind


@pytest.mark.parametrize("name", CASES)
def test_the_graph_does_what_an_eager_step_does(name):
    module, optimizers, kind = make(name)
    traced = trace(module, module._flat, optimizers, make_batch(50, 0, **kind))
    step, rates = traced.program.module(), Rates(module, module._flat, optimizers)
    eager, own, _ = make(name)
    before = eager._flat.weights.clone()
    for seed, rows in enumerate([50, 2, 64, 131, 70]):  # also those it was not traced with
        batch = make_batch(rows, seed, **kind)
        if rows == 70:  # what differs from epoch to epoch
            for each, steps in ((module, optimizers), (eager, own)):
                each.rule.epsilon.fill_(0.2)
                each.confidence.fill_(0.3)
                for optimizer in steps:
                    optimizer.param_groups[0]["lr"] = 0.003
        found = step(*rates.inputs(), *rows_of(batch))
        found = found if isinstance(found, torch.Tensor) else found[0]
        eager._flat.collect()
        eager._learn(batch, own, torch.Tensor.backward)
        torch.testing.assert_close(found, eager._terms._recent[-1], rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(module._flat.weights, eager._flat.weights, rtol=0, atol=1e-7)
    assert traced.names == eager._terms.names
    assert (eager._flat.weights - before).abs().max() > 0.01
    for one, other in zip(optimizers, own, strict=True):
        states = [next(iter(each.state.values())) for each in (one, other)]
        for key in ("step", "exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(states[0][key], states[1][key], rtol=1e-6, atol=1e-9)


def test_tracing_changes_nothing():
    module, optimizers, kind = make("do_iqs_lb")
    before = copy.deepcopy(module.state_dict())
    trace(module, module._flat, optimizers, make_batch(50, 0, **kind))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_cases_are_all_variants_and_memories():
    shipped = {cls for cls, _, _ in CASES.values()}
    assert shipped == {"Classifier", "IQS", "ModelBasedIQS", "DOIQS", "RecurrentSurvival"}
    settings = json.dumps([given for _, given, _ in CASES.values()])
    assert all(memory in settings for memory in ("accumulate", "gru"))
