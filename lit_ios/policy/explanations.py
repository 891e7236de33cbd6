"""Why a row is stopped or not: gains, and the share of each coordinate in the margin.

The gains explain the policy but are not unique: other gains lead to the same stops. The region
in which it stops, and so the sign of margin − threshold, does not depend on which are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.modules import DOIQS
from lit_ios.policy.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lit_ios.policy.policy import StoppingPolicy

HISTORY = "gains so far"
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
    shares: dict[str, float]  # by coordinate of the state
    residual: float  # margin − average_margin − the sum of the shares: what integration left over
    values: dict[str, float]  # of the coordinates, in raw units

    def figure(self, most: int = 12) -> Figure:
        """Draw the largest shares as bars."""
        from lit_ios.plotting import margin_shares

        return margin_shares(self, most)


def explain(
    policy: StoppingPolicy, observation: Any, stream: Stream | None = None,
    time: float | None = None,
) -> Explanation:  # fmt: skip
    """Take the margin of an observation apart by integrated gradients.

    Along the straight line from the training mean to the state, the margin's gradient is
    integrated coordinate by coordinate, so that the shares add up to the difference but for a small
    residual where the margin has kinks.

    Args:
        policy: whose margin.
        observation: as for `stream.step`.
        stream: the live path it would be the next row of; a new path by default. It is not
            advanced.
        time: of the observation.
    """
    path = policy.stream() if stream is None else stream.copy()
    history = np.array(path.state()["y"])
    decision = path.step(observation, time)
    saved = path.state()
    raw = np.concatenate(saved["recent"])
    if policy.include_time:
        raw = np.append(raw, decision.time)
    module = policy.module
    state = module.standardise(torch.from_numpy(raw))
    y = torch.from_numpy(history)
    target = torch.cat([state, y.mean(0, keepdim=True)]) if len(y) else state
    with torch.no_grad():
        average = float(_margins(policy, torch.zeros_like(target)[None], decision.t, y)[0])
        output = _judge(policy, state[None], decision.t, y[None])
    for panels in PANELS:
        nodes, weights = _line_rule(panels)
        points = (nodes[:, None] * target).requires_grad_()
        (gradient,) = torch.autograd.grad(_margins(policy, points, decision.t, y).sum(), points)
        shares = (weights @ gradient) * target
        residual = decision.margin - average - float(shares.sum())
        if abs(residual) <= PRECISION * abs(decision.margin - average):
            break
    names = (*module.state_names, HISTORY) if len(y) else module.state_names
    return Explanation(
        margin=decision.margin,
        threshold=path.threshold,
        stop=decision.stop,
        stop_gain=float(output.q[0, 0]),
        continuation_gain=None if output.gain is None else float(output.gain[0]),
        average_margin=average,
        shares=dict(zip(names, shares.tolist(), strict=True)),
        residual=residual,
        values=dict(zip(names, [*raw.tolist(), *([float(y.mean())] if len(y) else [])],
                        strict=True)),
    )  # fmt: skip


def _margins(policy: StoppingPolicy, points: Tensor, t: int, y: Tensor) -> Tensor:
    """Return the margins of states, the last coordinate being the history if there is one."""
    if not len(y):
        return torch.as_tensor(_judge(policy, points, t, y).margin)
    # members differ in their history: their mean moves, the differences stay in proportion
    mean = y.mean()
    scale = points[:, -1] / mean if mean != 0 else torch.ones_like(points[:, -1])
    return torch.as_tensor(_judge(policy, points[:, :-1], t, y * scale[:, None]).margin)


def _judge(policy: StoppingPolicy, states: Tensor, t: int, y: Tensor) -> Any:
    """Judge states (N, D) of one t, with histories (N, K) where the policy has them."""
    module, step = policy.module, torch.full((len(states),), t)
    if isinstance(module, DOIQS):
        previous = y[:, 0] if module.members == 1 else y.T
        return module.evaluate_rows(states, step, previous).vote()
    return module.evaluate(states, step, torch.arange(len(states)), gains=True).vote()


def _line_rule(panels: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [0, 1]: a Gauss–Legendre rule in each of many panels."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    starts = np.arange(panels)[:, None] / panels
    every = starts + (nodes + 1) / (2 * panels)
    return torch.from_numpy(every.ravel()), torch.from_numpy(
        np.tile(weights / (2 * panels), panels)
    )
