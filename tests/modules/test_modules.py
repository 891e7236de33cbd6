"""What all modules share: hyper-parameters, buffers, evaluation."""

import copy
import json

import models
import numpy as np
import pytest
import torch

from datamodules import ChangePointData
from datamodules.loaders import PathLoader
from lit_ios.checkpoints import write_checkpoint
from lit_ios.functional import soft_value
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS, StoppingModule

ALL = [Classifier, IQS, ModelBasedIQS, DOIQS]


def make(cls, **kwargs):
    return models.make(cls, **{"seed": 1, **kwargs})


@pytest.mark.parametrize("cls", ALL)
def test_checkpoint_holds_the_whole_policy_and_loads_weights_only(cls, path_batch, tmp_path):
    module = make(cls)
    module.rule.scaler.mean += 3
    module.rule.scaler.scale *= 2
    module.rule.epsilon.fill_(0.05)
    file = tmp_path / "module.ckpt"
    saved = {"state_dict": module.state_dict(), "hyper_parameters": dict(module.hparams)}
    write_checkpoint(saved | {"pytorch-lightning_version": "2.6.6"}, file)
    torch.load(file, weights_only=True)
    loaded = cls.load_from_checkpoint(file, weights_only=True).eval()
    assert torch.equal(loaded(path_batch).margin, module.eval()(path_batch).margin)
    assert loaded.rule.epsilon == module.rule.epsilon


@pytest.mark.parametrize("cls", ALL)
def test_hyper_parameters_are_complete_and_plain(cls):
    hparams = make(cls, gamma=0.9).hparams
    assert hparams["gamma"] == 0.9
    assert {"inputs", "hidden", "head", "optimizer", "epsilon"} <= set(hparams)
    assert json.loads(json.dumps(dict(hparams))) == dict(hparams)


def test_head_takes_features_lags_and_time():
    module = make(IQS, lags=2, include_time=True)
    names = ("a", "b", "a[-1]", "b[-1]", "a[-2]", "b[-2]", "time")
    assert module.rule.window.state_names == names
    assert module.rule.head.trunk[0].in_features == 7


def test_do_iqs_takes_one_more_coordinate():
    rule = make(DOIQS).rule
    assert rule.head.trunk[0].in_features == 3
    assert rule.memory.trunk[0].in_features == 2
    assert rule.dynamics.change.out_features == 3


def test_model_for_data_takes_their_lags_and_time():
    data = ChangePointData(lags=2, include_time=False, paths=10, test_paths=5)
    rule = IQS.for_data(data).rule
    assert rule.window.state_names == ("x", "x[-1]", "x[-2]")
    assert rule.head.trunk[0].in_features == 3


@pytest.mark.parametrize("cls", ALL)
def test_judgement_of_a_path_does_not_depend_on_the_paths_beside_it(cls, paths):
    module = make(cls).eval()
    together = module(next(iter(PathLoader(paths)))).margin
    alone = [module(next(iter(PathLoader(paths.select([i]))))).margin for i in range(len(paths))]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cls", ALL)
def test_judgement_of_a_row_never_looks_ahead(cls, paths):
    module = make(cls).eval()
    path = paths.select([7])
    whole = module(next(iter(PathLoader(path)))).margin
    changed = path.with_states(np.where(np.arange(8)[:, None] < 5, path.states, 99.0))
    early = module(next(iter(PathLoader(changed)))).margin[:5]
    torch.testing.assert_close(whole[:5], early, atol=1e-6, rtol=1e-5)


def test_model_based_gain_is_the_recovered_continuation_gain(path_batch):
    rule = make(ModelBasedIQS).eval().rule
    found = rule.scan(path_batch, details=True)
    state = rule.scaler(path_batch.columns).float()
    features = rule.head.trunk(state)
    successor = state + rule.dynamics.change(features)
    next_value = soft_value(rule.head.q(rule.head.trunk(successor)), 0.1)
    expected = rule.head.q(features)[:, 1] - 0.99 * next_value
    torch.testing.assert_close(found.continuation_gain, expected)


@pytest.mark.parametrize("cls", ALL)
def test_predictions_are_made_in_double_precision(cls, path_batch):
    module = make(cls).eval()
    module.on_predict_start()
    batch, found = module.predict_step(path_batch, 0)
    assert batch is path_batch
    assert found.margin.dtype == torch.double
    exact = copy.deepcopy(module.rule).double().scan(path_batch, details=True)
    assert torch.equal(found.margin, exact.margin)
    probability = 1 / (1 + torch.exp(-found.margin / module.rule.epsilon.double()))
    torch.testing.assert_close(found.probability, probability, atol=1e-9, rtol=0)
    assert torch.equal(found.stop, found.margin >= 0)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("gamma", 0.0),
        ("gamma", 1.1),
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
        ("hidden", []),
        ("updates", "alternate"),
        ("normalisation", "batch"),
        ("activation", "sigmoid"),
        ("learning_rate", -1.0),
        ("learning_rate_decay", 1.5),
        ("gradient_clip", 0.0),
        ("divergence", "foo"),
        ("alpha", -1.0),
        ("value_term", "foo"),
    ],
)
def test_bad_argument_is_an_error_that_names_it(argument, value):
    with pytest.raises(ValueError, match=argument):
        make(IQS, **{argument: value})


@pytest.mark.parametrize("value", [0.0, 50.0, -1e6])
@pytest.mark.parametrize("cls", ALL)
def test_what_a_stop_row_stores_for_its_successor_never_matters(cls, value, train_batch):
    module = make(cls)
    stops = train_batch.action[:, None] == 0
    changed = train_batch._replace(next_state=torch.where(stops, value, train_batch.next_state))
    for part in module.parts:
        losses = [getattr(module, f"{part}_loss")(module.view(b)) for b in (train_batch, changed)]
        assert losses[0].total == losses[1].total


def test_base_class_has_the_only_training_step():
    for cls in ALL:
        assert cls.training_step is StoppingModule.training_step


@pytest.mark.parametrize("normalisation", ["none", "layer"])
@pytest.mark.parametrize("activation", ["silu", "relu", "tanh", "gelu"])
def test_network_options_build(normalisation, activation, path_batch):
    module = make(DOIQS, normalisation=normalisation, activation=activation).eval()
    assert torch.isfinite(module(path_batch).margin).all()
