"""Settings trained side by side end as each does alone."""

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping

from callbacks import EpsilonDecay
from datamodules import ChangePointData
from lit_ios.checks import UserError
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS, RecurrentSurvival
from lit_ios.tune.space import Knob
from lit_ios.tune.stacked import Setting, check_knobs, check_stackable, stack

pytest.importorskip("optuna", reason="the extra tune is not installed")

SETTINGS = [
    Setting(0.01, 0.99, 0.1, 0.99, 0.9999),
    Setting(0.001, 1.0, 1.0, 0.8, 0.95),
    Setting(0.03, 0.9, 0.02, 1.0, 0.9),
]
CLASSES = [
    (IQS, {}),
    (IQS, {"memory": "gru", "policy_weight": 0.3}),
    (IQS, {"value_term": "initial", "gradient_clip": 0.1}),
    (IQS, {"value_term": "discounted", "optimizer": "torch.optim.AdamW"}),
    (Classifier, {"memory": "accumulate"}),
    (ModelBasedIQS, {"updates": "alternating", "value_aware": True}),
    (DOIQS, {"gain_gradient": True, "normalisation": "layer"}),
    (RecurrentSurvival, {}),
]


def data_for(kind):
    return ChangePointData(
        problem="CP1", paths=24, test_paths=4, folds=2, batch_size=64, batches_per_call=2,
        oversampling="none" if kind is RecurrentSurvival else "bootstrap",
    )  # fmt: skip


def trainer_of(epochs, *callbacks):
    return pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        callbacks=list(callbacks),
    )  # fmt: skip


def model_of(kind, more, setting=SETTINGS[0], members=4):
    torch.manual_seed(1)
    return kind.for_data(
        data_for(kind), members=members, hidden=[8], margin="validated", gamma=setting.gamma,
        epsilon=setting.epsilon, learning_rate=setting.learning_rate,
        learning_rate_decay=setting.learning_rate_decay, **more,
    ).double()  # fmt: skip


def train_alone(kind, more, setting, epochs, *callbacks):
    model = model_of(kind, more, setting)
    trainer = trainer_of(epochs, EpsilonDecay(setting.epsilon_decay), *callbacks)
    trainer.fit(model, Doubled(data_for(kind)))
    return model, trainer


def train_stacked(kind, more, epochs, patience=None):
    stacked = stack(model_of(kind, more), SETTINGS, patience).double()
    trainer_of(epochs).fit(stacked, Doubled(data_for(kind)))
    return stacked


class Doubled:
    """Data whose batches are of double precision: rounding then does not grow in a few epochs."""

    def __new__(cls, data):
        made = data.train_dataloader

        def train_dataloader():
            chunks = made()
            plain = type(chunks).__iter__

            class Chunks(type(chunks)):
                def __iter__(self):
                    for chunk in plain(self):
                        yield [
                            type(one)(*(
                                x.double() if torch.is_tensor(x) and x.is_floating_point() else x
                                for x in one
                            ))
                            for one in chunk
                        ]  # fmt: skip

            chunks.__class__ = Chunks
            return chunks

        data.train_dataloader = train_dataloader
        return data


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "more"), CLASSES)
def test_a_setting_in_a_stack_ends_as_it_does_alone(kind, more):
    stacked = train_stacked(kind, more, 3)
    for number, setting in enumerate(SETTINGS):
        alone, _ = train_alone(kind, more, setting, 3)
        own = dict(stacked.rule.named_parameters())
        for name, weights in alone.rule.named_parameters():
            mine = own[name].unflatten(0, (len(SETTINGS), -1))[number]
            torch.testing.assert_close(mine, weights, rtol=1e-7, atol=1e-9)
        assert stacked.outcomes()[number].score == pytest.approx(honest_score(alone.choices))
        assert stacked.judged[number].choices == alone.choices


@pytest.mark.filterwarnings("ignore")
def test_a_setting_in_a_stack_stops_early_when_it_does_alone():
    def patience():
        return EarlyStopping("val/balanced_accuracy", mode="max", patience=2)

    stacked = train_stacked(IQS, {}, 12, patience())
    alone = [train_alone(IQS, {}, one, 12, patience())[1].current_epoch for one in SETTINGS]
    assert [one.epochs for one in stacked.outcomes()] == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.1}}}, "of its own"),
        ({"optimizer": "torch.optim.Rprop"}, "treats weights together"),
        ({"dynamics_ensemble": True}, "dynamics_ensemble"),
        ({"dynamics_error": "gaussian", "successor_samples": 2}, "successor_samples"),
    ],
)
def test_what_cannot_be_stacked_is_refused(more, message):
    with pytest.raises(UserError, match=message):
        check_stackable(model_of(ModelBasedIQS, more), data_for(ModelBasedIQS), [])


def test_members_cannot_differ_in_their_layers():
    with pytest.raises(UserError, match="leave hidden out of the space"):
        check_knobs([Knob("hidden", "model.init_args.hidden", ([8], [16]))])
