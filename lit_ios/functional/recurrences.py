"""What adds up along a path with decay, and the gated unit: E12."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

BLOCK = 64  # rows within which sums are one matrix product


def decayed_sum(values: Tensor, decay: Tensor, first_row: Tensor) -> Tensor:
    """Add up values along each path, what was added before losing a share at every row.

    E12: h^k_t = λ_k h^k_{t−1} + x^k_t, h^k_{−1} = 0. Rows are taken in blocks: a matrix of powers
    of λ within a block, the last row of the block before for the rest. The cost of a row does not
    depend on the lengths of the paths, and nothing is divided by λ^t, which would overflow.

    Args:
        values: (…, N, C) x of whole paths, one below the other.
        decay: (C,) λ in [0, 1].
        first_row: (N,) index of the first row of each row's path.
    """
    rows, units = values.shape[-2:]
    if rows == 0:
        return values
    size = min(BLOCK, rows)
    blocks = -(-rows // size)
    padded = blocks * size - rows
    row = torch.arange(blocks * size, device=values.device).view(blocks, size)
    first = torch.nn.functional.pad(first_row, (0, padded), value=rows).view(blocks, size)
    order = torch.arange(size, device=values.device)
    apart = (order[:, None] - order).clamp_min(0)  # (L, L)
    powers = decay.to(values.dtype)[:, None, None] ** apart  # (C, L, L)
    same = (row[:, None, :] >= first[:, :, None]) & (order[:, None] >= order)  # (blocks, L, L)
    weights = powers * same[:, None].to(values.dtype)  # (blocks, C, L, L)
    x = torch.nn.functional.pad(values, (0, 0, 0, padded))
    x = x.reshape(-1, blocks, size, units).permute(1, 3, 2, 0)  # (blocks, C, L, members)
    within = weights @ x
    if blocks > 1:
        later = decay.to(values.dtype)[:, None] ** (order + 1)  # (C, L)
        goes_on = (first < row[:, :1]).to(values.dtype)  # (blocks, L) began in an earlier block
        carried = (later * goes_on[:, None])[..., None]  # (blocks, C, L, 1)
        sums = [within[0]]
        for block in range(1, blocks):
            sums.append(torch.addcmul(within[block], carried[block], sums[-1][:, -1:]))
        within = torch.stack(sums)
    summed = within.permute(3, 0, 2, 1).reshape(-1, blocks * size, units)[:, :rows]
    return summed.reshape(values.shape)


def gru_step(h: Tensor, driven: Tensor, recurrent: Tensor) -> Tensor:
    """Advance gated recurrent units by one row.

    E12, `gru`: r = σ(a_r + b_r), z = σ(a_z + b_z), n = tanh(a_n + r·b_n), h_t = n + z·(h_{t−1} − n)
    with a linear in the state and b linear in h_{t−1}.

    Args:
        h: (…, U) h_{t−1}.
        driven: (…, 3U) a = (a_r, a_z, a_n).
        recurrent: (…, 3U) b = (b_r, b_z, b_n).
    """
    of_r, of_z, of_n = driven.chunk(3, dim=-1)
    from_r, from_z, from_n = recurrent.chunk(3, dim=-1)
    new = torch.tanh(of_n + torch.sigmoid(of_r + from_r) * from_n)
    return new + torch.sigmoid(of_z + from_z) * (h - new)


def gru_scan(
    driven: Tensor, weight: Tensor, bias: Tensor, step: Tensor, first_row: Tensor
) -> Tensor:
    """Run gated recurrent units along whole paths, all paths side by side; (K, N, 3U) → (K, N, U).

    The number of sequential steps is the length of the longest path, whatever the number of paths
    and members: the more paths run side by side, the less a row costs.

    Args:
        driven: (K, N, 3U) what `gru_step` takes of the state.
        weight: (K, U, 3U) from h to b.
        bias: (K, 1, 3U) of b.
        step: (N,) number of the row in its path.
        first_row: (N,) where each row's path begins.
    """
    if step.shape[0] == 0:
        return driven[..., : weight.shape[1]]
    order, sizes = _side_by_side(step, first_row)
    with torch.autocast(driven.device.type, enabled=False):  # mixed precision would add up errors
        given = (driven[:, order].to(weight.dtype), weight, bias)
        states = _GRUScan.apply(*given, sizes)  # type: ignore[no-untyped-call]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return states[:, place]  # type: ignore[no-any-return]


def _side_by_side(step: Tensor, first_row: Tensor) -> tuple[Tensor, list[int]]:
    """Return rows by their number in the path, longer paths first, and how many there are of each.

    So the rows of a number are followed by the same paths' next rows but for those that end.
    """
    length = torch.zeros_like(step).index_add_(0, first_row, torch.ones_like(step))[first_row]
    by_length = torch.sort(length, descending=True, stable=True).indices  # paths stay together
    order = by_length[torch.sort(step[by_length], stable=True).indices]
    return order, torch.bincount(step).tolist()


class _GRUScan(torch.autograd.Function):
    """`gru_step` along paths that lie side by side, with a backward pass of its own.

    Autograd would keep and call some twenty nodes a step; here a step is eight operations forward
    and a dozen backward, and the weights' gradient is one product at the end.
    """

    @staticmethod
    def forward(ctx: Any, driven: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
        units = weight.shape[1]
        members, rows, _ = driven.shape
        states = driven.new_empty(members, rows, units)
        gates = driven.new_empty(members, rows, 4 * units)  # r, z, n, b_n
        h = driven.new_zeros(members, sizes[0], units)
        start = 0
        for size in sizes:
            part = slice(start, start + size)
            h = h[:, :size]
            a, b = driven[:, part], torch.baddbmm(bias, h, weight)
            rz = (a[..., : 2 * units] + b[..., : 2 * units]).sigmoid_()
            from_n = b[..., 2 * units :]
            new = torch.addcmul(a[..., 2 * units :], rz[..., :units], from_n).tanh_()
            h = torch.lerp(new, h, rz[..., units:])
            states[:, part] = h
            torch.cat([rz, new, from_n], -1, out=gates[:, part])
            start += size
        ctx.save_for_backward(states, gates, weight)
        ctx.sizes = sizes
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return (*_GRUScan._gradients(ctx, grads[0]), None)

    @staticmethod
    def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of what is driven, weight and bias."""
        states, gates, weight = ctx.saved_tensors
        sizes: list[int] = ctx.sizes
        units, back = weight.shape[1], weight.mT
        r, z, new, from_n = gates.split(units, -1)
        before = torch.cat([torch.zeros_like(states[:, : sizes[0]]), _previous(states, sizes)], 1)
        # everything that does not depend on the gradient, for all rows at once
        of_z = (before - new) * z * (1 - z)
        of_n = (1 - z) * (1 - new.square())
        of_r = from_n * r * (1 - r)
        of_a = torch.empty_like(gates[..., : 3 * units])  # ∂L/∂a
        of_b = torch.empty_like(of_a)  # ∂L/∂b
        end, carried = states.shape[1], None
        for size in reversed(sizes):
            part = slice(end - size, end)
            of_h = grad[:, part]
            if carried is not None:
                longer = carried.shape[1]
                of_h = of_h.clone()
                of_h[:, :longer] += carried
            n = of_h * of_n[:, part]
            torch.cat([n * of_r[:, part], of_h * of_z[:, part], n], -1, out=of_a[:, part])
            b = of_b[:, part]
            b.copy_(of_a[:, part])
            b[..., 2 * units :] *= r[:, part]
            carried = torch.baddbmm(of_h * z[:, part], b, back)
            end -= size
        return of_a, before.mT.bmm(of_b), of_b.sum(1, keepdim=True)


def _previous(states: Tensor, sizes: list[int]) -> Tensor:
    """Return what the paths of all rows but the first remembered a row before."""
    parts, start = [], 0
    for size, following in pairwise(sizes):
        parts.append(states[:, start : start + following])
        start += size
    return torch.cat(parts, 1) if parts else states[:, :0]
