"""Optimizers by name: stepped as PyTorch steps them, however the batches are handed over."""

import copy
import warnings

import pytest
import pytorch_lightning as pl
import torch
from models import plain_inputs

from datamodules import ChangePointData
from lit_ios.checks import UserError
from lit_ios.modules import DOIQS, IQS

KINDS = {
    "Adam": {},
    "AdamW": {"weight_decay": 1.0},
    "SGD": {"momentum": 0.9, "nesterov": True, "lr": 0.02},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {},
    "NAdam": {},
}
# not element-wise: stepped parameter by parameter
WHOLE_TENSORS = {"Adafactor": {"lr": 0.01}, "Rprop": {}}


def spec(name, arguments):
    return {"class_path": f"torch.optim.{name}", "init_args": arguments}


class Wrapped:
    """What Lightning's wrapper of an optimizer looks like from here."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def step(self):
        self.optimizer.step()


def batches(train_batch, count):
    """Return batches that differ from each other."""
    generator = torch.Generator().manual_seed(0)
    noise = [torch.randn(train_batch.state.shape, generator=generator) for _ in range(count)]
    return [train_batch._replace(state=train_batch.state + 0.3 * n) for n in noise]


def train(module, given, chunk):
    optimizers = [Wrapped(entry["optimizer"]) for entry in module.configure_optimizers()]
    module.optimizers = lambda: optimizers
    module.manual_backward = lambda loss: loss.backward()
    module._needs_wrapping = lambda: False
    for start in range(0, len(given), chunk):
        module.training_step(given[start : start + chunk], 0)


@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("updates", ["joint", "alternating"])
@pytest.mark.parametrize(("name", "arguments"), (KINDS | WHOLE_TENSORS).items())
def test_parts_are_stepped_as_by_the_optimizer_alone(name, arguments, updates, chunk, train_batch):
    """Twelve batches in chunks, beside one optimizer of PyTorch per part and tensor."""
    torch.manual_seed(0)
    module = DOIQS(
        inputs=plain_inputs(), hidden=[8], updates=updates, optimizer=spec(name, arguments)
    )
    plain, given = copy.deepcopy(module), batches(train_batch, 12)
    train(module, given, chunk)
    optimizers = {
        part: getattr(torch.optim, name)(
            list(plain.part_parameters(part)), **({"lr": 0.01} | arguments)
        )
        for part in plain.parts
    }
    for batch in given:
        if updates == "joint":
            plain.zero_grad()
            view = plain.view(batch)
            sum(plain._part_loss(part, view, {}) for part in plain.parts).backward()
            for optimizer in optimizers.values():
                optimizer.step()
            continue
        for part, optimizer in optimizers.items():
            plain.zero_grad()
            plain._part_loss(part, plain.view(batch), {}).backward()
            for other, kept in optimizers.items():  # a step clears what is not its own
                if other != part:
                    own = {id(p) for p in plain.part_parameters(part)}
                    for p in kept.param_groups[0]["params"]:
                        p.grad = p.grad if id(p) in own else None
            optimizer.step()
    for (key, found), expected in zip(module.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-5, msg=key)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "RMSprop"])
def test_chunks_of_batches_train_as_single_batches_do(name):
    weights = []
    for size in (1, 5):
        data = ChangePointData(
            paths=30, test_paths=5, oversampling="bootstrap", batch_by="paths", batch_size=40,
            batches_per_call=size,
        )  # fmt: skip
        torch.manual_seed(0)
        model = DOIQS.for_data(data, hidden=[8], optimizer=spec(name, KINDS[name]))
        trainer = pl.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(model, data)
        weights.append(model.state_dict())
    for key, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][key], rtol=1e-4, atol=1e-6, msg=key)


def test_each_part_may_have_an_optimizer_of_its_own(train_batch):
    own = {"q": spec("SGD", {"lr": 0.0}), "gain": spec("AdamW", {"lr": 0.5})}
    torch.manual_seed(0)
    module = DOIQS(inputs=plain_inputs(), hidden=[8], optimizer=own)
    before = copy.deepcopy(module.state_dict())
    train(module, batches(train_batch, 3), 3)
    kinds = [type(entry["optimizer"]).__name__ for entry in module.configure_optimizers()]
    assert kinds == ["Adam", "SGD", "AdamW"]
    assert torch.equal(module.rule.head.q.weight, before["rule.head.q.weight"])
    moved = (module.rule.memory.head.weight - before["rule.memory.head.weight"]).abs().max()
    assert moved > 0.4


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ("torch.optim.LBFGS", "LBFGS needs a closure"),
        ({"dynamics": "torch.optim.SGD"}, "there is no part 'dynamics'; the parts are q"),
        ("torch.optim.Adamm", "cannot be imported"),
        ("torch.nn.Linear", "must be a subclass of torch.optim"),
        (spec("SGD", {"momentun": 1}), "unexpected keyword argument 'momentun'"),
        ("os.system", "is not imported because a file names it|must be a subclass"),
        (3, "must be a class path"),
    ],
)
def test_what_cannot_be_an_optimizer_is_refused_by_name(optimizer, message):
    with pytest.raises(UserError, match=message):
        IQS(inputs=plain_inputs(), optimizer=optimizer).configure_optimizers()


def test_learning_rate_is_the_models_unless_the_optimizer_has_one():
    for arguments, rate in (({}, 0.003), ({"lr": 0.7}, 0.7)):
        module = IQS(inputs=plain_inputs(), learning_rate=0.003, optimizer=spec("SGD", arguments))
        (entry,) = module.configure_optimizers()
        assert entry["optimizer"].param_groups[0]["lr"] == rate
