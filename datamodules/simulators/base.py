"""What every simulator offers, and the checks of arguments they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from lit_ios.regions import StoppingRegion
from lit_ios.trajectories import BoolArray, FloatArray, TrajectorySet

Horizon = Literal["stop", "censor"]


class Simulator(Protocol):
    """A process, the expert who stops it, and the rule that knows both."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the state's coordinates; time is not one of them."""
        ...

    @property
    def region(self) -> StoppingRegion | None:
        """The true stopping region, where the expert's rule is one in (state, time)."""
        ...

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw stopped paths; their times are the integer time index."""
        ...

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """Score each row by its path so far, knowing the process: stop iff score ≥ 0; (N,)."""
        ...


@dataclass(frozen=True, eq=False)
class MarginRegion:
    """The region where a margin of (states, times) is at least 0; a `StoppingRegion`.

    Args:
        margin: (N, D), (N,) → (N,).
        dim: D, checked at each call.
    """

    margin: Callable[[FloatArray, FloatArray], FloatArray]
    dim: int

    def stops(self, features: FloatArray, times: FloatArray) -> BoolArray:
        """Say for each row whether the expert stops there; (N, D), (N,) → (N,)."""
        features, times = np.asarray(features), np.asarray(times)
        if features.ndim != 2 or features.shape[1] != self.dim:
            raise ValueError(
                f"features must have shape (N, {self.dim}), the state without time, "
                f"got {features.shape}"
            )
        if times.shape != features.shape[:1]:
            raise ValueError(f"times must have shape ({len(features)},), got {times.shape}")
        return np.asarray(self.margin(features, times) >= 0)


def check_range(name: str, value: float, low: float, high: float = np.inf) -> None:
    """Refuse a number outside [low, high], or that is none."""
    if not low <= value <= high:
        limits = f"at least {low}" if high == np.inf else f"from {low} to {high}"
        raise ValueError(f"{name} must be {limits}; got {value!r}")
