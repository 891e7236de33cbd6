"""The networks of a policy in NumPy, for live paths.

A row of a small network takes a framework longer to start than to compute; here it takes some
matrix products. Numbers are doubles, as in the policy's batches, so that both agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.modules import DOIQS, StoppingModule
from lit_ios.networks import StackedLayerNorm, StackedLinear
from lit_ios.trajectories import FloatArray, IntArray

Layer = Callable[[FloatArray], FloatArray]


class Judgement(NamedTuple):
    """What the policy says of B rows."""

    margin: FloatArray  # (B,)
    y: FloatArray  # (B, K): cumulative gain including these rows; K = 0 without one


class Engine:
    """Judges rows given in raw states.

    Args:
        module: the trained model.
    """

    def __init__(self, module: StoppingModule) -> None:
        self.mean, self.scale = _array(module.state_mean), _array(module.state_scale)
        self.gamma, self.members = module.gamma, module.members
        self.network = [*_layers(module.network.trunk), *_layers(module.network.q_head)]
        self.gain: list[Layer] = []
        if isinstance(module, DOIQS):
            self.gain = [*_layers(module.gain_network.trunk), *_layers(module.gain_network.head)]

    @property
    def y_dim(self) -> int:
        """Number of cumulative gains a live path carries along."""
        return self.members if self.gain else 0

    def judge(self, state: FloatArray, step: IntArray | int, y: FloatArray) -> Judgement:
        """Judge the next row of B paths.

        Args:
            state: (B, D) raw.
            step: (B,) t of the rows, or the same for all.
            y: (B, K) cumulative gain of the rows before.
        """
        state = (state - self.mean) / self.scale
        if self.members == 1:
            if self.gain:
                y = y + _apply(self.gain, state) * self._discount(step)
                state = np.concatenate([state, y], axis=1)
            q = _apply(self.network, state)
            return Judgement(q[:, 0] - q[:, 1], y)
        if self.gain:
            gain = _apply(self.gain, state)[..., 0].T
            y = y + gain * self._discount(step)
            rows = np.broadcast_to(state, (self.members, *state.shape))
            state = np.concatenate([rows, y.T[..., None]], axis=2)
        q = _apply(self.network, state)
        margins = np.sort(q[..., 0] - q[..., 1], axis=0)
        return Judgement(margins[(self.members - 1) // 2], y)  # as PathOutput.vote does

    def _discount(self, step: IntArray | int) -> FloatArray | float:
        """Return γ^t: one number, or (B, 1)."""
        return self.gamma**step if isinstance(step, int) else (self.gamma**step)[:, None]


def _apply(layers: list[Layer], values: FloatArray) -> FloatArray:
    for layer in layers:
        values = layer(values)
    return values


def _layers(network: nn.Module) -> list[Layer]:
    """Turn the layers of a network into functions of arrays."""
    parts = list(network) if isinstance(network, nn.Sequential) else [network]
    return [_layer(part) for part in parts]


def _layer(part: nn.Module) -> Layer:
    """Turn a layer into a function that, unlike a closure, can be pickled."""
    if isinstance(part, nn.Linear):
        return partial(_affine, weight=_array(part.weight.T), bias=_array(part.bias))
    if isinstance(part, StackedLinear):
        return partial(_affine, weight=_array(part.weight), bias=_array(part.bias))
    if isinstance(part, nn.LayerNorm | StackedLayerNorm):
        return partial(_layer_norm, weight=_array(part.weight), bias=_array(part.bias))
    return _ACTIVATIONS[type(part)]


def _affine(values: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    return np.asarray(values @ weight + bias)


def _layer_norm(values: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + 1e-5) * weight + bias)


def _silu(values: FloatArray) -> FloatArray:
    half = 0.5 * values  # x σ(x) = ½x (1 + tanh ½x), which cannot overflow
    values = np.tanh(half)
    values *= half
    values += half
    return values


def _gelu(values: FloatArray) -> FloatArray:
    from scipy.special import erf

    return np.asarray(0.5 * values * (1 + erf(values / np.sqrt(2))))


_ACTIVATIONS: dict[type[nn.Module], Layer] = {
    nn.SiLU: _silu,
    nn.ReLU: partial(np.maximum, 0.0),
    nn.Tanh: np.tanh,
    nn.GELU: _gelu,
}


def _array(values: Tensor) -> FloatArray:
    with torch.no_grad():
        return np.ascontiguousarray(values.detach().double().cpu().numpy())
