"""Q on the plane of two features at each time, beside the true region where it is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from lit_ios.trajectories import FloatArray


class Grid(NamedTuple):
    """Q(s, ·) on a grid of T times, H × W points."""

    x: FloatArray  # (W,)
    y: FloatArray  # (H,)
    times: FloatArray  # (T,) since the path began
    q: FloatArray  # (T, H, W, 2)
    truth: FloatArray | None  # (T, H, W) at least 0 inside the true stopping region

    @property
    def margin(self) -> FloatArray:
        """Q(s,0) − Q(s,1); (T, H, W)."""
        return np.asarray(self.q[..., 0] - self.q[..., 1])


class Typical(NamedTuple):
    """What a row looks like beside its state, on average at each time; (T,) each."""

    time: FloatArray
    step: FloatArray
    previous_y: FloatArray  # zeros if the variant has no y


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Switch to evaluation without gradients, and back."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)


def stopping_grid(module: Any, datamodule: Any, points: int) -> Grid | None:
    """Evaluate Q wherever the training paths are; None unless the state is (x, y, time).

    The y⁻ that DO-IQS needs is history, not part of the plane: its mean over the validation paths
    at that time stands in for it.
    """
    if len(datamodule.feature_names) != 2 or datamodule.lags or not datamodule.include_time:
        return None
    states = datamodule.splits.train.states
    low, high = states[:, :2].min(axis=0), states[:, :2].max(axis=0)
    reach = 0.05 * (high - low)
    x, y = (np.linspace(low[i] - reach[i], high[i] + reach[i], points) for i in range(2))
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    with evaluating(module):
        typical = _typical(module, datamodule)
        q = np.stack([_q_at(module, plane, *row) for row in zip(*typical, strict=True)])
    shape = (len(typical.time), points, points)
    truth = None
    if datamodule.region is not None:
        now = np.repeat(typical.time, len(plane))
        truth = datamodule.region.margin(np.tile(plane, (shape[0], 1)), now).reshape(shape)
    return Grid(x, y, typical.time, q.reshape(*shape, 2), truth)


def _typical(module: Any, datamodule: Any) -> Typical:
    """Average step and y⁻ of the validation paths, at the times of the grid."""
    batch, _ = datamodule.first_paths("val")
    previous_y = module(datamodule.transfer_batch_to_device(batch, module.device, 0)).previous_y
    elapsed, step = batch.state[:, -1].numpy(), batch.step.numpy()
    y = np.zeros(len(step))
    if previous_y is not None:
        y = previous_y.reshape(-1, len(step)).mean(0).cpu().numpy()
    time, group = np.unique(elapsed, return_inverse=True)
    mean_y = np.bincount(group, weights=y) / np.bincount(group)
    rate = step.sum() / max(elapsed.sum(), 1e-12)  # steps per unit of time
    grid = datamodule.grid_times
    return Typical(grid, grid * rate, np.interp(grid, time, mean_y))


def _q_at(
    module: Any, plane: FloatArray, time: float, step: float, previous_y: float
) -> FloatArray:
    """Q at all points at one time; (H·W, 2)."""
    raw = np.concatenate([plane, np.full((len(plane), 1), time)], axis=1)
    state = module.standardise(torch.from_numpy(raw).to(module.device))
    steps = torch.full((len(raw),), round(step), device=state.device)
    if "gain" in module.parts:
        history = state.new_full((len(raw),), previous_y)
        return np.asarray(module.evaluate_rows(state, steps, history).vote().q.cpu().numpy())
    rows = torch.arange(len(raw), device=state.device)
    return np.asarray(module.evaluate(state, steps, rows).vote().q.cpu().numpy())
