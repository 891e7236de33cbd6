"""What rows of training were like, so that a rule can say where it has not been."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lit_ios.carry import MOST_PULLED, Usual


class Familiarity(nn.Module):
    """The rows of training, as `lit_ios.carry.strangeness` asks for them.

    Before training every row is familiar.

    Args:
        dim: coordinates of a state that are of its own row.
    """

    pull: Tensor
    whole: Tensor
    own: Tensor
    middle: Tensor
    reach: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        shapes = {"pull": (dim, dim) if dim <= MOST_PULLED else (dim,), "whole": ()}
        for name in Usual._fields:
            empty = torch.zeros(shapes.get(name, (dim,)), dtype=torch.float64)
            self.register_buffer(name, empty)

    def set(self, usual: Usual) -> None:
        """Take over what the rows of training were like."""
        for name, values in usual._asdict().items():
            getattr(self, name).copy_(torch.as_tensor(values))

    @property
    def usual(self) -> Usual:
        """All there is to know."""
        return Usual(*(getattr(self, name) for name in Usual._fields))
