"""Why a row is stopped or not: gains, and the share of each coordinate in the margin.

The gains explain the policy but are not unique: other gains lead to the same stops. The region
in which it stops, and so the sign of margin − threshold, does not depend on which are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.carry import ROWS, THRESHOLD, combine, memory_of
from lit_ios.rule import StoppingRule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 64  # pieces of the line
CUTS, ROUNDS = 8, 5  # pieces that a piece with a kink is cut into, and how often at the most
PRECISION = 1e-4  # of the sum of shares


class Explanation(NamedTuple):
    """One decision, taken apart."""

    margin: float
    threshold: float
    stop: bool
    stop_gain: float  # G(s) = Q(s, stop)
    continuation_gain: float | None  # g(s), where the variant models it
    average_margin: float  # of the state at the training mean, from where the shares count
    shares: dict[str, float]  # by column of the state, and of what is remembered
    residual: float  # margin − average_margin − the sum of the shares: what integration left over
    values: dict[str, float | str]  # of the columns, in raw units; of text its category

    def label(self, name: str) -> str:
        """Return a column with its value."""
        value = self.values[name]
        return f"{name} = {value if isinstance(value, str) else format(value, '.4g')}"

    def figure(self, most: int = 9) -> Figure:
        """Draw the largest shares as bars."""
        from lit_ios.plotting import margin_shares

        return margin_shares(self, most)


def explain(rule: StoppingRule, columns: Tensor, time: Tensor, carry: Tensor) -> Explanation:
    """Take the margin of the next row of a path apart by integrated gradients.

    Along the straight line from the training mean to the state, and from no memory to what is
    remembered, the margin's gradient is integrated column by column, so that the
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
    shares = _integrated(lambda points: _margins(rule, points, before, t), target)
    residual = margin - average - float(shares.sum())
    own = shares[: len(state)].tolist()
    by_column = _by_column(rule, own, judged.raw[0].tolist())
    if remembers:
        by_column[rule.memory.label] = (float(shares[-1]), float(before.mean()))
    return Explanation(
        margin=margin,
        threshold=float(carry[0, THRESHOLD]),
        stop=bool(judged.stop[0]),
        stop_gain=float(combine(torch, judged.q[..., 0])[0]),
        continuation_gain=None if gain is None else float(gain[0]),
        average_margin=average,
        shares={name: share for name, (share, _) in by_column.items()},
        residual=residual,
        values={name: value for name, (_, value) in by_column.items()},
    )


def _by_column(
    rule: StoppingRule, shares: Sequence[float], raw: Sequence[float]
) -> dict[str, tuple[float, float | str]]:
    """Return the share and the value of each column: its categories are one, and its gaps too.

    Args:
        rule: whose states these are.
        shares: of the state's coordinates.
        raw: their values.
    """
    found: dict[str, tuple[float, float | str]] = {}
    origins, window = rule.encoder.origins, rule.window
    for (feature, lag), name, share, value in zip(
        window.coordinates, window.state_names, shares, raw, strict=True
    ):
        if feature is None:  # time; a text column may have its name
            found[name if name not in found else f"{name} since the start"] = (share, value)
            continue
        origin = origins[feature]
        column = f"{origin.column}[-{lag}]" if lag else origin.column
        before, shown = found.get(column, (0.0, ""))
        if origin.told is None or value > 0.5:
            shown = value if origin.told is None else origin.told
        found[column] = (before + share, shown)
    return found


def _margins(rule: StoppingRule, points: Tensor, before: Tensor, t: Tensor) -> Tensor:
    """Return the margins at points of the line, the last coordinate scaling what is remembered."""
    steps = t.expand(len(points))
    state, h = points, before.expand(*before.shape[:-2], len(points), -1)
    if before.shape[-1]:
        state, h = points[:, :-1], h * points[:, -1:]
    q = rule.values(state, rule.memory.advance(h, state, steps))
    return torch.as_tensor(combine(torch, q[..., 0] - q[..., 1]))


def _integrated(margins: Callable[[Tensor], Tensor], target: Tensor) -> Tensor:
    """Return the integral of the margin's gradient along the line from 0 to a point; (S,).

    A Gauss–Legendre rule in each piece of the line; pieces whose sum is not the difference of the
    margins at their ends hold a kink, and are cut again.

    Args:
        margins: of points; (B, S) → (B,).
        target: (S,) the point.
    """
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(4))
    starts = torch.arange(PANELS, dtype=torch.double) / PANELS
    width, total = 1 / PANELS, torch.zeros_like(target)
    for round_ in range(ROUNDS + 1):
        at = starts[:, None] + (nodes + 1) * (width / 2)  # (P, 4)
        points = (at.reshape(-1, 1) * target).requires_grad_()
        (gradient,) = torch.autograd.grad(margins(points).sum(), points)
        added = (weights * (width / 2)) @ gradient.reshape(*at.shape, -1) * target  # (P, S)
        with torch.no_grad():
            ends = margins(torch.cat([starts, starts + width])[:, None] * target)
        difference = ends[len(starts) :] - ends[: len(starts)]
        if round_ == 0:
            allowed = PRECISION / PANELS * float(difference.sum().abs())
        kinks = (difference - added.sum(1)).abs() > allowed
        if round_ == ROUNDS:  # what is left over is told
            kinks[:] = False
        total = total + added[~kinks].sum(0)
        if not kinks.any():
            break
        width /= CUTS
        starts = (starts[kinks][:, None] + width * torch.arange(CUTS)).flatten()
    return total
