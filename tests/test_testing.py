"""The checks for users' own classes pass what is right and name what is wrong."""

import numpy as np
import own_parts
import pytest
import torch
from torch import nn

from datamodules import ChangePointData, PathsData, Splits
from lit_ios.functional import soft_value
from lit_ios.modules import DOIQS, IQS, Classifier, ModelBasedIQS, RecurrentSurvival
from lit_ios.modules.classifier import ClassifierLoss
from lit_ios.rule import Head, join
from lit_ios.testing import CheckError, check_data, check_head, check_memory, check_module

HERE = __name__


@pytest.mark.parametrize("name", ["Residual", "Dueling", "LoopHead"])
def test_right_heads_pass(name):
    check_head(f"{own_parts.__name__}.{name}")


def test_our_own_parts_pass():
    check_head("lit_ios.rule.MLPHead", hidden=[6])
    check_memory("lit_ios.rule.GainMemory", gamma=0.9, hidden=[6])
    check_memory("lit_ios.rule.AccumulateMemory", hidden=[6])
    check_memory("lit_ios.rule.GRUMemory", units=3)
    check_memory(f"{own_parts.__name__}.Average", units=3)


class Mixing(own_parts.Residual):
    """Centres the rows of a batch."""

    def features(self, state, h):
        x = super().features(state, h)
        return x - x.mean(0)


class Noisy(own_parts.Residual):
    def features(self, state, h):
        return super().features(state, h) + torch.rand(())


class Unused(Head):
    def __init__(self, state_dim, memory_dim):
        super().__init__(4)
        self.used, self.unused = nn.Linear(state_dim + memory_dim, 4), nn.Linear(2, 2)

    def features(self, state, h):
        return self.used(join(state, h))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mixing", "Q of a row depends on the rows beside it"),
        ("Noisy", "another Q for the same rows"),
        ("Unused", "no gradient of the head reaches unused.weight, unused.bias"),
    ],
)
def test_wrong_heads_are_named(name, message):
    with pytest.raises(CheckError, match=message):
        check_head(f"{HERE}.{name}")


class Forgetful(own_parts.Average):
    def scan(self, state, t, first_row):
        return self._drive(state) / 2


class Leaking(own_parts.Average):
    """Goes on from the path before."""

    def scan(self, state, t, first_row):
        return super().scan(state, t, torch.zeros_like(first_row))


class Starting(own_parts.Average):
    def init(self, count):
        return super().init(count) + 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Forgetful", "advancing and scanning: they differ"),
        ("Leaking", "advancing and scanning: they differ"),
        ("Starting", "a new path must remember zeros"),
    ],
)
def test_wrong_memories_are_named(name, message):
    with pytest.raises(CheckError, match=message):
        check_memory(f"{HERE}.{name}")


@pytest.mark.parametrize("memory", ["none", "accumulate", "gru"])
@pytest.mark.parametrize("cls", [Classifier, IQS, ModelBasedIQS, DOIQS, RecurrentSurvival])
def test_our_own_modules_pass(cls, memory):
    check_module(cls, hidden=[8], members=2, memory=memory)


class LooksAtTheCemetery(IQS):
    def q_loss(self, view):
        value = soft_value(view.q, self.rule.epsilon) - view.next_value
        return ClassifierLoss((value * view.weight).sum())


class OwnsNothing(IQS):
    def part_parameters(self, part):
        return list(super().part_parameters(part))[:2]


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (LooksAtTheCemetery, "what a stop row stores for its successor matters"),
        (OwnsNothing, "no part trains rule.head"),
    ],
)
def test_wrong_modules_are_named(cls, message):
    with pytest.raises(CheckError, match=message):
        check_module(cls, hidden=[8])


def test_right_data_pass():
    check_data(ChangePointData(paths=20, test_paths=5, lags=1))
    check_data(ChangePointData(paths=20, test_paths=5, folds=2))


class Overlapping(ChangePointData):
    def read_splits(self):
        splits = super().read_splits()
        return Splits(splits.train, splits.val, splits.train)


class Restless(ChangePointData):
    """Draws other paths whenever it is asked."""

    def train_batches(self):
        self.seed = int(np.random.default_rng().integers(1 << 30))
        return super().train_batches()


@pytest.mark.parametrize(
    ("cls", "message"),
    [(Overlapping, "train and test share paths"), (Restless, "give different batches")],
)
def test_wrong_data_are_named(cls, message):
    with pytest.raises(CheckError, match=message):
        check_data(cls(paths=20, test_paths=5))


def test_paths_in_memory_pass(paths):
    check_data(PathsData(paths, test_share=0.3, validation_share=0.4))
