"""The formulas of φ, and a batch with every kind of row, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

torch.set_num_threads(1)

PHI: dict[str, Callable[[float], float]] = {  # E3, α = 0.5
    "chi2": lambda r: r - r**2 / (4 * 0.5),
    "hellinger": lambda r: r / (1 + r),
    "kl": lambda r: -math.exp(-(r + 1)),
    "kl_fix": lambda r: 1 - math.exp(-r),
    "js": lambda r: math.log(2 - math.exp(-r)),
    "tv": lambda r: r,
}


@pytest.fixture(params=PHI)
def divergence(request: pytest.FixtureRequest) -> str:
    """Name every φ; a test that parametrizes `divergence` itself takes fewer."""
    return request.param


@pytest.fixture
def formula(divergence: str) -> Callable[[float], float]:
    """Return the formula of `divergence` for one number."""
    return PHI[divergence]


class Rows(NamedTuple):
    """What `iq_loss` takes, in its order."""

    q: Tensor
    next_value: Tensor
    action: Tensor
    step: Tensor
    synthetic: Tensor
    weight: Tensor


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20250303)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    """Continue rows, stops and synthetic stops, each also at step 0.

    The rewards Q(s,a) − γ a V(s') are positive for γ ≤ 1: inside the domain of every φ.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        draw = torch.rand(*shape, generator=generator, dtype=torch.float64)
        return low + (high - low) * draw

    kinds = [  # action, step, synthetic
        (1, 0, 0),
        (1, 1, 0),
        (1, 2, 0),
        (0, 3, 0),
        (0, 0, 0),
        (1, 0, 0),
        (1, 7, 0),
        (0, 8, 0),
        (0, 3, 1),
        (0, 5, 1),
        (0, 0, 1),
    ]
    action, step, synthetic = torch.tensor(kinds, dtype=torch.float64).unbind(-1)
    count = len(kinds)
    return Rows(
        q=uniform(0.6, 1.6, count, 2),
        next_value=uniform(-1.0, 0.5, count),
        action=action,
        step=step,
        synthetic=synthetic,
        weight=uniform(0.1, 2.0, count),
    )
