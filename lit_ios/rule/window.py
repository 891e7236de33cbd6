"""From features to states: earlier rows, and the time since the path began."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.checks import check_number
from lit_ios.trajectories import TrajectorySet


class Window(nn.Module):
    """The state: features, those of the rows before, and the time since the path began.

    Before the first row of a path there is nothing: its first row stands in.

    Args:
        feature_names: of one row.
        lags: how many earlier rows are part of the state.
        include_time: whether the elapsed time is its last coordinate.
        static: features that do not change along a path: earlier rows tell nothing new of them.
    """

    def __init__(
        self,
        feature_names: tuple[str, ...],
        lags: int = 0,
        include_time: bool = True,
        static: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_number("lags", lags, at_least=0)
        self.feature_names, self.lags, self.include_time = feature_names, lags, include_time
        self.moving = [i for i, name in enumerate(feature_names) if name not in static]

    @property
    def lagged(self) -> list[int] | None:
        """Which of the features of the earlier rows are part of the state; None for all."""
        width = len(self.feature_names)
        if len(self.moving) == width:
            return None
        return [k * width + i for k in range(self.lags) for i in self.moving]

    @property
    def coordinates(self) -> list[tuple[int | None, int]]:
        """Which feature each coordinate of the state is, None for time, and how many rows ago."""
        found: list[tuple[int | None, int]] = [(i, 0) for i in range(len(self.feature_names))]
        found += [(i, k) for k in range(1, self.lags + 1) for i in self.moving]
        return [*found, (None, 0)] if self.include_time else found

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the state's coordinates."""
        names, time = self.feature_names, "time"
        while time in names:  # the data's own
            time += " since the start"
        return tuple(
            time if i is None else f"{names[i]}[-{k}]" if k else names[i]
            for i, k in self.coordinates
        )

    def scan(self, features: Tensor, time: Tensor, first_row: Tensor) -> Tensor:
        """Return the states of all rows of whole paths; (N, D) → (N, S).

        Args:
            features: (N, D).
            time: (N,) in the data's unit.
            first_row: (N,) where each row's path begins.
        """
        columns = [features]
        if self.lags:
            row = torch.arange(len(features), device=features.device)
            moving = features if self.lagged is None else features[:, self.moving]
            columns += [moving[torch.maximum(row - k, first_row)] for k in range(1, self.lags + 1)]
        if self.include_time:
            elapsed = time - time[first_row]
            columns.append(elapsed[:, None].to(features.dtype))
        return torch.cat(columns, dim=1) if len(columns) > 1 else features

    def paths(self, paths: TrajectorySet) -> TrajectorySet:
        """Return paths of features as paths of states."""
        first_row = np.repeat(paths.offsets[:-1], paths.lengths)
        given = (paths.states, paths.times, first_row)
        states = self.scan(*(torch.from_numpy(np.ascontiguousarray(values)) for values in given))
        return paths.with_states(states.numpy(), self.state_names)
