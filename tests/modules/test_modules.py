"""What all modules share: hyper-parameters, buffers, standardisation, evaluation."""

import numpy as np
import pytest
import torch

from datamodules.loaders import PathLoader
from lit_ios.functional import soft_value
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS, StoppingModule

ALL = [Classifier, IQS, ModelBasedIQS, DOIQS]


def make(cls, **kwargs):
    torch.manual_seed(1)
    return cls(feature_names=["a", "b"], **{"hidden": [8], "include_time": False, **kwargs})


@pytest.mark.parametrize("cls", ALL)
def test_checkpoint_holds_the_whole_policy_and_loads_weights_only(cls, path_batch, tmp_path):
    module = make(cls)
    module.state_mean += 3
    module.state_scale *= 2
    module.epsilon.fill_(0.05)
    file = tmp_path / "module.ckpt"
    saved = {"state_dict": module.state_dict(), "hyper_parameters": dict(module.hparams)}
    torch.save(saved | {"pytorch-lightning_version": "2.6.6"}, file)
    torch.load(file, weights_only=True)
    loaded = cls.load_from_checkpoint(file, weights_only=True).eval()
    assert torch.equal(loaded(path_batch).margin, module.eval()(path_batch).margin)
    assert loaded.epsilon == module.epsilon


@pytest.mark.parametrize("cls", ALL)
def test_hyper_parameters_are_complete_and_plain(cls):
    hparams = make(cls, gamma=0.9).hparams
    assert hparams["gamma"] == 0.9
    assert {"feature_names", "lags", "include_time", "hidden", "epsilon"} <= set(hparams)
    plain = (type(None), bool, int, float, str, list)
    assert all(isinstance(value, plain) for value in hparams.values())


def test_state_dim_counts_features_lags_and_time():
    module = IQS(feature_names=["a", "b"], lags=2, include_time=True)
    assert module.state_names == ("a", "b", "a[-1]", "b[-1]", "a[-2]", "b[-2]", "time")
    assert module.network.trunk[0].in_features == 7


def test_do_iqs_takes_one_more_coordinate():
    module = make(DOIQS)
    assert module.network.trunk[0].in_features == 3
    assert module.gain_network.trunk[0].in_features == 2
    assert module.network.dynamics_head.out_features == 3


def test_standardise_uses_the_buffers_in_double_precision():
    module = make(IQS)
    module.state_mean.copy_(torch.tensor([1e8, 0.0], dtype=torch.float64))
    module.state_scale.fill_(0.5)
    raw = torch.tensor([[1e8 + 1, 2.0]], dtype=torch.float64)
    assert module.standardise(raw).tolist() == [[2.0, 4.0]]
    assert module.standardise(raw).dtype == torch.float32


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


def test_do_iqs_judges_single_rows_as_it_judges_whole_paths(path_batch):
    module = make(DOIQS).eval()
    whole = module(path_batch)
    state = module.standardise(path_batch.state)
    rows = module.evaluate_rows(state, path_batch.step, whole.previous_y)
    torch.testing.assert_close(rows.q, whole.q, atol=1e-6, rtol=1e-5)


def test_model_based_gain_is_the_recovered_continuation_gain(path_batch):
    module = make(ModelBasedIQS).eval()
    output = module(path_batch, gains=True)
    state = module.standardise(path_batch.state)
    successor = state + module.network.dynamics_head(module.network.trunk(state))
    next_value = soft_value(module.network(successor), 0.1)
    torch.testing.assert_close(output.gain, output.q[:, 1] - 0.99 * next_value)


def test_predictions_hold_one_value_per_row_and_column(path_batch):
    columns = make(DOIQS).eval().predict_step(path_batch, 0)
    assert list(columns) == [
        "path", "time", "margin", "stop_probability", "stop", "stop_gain", "continuation_gain",
    ]  # fmt: skip
    assert {len(column) for column in columns.values()} == {len(path_batch.state)}
    probability = 1 / (1 + torch.exp(-columns["margin"].double() / 0.1))
    torch.testing.assert_close(columns["stop_probability"].double(), probability, atol=1e-6, rtol=0)
    assert torch.equal(columns["stop"].bool(), columns["margin"] >= 0)


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
