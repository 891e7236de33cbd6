"""Whether weights out of a file, which may be damaged or made up, are those of a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def too_many(spec: Any, weights: Mapping[str, Tensor]) -> str | None:
    """Name what would have more parts than there are weights."""
    stored = sum(each.untyped_storage().nbytes() for each in weights.values())
    for name in ("members", "lags"):
        count = spec.get(name, 0)
        if isinstance(count, int) and count > stored:
            return name
    return None


def other_kind(wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> str | None:
    """Name a weight that would lose something where it is copied, such as its imaginary part."""
    for name, one in wanted.items():
        given = weights.get(name)
        if given is None or (given.layout == one.layout and given.dtype == one.dtype):
            continue
        both = given.dtype in _REAL and one.dtype in _REAL
        if given.layout != one.layout or not both:
            return name
    return None


def impossible(weights: Mapping[str, Tensor], prefix: str = "") -> str | None:
    """Say what no rule can decide by; None if it can.

    Args:
        weights: by name.
        prefix: of the names of those of the rule.
    """
    for name, given in weights.items():
        if given.is_floating_point() and given.isnan().any():
            return f"{name} is not a number"
    for name in ("epsilon", "time_step"):
        value = float(weights[f"{prefix}{name}"])
        if not 0 < value < math.inf:
            return f"{name} is {value}"
    return None


def wrong_shape(shapes: Mapping[str, Tensor] | None, weights: Mapping[str, Tensor]) -> str | None:
    """Name a weight that is missing, too many or of another shape."""
    if shapes is None:
        return None
    differing = set(shapes) ^ set(weights)
    both = (name for name in shapes if name in weights)
    differing |= {name for name in both if shapes[name].shape != weights[name].shape}
    return min(differing, default=None)
