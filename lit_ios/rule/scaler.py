"""States in units of their spread in training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.trajectories import FloatArray, TrajectorySet, row_blocks


class Scaler(nn.Module):
    """(s − mean) / scale, in double precision whatever the networks have.

    A coordinate that was constant in training has the scale ∞: it is 0 for ever.

    Args:
        dim: number of coordinates.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(dim, dtype=torch.float64))

    def set(self, mean: FloatArray, scale: FloatArray) -> None:
        """Take over the statistics of the training rows."""
        self.mean.copy_(torch.as_tensor(mean))
        self.scale.copy_(torch.as_tensor(scale))

    def forward(self, state: Tensor) -> Tensor:
        """Standardise; (…, S) → (…, S) double."""
        return (state - self.mean) / self.scale

    def paths(self, paths: TrajectorySet) -> TrajectorySet:
        """Return paths of states standardised in single precision, as training takes them."""
        scaled = np.empty(paths.states.shape, dtype=np.float32)
        for block in row_blocks(len(scaled)):
            scaled[block] = self(torch.from_numpy(paths.states[block])).numpy()
        return paths.with_states(scaled)
