"""What adds up along a path with decay, and the gated unit: E12."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import torch
from torch import Tensor

BLOCK = 64  # rows within which sums are one matrix product
NO_ROW = 1 << 40  # where the paths of rows that fill up a block begin


def decayed_sum(values: Tensor, decay: Tensor, first_row: Tensor) -> Tensor:
    """Add up values along each path, what was added before losing a share at every row.

    E12: h^k_t = λ_k h^k_{t−1} + x^k_t, h^k_{−1} = 0. Rows are taken in blocks: a matrix of powers
    of λ within a block, and for the rest the last rows of the blocks before, which add up in the
    same way with λ^L. The cost of a row does not depend on the lengths of the paths, and nothing
    is divided by λ^t, which would overflow.

    Args:
        values: (…, N, C) x of whole paths, one below the other.
        decay: (C,) λ in [0, 1].
        first_row: (N,) index of the first row of each row's path.
    """
    rows, units = values.shape[-2:]
    if rows == 0:
        return values
    x = values.reshape(-1, rows, units)
    return _sum_by_blocks(x, decay.to(values.dtype), first_row, _levels(rows)).reshape(values.shape)


def _levels(rows: Any) -> int:
    """Return of how many levels the blocks of so many rows are.

    While a step is traced to be compiled the number is not known: it takes at most `BLOCK`² rows.
    """
    if isinstance(rows, torch.SymInt):
        return 2
    return next(n for n in count(1) if BLOCK**n >= rows)


def _sum_by_blocks(x: Tensor, decay: Tensor, first_row: Tensor, levels: int) -> Tensor:
    """Add up (members, N, C) along paths; N is at most BLOCK to the power of `levels`."""
    rows, units = x.shape[1:]
    size = rows if levels == 1 else BLOCK
    # a traced graph holds for one block and for several if there is always one more
    spare = BLOCK if isinstance(rows, torch.SymInt) else 0
    blocks = 1 if levels == 1 else (rows + spare + BLOCK - 1) // BLOCK
    padded = blocks * size - rows
    row = torch.arange(blocks * size, device=x.device).view(blocks, size)
    first = torch.nn.functional.pad(first_row, (0, padded), value=NO_ROW).view(blocks, size)
    order = torch.arange(size, device=x.device)
    apart = (order[:, None] - order).clamp_min(0)  # (L, L)
    powers = decay[:, None, None] ** apart  # (C, L, L)
    same = (row[:, None, :] >= first[:, :, None]) & (order[:, None] >= order)  # (blocks, L, L)
    weights = powers * same[:, None].to(x.dtype)  # (blocks, C, L, L)
    x = torch.nn.functional.pad(x, (0, 0, 0, padded))
    x = x.reshape(-1, blocks, size, units).permute(1, 3, 2, 0)  # (blocks, C, L, members)
    summed = weights @ x  # within each block
    if levels > 1:
        last = summed[:, :, -1].permute(2, 0, 1)  # (members, blocks, C)
        whole = _sum_by_blocks(last, decay**BLOCK, first[:, -1] // BLOCK, levels - 1)
        before = torch.nn.functional.pad(whole, (0, 0, 1, 0))[:, :-1]  # of the block before
        later = decay[:, None] ** (order + 1)  # (C, L)
        goes_on = (first < row[:, :1]).to(x.dtype)  # (blocks, L) began in an earlier block
        carried = (later * goes_on[:, None])[..., None]  # (blocks, C, L, 1)
        summed = torch.addcmul(summed, carried, before.permute(1, 2, 0)[:, :, None])
    return summed.permute(3, 0, 2, 1).reshape(-1, blocks * size, units)[:, :rows]


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
    with torch.autocast(driven.device.type, enabled=False):  # mixed precision would add up errors
        states: Tensor = _scan(driven.to(weight.dtype), weight, bias, step, first_row)[0]
    return states


def _side_by_side(step: Tensor, first_row: Tensor) -> tuple[Tensor, list[int]]:
    """Return rows by their number in the path, longer paths first, and how many there are of each.

    So the rows of a number are followed by the same paths' next rows but for those that end.
    """
    length = torch.zeros_like(step).index_add_(0, first_row, torch.ones_like(step))[first_row]
    by_length = torch.sort(length, descending=True, stable=True).indices  # paths stay together
    order = by_length[torch.sort(step[by_length], stable=True).indices]
    return order, torch.bincount(step).tolist()


# `gru_step` along paths that lie side by side, with a backward pass of its own: autograd would keep
# and call some twenty nodes a step; here a step is five operations forward and four backward, and
# everything that does not depend on the step before is done for all rows at once. Operators of
# their own, so that a compiled step calls them as they are: how many rows there are of each number
# depends on the batch.
@torch.library.custom_op("lit_ios::gru_scan", mutates_args=())
def _scan(
    driven: Tensor, weight: Tensor, bias: Tensor, step: Tensor, first_row: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return states in the order of the rows; states and gates side by side, and that order."""
    order, sizes = _side_by_side(step, first_row)
    units = weight.shape[1]
    rz = 2 * units
    driven = driven[:, order]
    of_h, of_n = driven + bias, driven[..., rz:]  # a + b's bias, but for n
    of_h[..., rz:] = bias[..., rz:]
    h = driven.new_zeros(len(driven), sizes[0], units)
    states, gates, news = [], [], []
    for size, constant, a_n in zip(
        sizes, torch.split(of_h, sizes, 1), torch.split(of_n, sizes, 1), strict=True
    ):
        h = h[:, :size]
        gate = torch.baddbmm(constant, h, weight)  # r and z before σ, b_n
        r_z, b_n = torch.split(gate, [rz, units], -1)
        r, z = r_z.sigmoid_().chunk(2, -1)
        new = torch.addcmul(a_n, r, b_n).tanh_()
        h = torch.lerp(new, h, z)
        states.append(h)
        gates.append(gate)
        news.append(new)
    found = torch.cat(states, 1)
    kept = torch.cat([torch.cat(gates, 1), torch.cat(news, 1)], -1)  # r, z, b_n, n
    return found[:, _places(order)], found, kept, order


