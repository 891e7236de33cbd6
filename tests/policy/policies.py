"""Policies with random weights, and paths of made-up rows."""

import numpy as np
import torch
from models import plain_inputs

from lit_ios import modules
from lit_ios.policy import StoppingPolicy
from lit_ios.trajectories import Trajectory, TrajectorySet
from lit_ios.variants import variants

VARIANTS = list(variants())
# variants of one class differ in how they are trained, not in what is deployed
MODELS = {variant.model["class_path"]: name for name, variant in variants().items()}
SETTINGS = {
    "plain": {},
    "lags": {"lags": 2},
    "no time": {"include_time": False},
    "members": {"members": 4, "lags": 1},
    "layer norm": {"normalisation": "layer", "activation": "gelu"},
    "members, layer norm": {"members": 3, "normalisation": "layer", "activation": "tanh"},
    "one layer": {"hidden": [5], "activation": "relu"},
}


def make_policy(
    variant="do_iqs_lb", seed=0, threshold=0.05, names=("a", "b"), lags=0, include_time=True,
    categories=None, **settings,
):  # fmt: skip
    torch.manual_seed(seed)
    model = getattr(modules, variants()[variant].model["class_path"])
    inputs = plain_inputs(names, lags, include_time, categories)
    rule = model(inputs=inputs, **({"hidden": [8, 6]} | settings)).rule
    randomise(rule, threshold)
    return StoppingPolicy(rule)


def randomise(rule, threshold=0.05):
    """Give a rule means, scales and a threshold as training would."""
    rule.scaler.mean.copy_(torch.randn(rule.state_dim, dtype=torch.double))
    rule.scaler.scale.copy_(torch.rand(rule.state_dim, dtype=torch.double) + 0.5)
    rule.threshold.fill_(threshold)


def random_paths(count=6, seed=1, longest=9):
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        length = int(rng.integers(1, longest + 1))
        times = 100 + np.cumsum(rng.uniform(0.5, 2, size=length))
        states = rng.normal(size=(length, 2))
        made.append(Trajectory(states, times, stopped=bool(i % 3), name=f"p{i}"))
    return TrajectorySet.from_paths(made, ["a", "b"])
