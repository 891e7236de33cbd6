"""fatigue: a load that is seen wears a part out, and the damage is not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamodules.simulators.base import check_range
from datamodules.simulators.brownian import cut_at_stop, first_stop
from lit_ios.trajectories import FloatArray, TrajectorySet

PERSISTENCE, NOISE, SPREAD = 0.8, 0.5, 0.6  # of the load around its path's level, and of levels
SCALE = 40.0  # damage is counted in this unit


@dataclass(frozen=True)
class Fatigue:
    """A load x_t = μ + 0.8 (x_{t−1} − μ) + N(0, 0.5²), stopped when its damage reaches a limit.

    By Miner's rule the damage is Σ_{k≤t} e^{b x_k}/40; the level μ ~ N(0, 0.6²) of a path and the
    damage are not observed, the load is. The expert stops when the damage reaches 1.

    Args:
        exponent: b, how much more a heavy load wears than a light one.
        limit_spread: standard deviation of the limit's logarithm from path to path; 0: all stop at
            damage 1. Above 0 nobody who sees the load alone can be always right.
        noise_features: features that are pure noise, beside the load.
        steps: number of rows of a path at the most.
    """

    exponent: float = 1.2
    limit_spread: float = 0.0
    noise_features: int = 0
    steps: int = 200

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_range("exponent", self.exponent, 0)
        check_range("limit_spread", self.limit_spread, 0)
        check_range("noise_features", self.noise_features, 0)
        check_range("steps", self.steps, 1)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The load, and what is noise."""
        return ("load", *(f"noise{i}" for i in range(self.noise_features)))

    @property
    def region(self) -> None:
        """None: the rule needs the history."""
        return None

    def simulate(self, paths: int, rng: np.random.Generator) -> TrajectorySet:
        """Draw paths up to the row at which the damage reaches the limit; else censored."""
        check_range("paths", paths, 1)
        level = SPREAD * rng.standard_normal((paths, 1))
        load = self._loads(NOISE * rng.standard_normal((paths, self.steps))) + level
        limit = np.exp(self.limit_spread * rng.standard_normal((paths, 1)))
        noise = rng.standard_normal((paths, self.steps, self.noise_features))
        damage = np.cumsum(np.exp(self.exponent * load) / SCALE, axis=1)
        states = np.concatenate([load[:, :, None], noise], axis=2)
        return cut_at_stop(states, first_stop(damage >= limit), self.feature_names)

    def damage(self, paths: TrajectorySet) -> FloatArray:
        """Return the damage up to each row; (N,)."""
        worn = np.exp(self.exponent * paths.states[:, 0]) / SCALE
        total = np.cumsum(worn)
        before = np.repeat((total - worn)[paths.offsets[:-1]], paths.lengths)
        return np.asarray(total - before)

    def oracle(self, paths: TrajectorySet) -> FloatArray:
        """Damage less its usual limit, 1, of each row; (N,)."""
        return self.damage(paths) - 1 + 1e-12  # the sum over all paths rounds differently

    @staticmethod
    def _loads(noise: FloatArray) -> FloatArray:
        """Run x_t = 0.8 x_{t−1} + noise from x_{−1} = 0; (P, T) → (P, T)."""
        x = np.zeros((len(noise), noise.shape[1] + 1))
        for t in range(noise.shape[1]):
            x[:, t + 1] = PERSISTENCE * x[:, t] + noise[:, t]
        return x[:, 1:]
