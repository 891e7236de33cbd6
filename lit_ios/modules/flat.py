"""Weights and gradients of many small tensors as one vector each.

One operation then clears all gradients, and an optimizer that treats every number alike steps
one tensor per part instead of a dozen. The weights a module knows by name are views of the vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FlatParts:
    """The weights of all parts in one vector, and their gradient.

    Args:
        parts: the parameters of each part. Parts may overlap if they are neighbours, as the
            head's features belong to dynamics and Q.
    """

    def __init__(self, parts: Sequence[Sequence[nn.Parameter]]) -> None:
        order = _neighbours_together(parts)
        with torch.no_grad():
            self.weights = torch.cat([parameter.flatten() for parameter in order])
        self.gradient = torch.zeros_like(self.weights)
        self._views: list[tuple[nn.Parameter, Tensor]] = []
        self.places: dict[nn.Parameter, tuple[int, int]] = {}  # where each begins and ends
        end = 0
        for parameter in order:
            start, end = end, end + parameter.numel()
            parameter.data = self.weights[start:end].view_as(parameter)
            self._views.append((parameter, self.gradient[start:end].view_as(parameter)))
            self.places[parameter] = (start, end)
        self.pieces = []  # one parameter for each part, for its optimizer
        self.bounds = []  # of each piece
        self._gradients = []  # of each part, tensor by tensor
        where = self.places
        for part in parts:
            start, end = min(where[p][0] for p in part), max(where[p][1] for p in part)
            assert end - start == sum(p.numel() for p in part), "a part must be one piece"
            piece = nn.Parameter(self.weights[start:end])
            piece.grad = self.gradient[start:end]
            self.pieces.append(piece)
            self.bounds.append((start, end))
            self._gradients.append([self.gradient[slice(*where[p])] for p in part])

    def clip(self, part: int, largest: float, members: int) -> None:
        """Limit the norm of a part's gradient, of each member for itself."""
        gradients = [gradient.view(members, -1) for gradient in self._gradients[part]]
        factor = clip_factor(gradients, largest)
        for gradient in gradients:
            gradient *= factor

    def spread(self, values: Tensor) -> list[Tensor]:
        """Return a number of each member for every weight, in the order of the pieces.

        Args:
            values: (K,) of each member.
        """
        whole = torch.empty_like(self.gradient)
        for parameter, view in self._views:
            start, size = view.storage_offset(), parameter.numel()
            own = whole[start : start + size].view(len(values), -1)
            own.copy_(values[:, None].expand_as(own))
        return [whole[slice(*bounds)] for bounds in self.bounds]

    def collect(self) -> None:
        """Let gradients be added up in the vector, also if others have removed them from it."""
        for parameter, view in self._views:
            if parameter.grad is not view:
                parameter.grad = view


def clip_factor(gradients: Sequence[Tensor], largest: float) -> Tensor:
    """Return by what each member's gradient is multiplied so that its norm is at most `largest`.

    Args:
        gradients: (K, …) of every tensor of a part.
        largest: norm.
    """
    norm = torch.stack([gradient.square().sum(1) for gradient in gradients]).sum(0).sqrt()
    return (largest / (norm + 1e-6)).clamp_max(1.0)[:, None]  # (K, 1)


def _neighbours_together(parts: Sequence[Sequence[nn.Parameter]]) -> list[nn.Parameter]:
    """Return every parameter once, those that a later part shares at the end of its own."""
    order: list[nn.Parameter] = []
    for i, part in enumerate(parts):
        later = {id(p) for other in parts[i + 1 :] for p in other}
        known = {id(p) for p in order}
        new = [p for p in part if id(p) not in known]
        order += sorted(new, key=lambda p: id(p) in later)
    return order
