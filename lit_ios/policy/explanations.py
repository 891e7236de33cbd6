"""Why a row is stopped or not: gains, and the share of each coordinate in the margin.

The gains explain the policy but are not unique: other gains lead to the same stops. The region
in which it stops, and so the sign of margin − threshold, does not depend on which are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.carry import ROWS, THRESHOLD, combine, memory_of
from lit_ios.rule import StoppingRule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (64, 512, 4096)  # pieces of the line, until the shares add up
PRECISION = 1e-4


class Explanation(NamedTuple):
    """One decision, taken apart."""

    margin: float
    threshold: float
    stop: bool
    stop_gain: float  # G(s) = Q(s, stop)
    continuation_gain: float | None  # g(s), where the variant models it
    average_margin: float  # of the state at the training mean, from where the shares count
    shares: dict[str, float]  # by coordinate of the state, and of what is remembered
    residual: float  # margin − average_margin − the sum of the shares: what integration left over
    values: dict[str, float]  # of the coordinates, in raw units

    def figure(self, most: int = 12) -> Figure:
        """Draw the largest shares as bars."""
        from lit_ios.plotting import margin_shares

        return margin_shares(self, most)


def explain(rule: StoppingRule, columns: Tensor, time: Tensor, carry: Tensor) -> Explanation:
    """Take the margin of the next row of a path apart by integrated gradients.

    Along the straight line from the training mean to the state, and from no memory to what is
    remembered, the margin's gradient is integrated coordinate by coordinate, so that the
    shares add up to the difference but for a small residual where the margin has kinks.

    Args:
        rule: whose margin.
        columns: (1, C) raw.
        time: (1,) NaN for a usual step after the last row.
        carry: (1, W) of the path before the row.
    """
    with torch.no_grad():
        judged = rule.step(columns, time, carry)
    layout, t = rule.layout, carry[0, ROWS]
    before = memory_of(layout, carry)  # (…, 1, C)
    state, margin = judged.state[0], float(judged.margin[0])
    remembers = layout.memory > 0
    target = torch.cat([state, torch.ones(1, dtype=state.dtype)]) if remembers else state
    with torch.no_grad():
        average = float(_margins(rule, torch.zeros_like(target)[None], before, t)[0])
        gain = rule.continuation_gain(judged.state, judged.h, carry[:, ROWS])
    for panels in PANELS:
        nodes, weights = _line_rule(panels)
        points = (nodes[:, None] * target).requires_grad_()
        (gradient,) = torch.autograd.grad(_margins(rule, points, before, t).sum(), points)
        shares = (weights @ gradient) * target
        residual = margin - average - float(shares.sum())
        if abs(residual) <= PRECISION * abs(margin - average):
            break
    names, values = rule.window.state_names, judged.raw[0].tolist()
    if remembers:
        names, values = (*names, rule.memory.label), [*values, float(before.mean())]
    return Explanation(
        margin=margin,
        threshold=float(carry[0, THRESHOLD]),
        stop=bool(judged.stop[0]),
        stop_gain=float(combine(torch, judged.q[..., 0])[0]),
        continuation_gain=None if gain is None else float(gain[0]),
        average_margin=average,
        shares=dict(zip(names, shares.tolist(), strict=True)),
        residual=residual,
        values=dict(zip(names, values, strict=True)),
    )


def _margins(rule: StoppingRule, points: Tensor, before: Tensor, t: Tensor) -> Tensor:
    """Return the margins at points of the line, the last coordinate scaling what is remembered."""
    steps = t.expand(len(points))
    state, h = points, before.expand(*before.shape[:-2], len(points), -1)
    if before.shape[-1]:
        state, h = points[:, :-1], h * points[:, -1:]
    q = rule.values(state, rule.memory.advance(h, state, steps))
    return torch.as_tensor(combine(torch, q[..., 0] - q[..., 1]))


def _line_rule(panels: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [0, 1]: a Gauss–Legendre rule in each of many panels."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    starts = np.arange(panels)[:, None] / panels
    every = starts + (nodes + 1) / (2 * panels)
    return torch.from_numpy(every.ravel()), torch.from_numpy(
        np.tile(weights / (2 * panels), panels)
    )
