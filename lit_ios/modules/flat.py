"""Weights and gradients of many small tensors as one vector each.

An optimizer then steps one tensor per part instead of a dozen, and one operation clears all
gradients. The weights a module knows by name are views of the vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def flatten_parts(
    parts: Sequence[Sequence[nn.Parameter]],
) -> tuple[list[nn.Parameter], Tensor]:
    """Lay the weights out in one vector; return each part's piece of it, and the gradient of all.

    Parts may overlap if they are neighbours, as the trunk belongs to dynamics and Q.
    """
    order = _neighbours_together(parts)
    with torch.no_grad():
        weights = torch.cat([parameter.flatten() for parameter in order])
    gradient = torch.zeros_like(weights)
    ends, end = {}, 0
    for parameter in order:
        start, end = end, end + parameter.numel()
        parameter.data = weights[start:end].view_as(parameter)
        parameter.grad = gradient[start:end].view_as(parameter)
        ends[parameter] = (start, end)
    pieces = []
    for part in parts:
        start, end = min(ends[p][0] for p in part), max(ends[p][1] for p in part)
        assert end - start == sum(p.numel() for p in part), "a part must be one piece"
        piece = nn.Parameter(weights[start:end])
        piece.grad = gradient[start:end]
        pieces.append(piece)
    return pieces, gradient


def _neighbours_together(parts: Sequence[Sequence[nn.Parameter]]) -> list[nn.Parameter]:
    """Return every parameter once, those that a later part shares at the end of its own."""
    order: list[nn.Parameter] = []
    for i, part in enumerate(parts):
        later = {id(p) for other in parts[i + 1 :] for p in other}
        known = {id(p) for p in order}
        new = [p for p in part if id(p) not in known]
        order += sorted(new, key=lambda p: id(p) in later)
    return order
