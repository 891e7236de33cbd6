"""Numbers that are not finite stop training, with where they came from."""

import copy
import math
import re

import models
import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from datamodules import PathsData
from lit_ios.checkpoints import read_checkpoint
from lit_ios.checks import UserError
from lit_ios.modules import DOIQS, IQS
from lit_ios.modules.terms import TermMeans, furthest_row
from lit_ios.trajectories import Trajectory, TrajectorySet


def data(rows=8, count=24, **arguments):
    rng = np.random.default_rng(0)
    made = [Trajectory(rng.normal(size=(rows, 2)), name=f"p{i}") for i in range(count)]
    settings = {"batch_size": 16, "batches_per_call": 4, "seed": 0, **arguments}
    return PathsData(TrajectorySet.from_paths(made, ["a", "b"]), **settings)


def train_until(model, paths, folder, epochs=3):
    best = pl.callbacks.ModelCheckpoint(folder, "last", enable_version_counter=False)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=epochs, callbacks=[best], logger=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(model, paths)


class Poisoned(IQS):
    """Its loss has no number at one step."""

    at = (1, 6)  # epoch, and step of it
    steps = 0

    def on_train_epoch_start(self):
        self.steps = 0

    def q_loss(self, view):
        self.steps += 1
        loss = super().q_loss(view)
        bad = (self.current_epoch, self.steps) == self.at
        return loss._replace(total=loss.total * math.nan) if bad else loss


def test_a_loss_without_a_number_stops_with_epoch_step_and_part(tmp_path):
    paths = data()
    with pytest.raises(UserError, match=r"epoch 1 in step 6: train/q/total is nan") as error:
        train_until(Poisoned.for_data(paths, hidden=[8]), paths, tmp_path)
    assert "\n" not in str(error.value)
    kept = read_checkpoint(tmp_path / "last.ckpt")
    assert kept["epoch"] == 0
    assert all(values.isfinite().all() for values in kept["state_dict"].values())


class PoisonedByRow(IQS):
    """Its loss has no number in the batch that holds the observed row furthest from the mean."""

    def q_loss(self, view):
        loss = super().q_loss(view)
        largest = torch.from_numpy(np.abs(self.trainer.datamodule.training_paths.states)).max()
        own = view.batch.state[view.batch.synthetic == 0].abs().max()
        bad = self.current_epoch == 1 and abs(own - largest) < 1e-6
        return loss._replace(total=loss.total * math.nan) if bad else loss


class LastStep(IQS):
    """Its weights are spoilt after the last loss of an epoch."""

    def on_train_epoch_end(self):
        if self.current_epoch == 1:
            with torch.no_grad():
                self._flat.pieces[0][3] = math.inf
        super().on_train_epoch_end()


def test_weights_without_a_number_are_not_saved(tmp_path):
    paths = data()
    with pytest.raises(UserError, match=r"epoch 1: the sum of the weights of q is inf"):
        train_until(LastStep.for_data(paths, hidden=[8]), paths, tmp_path)
    assert read_checkpoint(tmp_path / "last.ckpt")["epoch"] == 0


def test_the_row_furthest_from_all_others_is_named(train_batch):
    assert "too far" not in furthest_row(train_batch, None)
    state = train_batch.state.clone()
    state[4, 1] = -1e20
    row = int(train_batch.step[4]) + 1
    found = furthest_row(train_batch._replace(state=state), lambda row: f"machine {row}")
    assert f"row {row} of path 'machine 4'" in found
    assert "1e+20 standard deviations, too far" in found


@pytest.mark.parametrize("oversampling", ["none", "bootstrap", "smote"])
@pytest.mark.parametrize("batch_by", ["rows", "paths"])
def test_a_loss_without_a_number_names_path_and_row(oversampling, batch_by, tmp_path):
    paths = data(oversampling=oversampling, batch_by=batch_by)
    model = PoisonedByRow.for_data(paths, hidden=[8])
    with pytest.raises(UserError, match=r"epoch 1 in step \d+: train/q/total is nan") as error:
        train_until(model, paths, tmp_path)
    name, row = re.search(r"row (\d+) of path '(p\d+)'", str(error.value)).group(2, 1)
    splits = paths.splits.train
    states = np.abs(paths.training_paths.states).max(-1)
    index = splits.names.index(name)
    own = states[splits.offsets[index] : splits.offsets[index + 1]]
    assert own[int(row) - 1] == states.max()  # the row that poisoned the loss


def test_what_was_not_finite_is_found_in_the_sums_alone():
    terms = TermMeans(["a", "b"], torch.zeros(2))
    good = torch.tensor([1.0, 2.0])
    terms.add(good)
    assert terms.find_trouble() is None
    terms.add(good)
    terms.add(torch.tensor([1.0, -math.inf]))
    terms.add(torch.tensor([math.nan, math.inf]))
    assert terms.find_trouble() == (1, "b", -math.inf)


# Long paths --------------------------------------------------------------------------------------


def test_a_scaled_target_is_refused_for_paths_on_which_it_has_no_number(tmp_path):
    paths = data(rows=400, count=6)
    model = DOIQS.for_data(paths, hidden=[8], gain_target="scaled", gamma=0.9)
    # 0.9^t falls below 1e-16 at t = 350
    with pytest.raises(UserError, match=r"more than 350 rows at γ = 0.9; the longest has 400"):
        train_until(model, paths, tmp_path)
    paths = data(rows=20, count=12)
    model = DOIQS.for_data(paths, hidden=[8], gain_target="scaled", gamma=0.9)
    train_until(model, paths, tmp_path, epochs=1)


@pytest.mark.parametrize("memory", ["none", "accumulate", "gru"])
@pytest.mark.parametrize("cls", [IQS, DOIQS])
def test_a_path_of_many_rows_is_judged_like_its_end_alone_is_stepped(cls, memory):
    rule = models.make(cls, seed=0, memory=memory).rule.double().eval()
    rows = 20_000
    states = np.random.default_rng(0).normal(size=(rows, 2))
    from lit_ios.policy import StoppingPolicy

    policy = StoppingPolicy(copy.deepcopy(rule))
    path = Trajectory(states, stopped=False, name="long")
    margins = policy.margins(TrajectorySet.from_paths([path], ["a", "b"]))
    stream = policy.stream()
    stepped = [stream.step(row).margin for row in states]
    assert np.isfinite(margins).all()
    assert np.abs(margins - stepped).max() < 1e-9
