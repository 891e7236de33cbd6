"""The concave functions φ of the IQ objective E3, one per statistical divergence.

Each is continued by its tangent below `edge`, inside its domain, so that it and its gradient are
finite for every reward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Divergence = Literal["chi2", "hellinger", "kl", "kl_fix", "js", "tv"]

DEFAULT_ALPHA = 0.5


def phi(reward: Tensor, divergence: Divergence = "chi2", alpha: float | None = None) -> Tensor:
    """Return φ(r), the gain of the IQ objective from a recovered reward.

    E3: `chi2` r − r²/(4α) · `hellinger` r/(1+r) · `kl` −e^{−(r+1)} · `kl_fix` 1 − e^{−r} ·
    `js` log(2 − e^{−r}) · `tv` r.

    Args:
        reward: recovered rewards r.
        divergence: name of φ.
        alpha: weight of the χ² term −r²/(4α): 0.5 for `chi2` when None; the other divergences
            get the term only when a value is given.
    """
    if divergence not in _PHI:
        raise ValueError(f"divergence must be one of {sorted(_PHI)}, got {divergence!r}")
    if alpha is not None and alpha <= 0:
        raise ValueError(f"alpha must be positive, got {alpha}")
    value = _PHI[divergence](reward)
    if divergence == "chi2":
        alpha = DEFAULT_ALPHA if alpha is None else alpha
    return value if alpha is None else value - reward.square() / (4 * alpha)


def _continued(
    function: Callable[[Tensor], Tensor], edge: float, slope: float
) -> Callable[[Tensor], Tensor]:
    """Continue `function` below `edge` by the line of its slope there."""

    def continued(reward: Tensor) -> Tensor:
        inside = reward.clamp_min(edge)
        return function(inside) + slope * (reward - inside)

    return continued


_E = torch.e
_PHI: dict[str, Callable[[Tensor], Tensor]] = {
    "chi2": lambda r: r,  # its quadratic term is added by `phi`
    "tv": lambda r: r,
    # pole at −1
    "hellinger": _continued(lambda r: r / (1 + r), edge=-0.5, slope=4.0),
    # exponential growth below
    "kl": _continued(lambda r: -torch.exp(-(r + 1)), edge=-3.0, slope=_E**2),
    "kl_fix": _continued(lambda r: -torch.expm1(-r), edge=-2.0, slope=_E**2),
    # pole at −log 2 ≈ −0.69
    "js": _continued(
        lambda r: torch.log(2 - torch.exp(-r)), edge=-0.5, slope=_E**0.5 / (2 - _E**0.5)
    ),
}
