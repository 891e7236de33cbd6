"""Data modules of paths that a test makes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from datamodules.base import TrajectoryDataModule
from datamodules.declared import Splits
from lit_ios.trajectories import Trajectory, TrajectorySet


def random_paths(
    count: int, seed: int, shift: float = 0.0, censored: int = 0, longest: int = 9
) -> TrajectorySet:
    """Return paths of 3 to `longest` rows at uneven times, the first of them censored."""
    rng = np.random.default_rng(seed)
    return TrajectorySet.from_paths(
        (
            Trajectory(
                rng.normal([5 + shift, -200.0], [2.0, 30.0], (rows, 2)),
                times=np.cumsum(rng.uniform(0.5, 3.0, rows)),
                stopped=i >= censored,
            )
            for i, rows in enumerate(rng.integers(3, longest + 1, count))
        ),
        ["heat", "speed"],
    )


class GivenData(TrajectoryDataModule):
    """Serves the paths it is given."""

    name = "given"

    def __init__(
        self,
        train: TrajectorySet | None = None,
        val: TrajectorySet | None = None,
        test: TrajectorySet | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.given = Splits(
            train or random_paths(20, seed=0),
            val or random_paths(6, seed=1),
            test or random_paths(7, seed=2),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return ("heat", "speed")

    def read_splits(self) -> Splits:
        return self.given


def elapsed_states(paths: TrajectorySet) -> np.ndarray:
    """Features and time since the path began, row by row."""
    return np.array(
        [
            [*path.states[t], path.times[t] - path.times[0]]
            for path in paths
            for t in range(len(path))
        ]
    )


def epoch_rows(data: TrajectoryDataModule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States, actions and synthetic flags of one training epoch, rows as often as they count."""
    batches = list(data.train_batches())
    copies = torch.cat([batch.copies for batch in batches]).long()
    columns = (
        torch.cat([getattr(b, c) for b in batches]) for c in ("state", "action", "synthetic")
    )
    return tuple(column.repeat_interleave(copies, dim=0).numpy() for column in columns)
