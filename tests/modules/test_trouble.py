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


class SpoiltByGradient(PoisonedByRow):
    """The gradient of the batch with that row has no number, its loss has one."""

    def q_loss(self, view):
        loss = IQS.q_loss(self, view)
        bad = PoisonedByRow.q_loss(self, view).total.isnan()
        root = (next(self.rule.head.parameters()).sum() * 0).sqrt()  # its derivative is 0 · ∞
        return loss._replace(total=loss.total + root) if bad else loss


@pytest.mark.parametrize("chunk", [1, 4])
def test_weights_without_a_number_are_not_saved_and_the_row_is_named(chunk, tmp_path):
    paths = data(batches_per_call=chunk)
    wanted = r"epoch 1 in step \d+: (the sum of the weights of q|train/q/total) is nan"
    with pytest.raises(UserError, match=wanted) as error:
        train_until(SpoiltByGradient.for_data(paths, hidden=[8]), paths, tmp_path)
    assert is_furthest(paths, str(error.value))
    kept = read_checkpoint(tmp_path / "last.ckpt")
    assert kept["epoch"] == 0
    assert all(values.isfinite().all() for values in kept["state_dict"].values())


def test_the_row_furthest_from_all_others_is_named(train_batch):
    assert "too far" not in furthest_row([train_batch], None)
    state = train_batch.state.clone()
    state[4, 1] = -1e20
    row = int(train_batch.step[4]) + 1
    both = [train_batch, train_batch._replace(state=state)]
    found = furthest_row(both, lambda number, row: f"machine {number} {row}")
    assert f"of this step and the one before, row {row} of path 'machine 1 4'" in found
    assert "1e+20 standard deviations, too far" in found


@pytest.mark.parametrize("oversampling", ["none", "bootstrap", "smote"])
@pytest.mark.parametrize("batch_by", ["rows", "paths"])
def test_a_loss_without_a_number_names_path_and_row(oversampling, batch_by, tmp_path):
    paths = data(oversampling=oversampling, batch_by=batch_by)
    model = PoisonedByRow.for_data(paths, hidden=[8])
    with pytest.raises(UserError, match=r"epoch 1 in step \d+: train/q/total is nan") as error:
        train_until(model, paths, tmp_path)
    assert is_furthest(paths, str(error.value))


def is_furthest(paths, said):
    """Say whether a sentence names the observed row that is the furthest from the mean."""
    row, name = re.search(r"row (\d+) of path '(p\d+)'", said).groups()
    splits = paths.splits.train
    states = np.abs(paths.training_paths.states).max(-1)
    index = splits.names.index(name)
    own = states[splits.offsets[index] : splits.offsets[index + 1]]
    return own[int(row) - 1] == states.max()


@pytest.mark.parametrize("split", ["val", "test"])  # the first as the training paths are read
def test_rows_without_a_margin_are_refused_where_they_are_only_judged(split, tmp_path):
    paths = data()
    paths.setup("fit")
    judged = getattr(paths.splits, split)
    judged.states[judged.offsets[1] + 2, 0] = 1e200  # infinite in single precision
    model, name = IQS.for_data(paths, hidden=[8]), judged.names[1]
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    judge = trainer.validate if split == "val" else trainer.test
    with pytest.raises(UserError, match=f"^path '{name}', row 3: .* finite"):
        judge(model, paths, verbose=False)


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
