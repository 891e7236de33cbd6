"""Policies with random weights, and margins of theirs calculated row by row in plain loops."""

import numpy as np
import torch

from lit_ios import modules
from lit_ios.policy import StoppingPolicy
from lit_ios.trajectories import Trajectory, TrajectorySet
from lit_ios.variants import VARIANTS

SETTINGS = {
    "plain": {},
    "lags": {"lags": 2},
    "no time": {"include_time": False},
    "members": {"members": 4, "lags": 1},
    "layer norm": {"normalisation": "layer", "activation": "gelu"},
    "members, layer norm": {"members": 3, "normalisation": "layer", "activation": "tanh"},
    "one layer": {"hidden": [5], "activation": "relu"},
}


def make_policy(variant="do_iqs_lb", seed=0, threshold=0.05, **settings):
    torch.manual_seed(seed)
    model = getattr(modules, VARIANTS[variant].model)
    module = model(**({"feature_names": ["a", "b"], "hidden": [8, 6]} | settings))
    dim = module.state_dim
    module.state_mean.copy_(torch.randn(dim, dtype=torch.double))
    module.state_scale.copy_(torch.rand(dim, dtype=torch.double) + 0.5)
    module.threshold.fill_(threshold)
    return StoppingPolicy(module)


def random_paths(count=6, seed=1, longest=9):
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        length = int(rng.integers(1, longest + 1))
        times = 100 + np.cumsum(rng.uniform(0.5, 2, size=length))
        states = rng.normal(size=(length, 2))
        made.append(Trajectory(states, times, stopped=bool(i % 3), name=f"p{i}"))
    return TrajectorySet.from_paths(made, ["a", "b"])