@torch.library.custom_op("lit_ios::gru_scan_backward", mutates_args=())
def _scan_backward(
    grad: Tensor, states: Tensor, gates: Tensor, weight: Tensor, order: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of what is driven, weight and bias."""
    sizes = torch.bincount(step).tolist()
    units, back = weight.shape[1], weight.mT
    r, z, b_n, new = gates.chunk(4, -1)
    before = torch.cat([torch.zeros_like(states[:, : sizes[0]]), _previous(states, sizes)], 1)
    of_n = (1 - z) * (1 - new.square())  # ∂h/∂a_n
    share = torch.stack([of_n * b_n * r * (1 - r), (before - new) * z * (1 - z), of_n * r], 2)
    through = [
        torch.split(piece, sizes, 1) for piece in (grad[:, order], share, z)
    ]  # ∂h/∂b, by row
    of_h, of_b = [], []  # ∂L/∂h and ∂L/∂b, the last rows first
    carried = states[:, :0]
    for own, factor, kept in zip(*(reversed(pieces) for pieces in through), strict=True):
        if carried.shape == own.shape:
            own = own + carried
        else:  # some of these paths end here
            own = own.clone()
            own[:, : carried.shape[1]] += carried
        of_h.append(own)
        of_b.append((own.unsqueeze(2) * factor).flatten(2))
        carried = torch.baddbmm(own * kept, of_b[-1], back)
    b = torch.cat(of_b[::-1], 1)
    a = torch.cat([b[..., : 2 * units], torch.cat(of_h[::-1], 1) * of_n], -1)  # ∂L/∂a
    return a[:, _places(order)], before.mT.bmm(b), b.sum(1, keepdim=True)


def _places(order: Tensor) -> Tensor:
    """Return where each row went."""
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return place


def _previous(states: Tensor, sizes: list[int]) -> Tensor:
    """Return what the paths of all rows but the first remembered a row before."""
    parts, start = [], 0
    for size, following in pairwise(sizes):
        parts.append(states[:, start : start + following])
        start += size
    return torch.cat(parts, 1) if parts else states[:, :0]


@_scan.register_fake
def _(
    driven: Tensor, weight: Tensor, bias: Tensor, step: Tensor, first_row: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    members, rows, wide = driven.shape
    states = driven.new_empty(members, rows, wide // 3)
    gates = driven.new_empty(members, rows, 4 * (wide // 3))
    return states, torch.empty_like(states), gates, torch.empty_like(step)


@_scan_backward.register_fake
def _(
    grad: Tensor, states: Tensor, gates: Tensor, weight: Tensor, order: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    members, rows, units = states.shape
    shapes = (members, rows, 3 * units), weight.shape, (members, 1, 3 * units)
    driven, of_weight, of_bias = (states.new_empty(shape) for shape in shapes)
    return driven, of_weight, of_bias


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, _, step, _ = inputs
    _, states, gates, order = output
    ctx.save_for_backward(states, gates, weight, order, step)


def _differentiate(ctx: Any, grad: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    states, gates, weight, order, step = ctx.saved_tensors
    with torch.autocast(grad.device.type, enabled=False):
        gradients = _scan_backward(grad, states, gates, weight, order, step)
    return (*gradients, None, None)


_scan.register_autograd(_differentiate, setup_context=_keep)
