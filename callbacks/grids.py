"""Q on the plane of two features at each time, beside the true region where it is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from lit_ios.carry import combine
from lit_ios.rule import StoppingRule
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
    """What a row looks like beside its state, on average at each time."""

    time: FloatArray  # (T,)
    step: FloatArray  # (T,)
    before: FloatArray  # (T, …, C) what is remembered before the row


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

    What a rule remembers is history, not part of the plane: its mean over the validation paths at
    that time stands in for it.
    """
    if len(datamodule.feature_names) != 2 or datamodule.lags or not datamodule.include_time:
        return None
    features = datamodule.encoder.paths(datamodule.splits.train).states
    low, high = features.min(axis=0), features.max(axis=0)
    reach = 0.05 * (high - low)
    x, y = (np.linspace(low[i] - reach[i], high[i] + reach[i], points) for i in range(2))
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    with evaluating(module):
        typical = _typical(module, datamodule)
        q = np.stack([_q_at(module.rule, plane, *row) for row in zip(*typical, strict=True)])
    shape = (len(typical.time), points, points)
    truth = None
    if datamodule.region is not None:
        now = np.repeat(typical.time, len(plane))
        truth = datamodule.region.margin(np.tile(plane, (shape[0], 1)), now).reshape(shape)
    return Grid(x, y, typical.time, q.reshape(*shape, 2), truth)


def _typical(module: Any, datamodule: Any) -> Typical:
    """Average step and memory of the validation paths, at the times of the grid."""
    batch, _ = datamodule.first_paths("val")
    h = module.rule.remember(datamodule.transfer_batch_to_device(batch, module.device, 0)).h
    before = h.roll(1, dims=-2).masked_fill((batch.step == 0)[:, None].to(h.device), 0.0)
    elapsed = (batch.time - batch.time[batch.first_row]).numpy()
    step = batch.step.numpy()
    time, group = np.unique(elapsed, return_inverse=True)
    rate = step.sum() / max(elapsed.sum(), 1e-12)  # steps per unit of time
    grid = datamodule.grid_times
    members = before if before.ndim == 3 else before[None]  # (K, M, C)
    columns = members.permute(0, 2, 1).flatten(0, 1).cpu().numpy()  # (K·C, M)
    means = [
        np.interp(grid, time, np.bincount(group, weights=values) / np.bincount(group))
        for values in columns
    ]
    shape = (len(grid), *before.shape[:-2], before.shape[-1])
    memory = np.stack(means, axis=1).reshape(shape) if means else np.zeros(shape)
    return Typical(grid, grid * rate, memory)


def _q_at(
    rule: StoppingRule, plane: FloatArray, time: float, step: float, before: FloatArray
) -> FloatArray:
    """Q at all points at one time, members combined; (H·W, 2)."""
    raw = np.concatenate([plane, np.full((len(plane), 1), time)], axis=1)
    device, dtype = rule.epsilon.device, rule.epsilon.dtype
    state = rule.scaler(torch.from_numpy(raw).to(device)).to(dtype)
    steps = torch.full((len(raw),), round(step), device=device)
    h = torch.from_numpy(before).to(device, dtype)[..., None, :]
    h = h.expand(*h.shape[:-2], len(raw), -1)
    q = rule.values(state, rule.memory.advance(h, state, steps))
    both = torch.stack([combine(torch, q[..., action]) for action in (0, 1)], dim=-1)
    return np.asarray(both.cpu().numpy())
