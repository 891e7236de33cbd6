"""Layers of one network, or of several members in batched products; and networks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from lit_ios.checks import UserError, check_choice

Activation = Literal["silu", "relu", "tanh", "gelu"]
Normalisation = Literal["none", "layer"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}

BLOCK = 2048  # rows whose hidden layers fit into a processor's cache
NARROW = 16  # outputs below which batched products are several times faster transposed


class _NarrowLayer(torch.autograd.Function):
    """x·W + b of several members for few outputs, as (Wᵀxᵀ)ᵀ.

    The products of a narrow head take as long as those of a layer of full width unless the narrow
    side comes first, which autograd by itself does not do for the gradient of W.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias.mT, weight.mT.contiguous(), x.mT).mT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight = (saved.to(grad.dtype) for saved in ctx.saved_tensors)  # mixed precision
        of_x = grad.bmm(weight.mT) if ctx.needs_input_grad[0] else None
        return of_x, grad.mT.bmm(x).mT, grad.sum(1, keepdim=True)


class StackedLinear(nn.Module):
    """Linear layers of several members in one batched product; (B, D) or (K, B, D) → (K, B, H)."""

    def __init__(self, inputs: int, outputs: int, members: int) -> None:
        super().__init__()
        self.narrow = outputs < min(NARROW, inputs)
        layers = [nn.Linear(inputs, outputs) for _ in range(members)]
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, state: Tensor) -> Tensor:
        """Apply each member's layer to its own input, or to the one they share."""
        inputs = state.expand(len(self.weight), -1, -1)
        if self.narrow:
            return _NarrowLayer.apply(inputs, self.weight, self.bias)  # type: ignore
        return torch.baddbmm(self.bias, inputs, self.weight)


class StackedLayerNorm(nn.Module):
    """Layer normalisation with scale and shift of each member; (K, B, H) → (K, B, H)."""

    def __init__(self, width: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, values: Tensor) -> Tensor:
        """Normalise, scale and shift."""
        return layer_norm(values, values.shape[-1:]) * self.weight + self.bias


def by_blocks(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Apply a network to many rows some at a time, which is faster; gradients need them at once."""
    if torch.is_grad_enabled() or torch.compiler.is_exporting() or inputs[0].shape[-2] <= BLOCK:
        return network(*inputs)
    blocks = zip(*(torch.split(rows, BLOCK, -2) for rows in inputs), strict=True)
    return torch.cat([network(*block) for block in blocks], -2)


def linear(inputs: int, outputs: int, members: int = 1) -> nn.Module:
    """Return a linear layer of one network, or of several at once."""
    return nn.Linear(inputs, outputs) if members == 1 else StackedLinear(inputs, outputs, members)


def mlp_trunk(
    inputs: int,
    hidden: Sequence[int],
    activation: Activation,
    normalisation: Normalisation,
    members: int = 1,
) -> nn.Sequential:
    """Build linear layers, each followed by normalisation, if any, and activation."""
    check_choice("activation", activation, Activation)
    check_choice("normalisation", normalisation, Normalisation)
    if not hidden or min(hidden) < 1:
        raise UserError(f"hidden must list at least one positive layer size, got {list(hidden)}")
    layers: list[nn.Module] = []
    for width in hidden:
        layers.append(linear(inputs, width, members))
        if normalisation == "layer":
            one = members == 1
            layers.append(nn.LayerNorm(width) if one else StackedLayerNorm(width, members))
        layers.append(_ACTIVATIONS[activation]())
        inputs = width
    return nn.Sequential(*layers)
