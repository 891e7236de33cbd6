"""Which steps are compiled, and what a kept step is known by."""

from types import SimpleNamespace

import pytest
import torch
from models import plain_inputs
from own_parts import Average
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.plugins import MixedPrecision, Precision
from test_traced import make_batch

from callbacks import EpsilonDecay
from lit_ios import modules
from lit_ios.modules import suitable
from lit_ios.modules.suitable import fingerprint, why_eager
from lit_ios.tune.stacked import Setting, stack

BATCH = make_batch(30, 0, paths=True)


def make(cls="DOIQS", trainer=None, **settings):
    """Return a module that is being trained, or so it seems, and its optimizers."""
    settings = {"hidden": [8]} | settings
    module = getattr(modules, cls)(inputs=plain_inputs("abc"), **settings)
    usual = {"world_size": 1, "precision_plugin": Precision(), "callbacks": [EpsilonDecay(0.9)]}
    module._trainer = SimpleNamespace(**usual | (trainer or {}))
    return module, [entry["optimizer"] for entry in module.configure_optimizers()]


class Watching(Callback):
    def on_before_optimizer_step(self, trainer, module, optimizer):
        pass


class Meddling(Callback):
    def on_train_epoch_start(self, trainer, module):
        module.policy_weight = 1.0


class OwnIQS(modules.IQS):
    """A variant of the user's own."""


@pytest.fixture(autouse=True)
def _any_version(monkeypatch):
    monkeypatch.setattr(suitable, "TRIED", (2, 0))


def test_what_the_program_brings_is_compiled():
    for cls in ("Classifier", "IQS", "ModelBasedIQS", "DOIQS", "RecurrentSurvival"):
        assert why_eager(*make(cls), BATCH) is None, cls


@pytest.mark.parametrize(
    ("cls", "settings", "trainer", "why"),
    [
        ("DOIQS", {}, {"world_size": 2}, "several processes train together"),
        ("DOIQS", {}, {"precision_plugin": MixedPrecision("bf16-mixed", "cpu")}, "mixed precision"),
        ("DOIQS", {}, {"callbacks": [Watching()]}, "Watching wants to see"),
        ("DOIQS", {}, {"callbacks": [Meddling()]}, "Meddling is a callback of your own"),
        ("DOIQS", {}, {"callbacks": [LambdaCallback(on_train_epoch_start=print)]},
         "LambdaCallback is a callback of your own"),
        ("IQS", {"memory": Average(3)}, {}, "Average is a class of your own"),
        ("IQS", {"optimizer": "torch.optim.SGD"}, {}, "only Adam and AdamW"),
        ("IQS", {"optimizer": {"class_path": "torch.optim.Adam", "init_args": {"amsgrad": True}}},
         {}, "only Adam and AdamW with plain settings"),
        ("ModelBasedIQS", {"dynamics_error": "gaussian", "successor_samples": 2}, {},
         "draws random numbers"),
    ],
)  # fmt: skip
def test_where_a_compiled_step_would_do_something_else_there_is_none(cls, settings, trainer, why):
    if "memory" in settings:
        module, optimizers = make(cls, trainer)
        module.rule.memory = settings["memory"]
    else:
        module, optimizers = make(cls, trainer, **settings)
    assert why in why_eager(module, optimizers, BATCH)


def test_a_class_of_ones_own_is_stepped_by_its_own_code(monkeypatch):
    monkeypatch.setattr(modules, "OwnIQS", OwnIQS, raising=False)
    assert why_eager(*make("OwnIQS"), BATCH) == "OwnIQS may step in a way of its own"


def test_settings_side_by_side_have_rates_and_discounts_of_their_own_and_are_not_compiled():
    alone, _ = make("IQS", members=2, margin="validated")
    rates = [Setting(rate, 0.99, 0.1, gamma, 1.0) for rate, gamma in ((0.1, 0.9), (0.2, 0.8))]
    module = stack(alone, rates, None)
    module._trainer = alone._trainer
    optimizers = [entry["optimizer"] for entry in module.configure_optimizers()]
    assert "may step in a way of its own" in why_eager(module, optimizers, BATCH)


def test_older_versions_of_pytorch_and_anomaly_detection_are_left_alone(monkeypatch):
    with torch.autograd.set_detect_anomaly(True):
        assert why_eager(*make(), BATCH) == "trainer.detect_anomaly is on"
    monkeypatch.setattr(suitable, "TRIED", (2, 13))
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    assert why_eager(*make(), BATCH) == "PyTorch 2.13 or newer is needed"


def test_a_step_is_known_by_everything_that_is_compiled_into_it(monkeypatch):
    kinds = {"": fingerprint(*make(), BATCH)}
    settings = {
        "gamma": 0.5, "hidden": [8, 8], "members": 2, "memory": "gru", "updates": "alternating",
        "gradient_clip": 1.0, "optimizer": "torch.optim.AdamW",
    }  # fmt: skip
    for name, value in settings.items():
        kinds[name] = fingerprint(*make(**{name: value}), BATCH)
    kinds["class"] = fingerprint(*make("ModelBasedIQS"), BATCH)
    kinds["columns"] = fingerprint(*make(), make_batch(30, 0))
    kinds["types"] = fingerprint(*make(), BATCH._replace(state=BATCH.state.float()))
    module, optimizers = make()
    optimizers[0].param_groups[0]["eps"] = 1e-3
    kinds["eps"] = fingerprint(module, optimizers, BATCH)
    for name in ("_source", "_processor"):
        with monkeypatch.context() as patch:
            patch.setattr(suitable, name, lambda: "another")
            kinds[name] = fingerprint(*make(), BATCH)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "2.99")
        kinds["torch"] = fingerprint(*make(), BATCH)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 7)
        kinds["threads"] = fingerprint(*make(), BATCH)
    assert len(set(kinds.values())) == len(kinds)


def test_rows_rates_and_schedules_are_inputs_and_need_no_step_of_their_own():
    known = fingerprint(*make(), BATCH)
    assert fingerprint(*make(), make_batch(70, 1, paths=True)) == known
    for name, value in {"learning_rate": 0.1, "epsilon": 0.9, "learning_rate_decay": 0.5}.items():
        assert fingerprint(*make(**{name: value}), BATCH) == known, name
    module, optimizers = make()
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = 0.123
    assert fingerprint(module, optimizers, BATCH) == known
