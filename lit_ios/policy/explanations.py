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
from lit_ios.trajectories import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lit_ios.policy.policy import StoppingPolicy

HISTORY = "gains so far"


class Explanation(NamedTuple):
    """One decision, taken apart."""

    margin: float
    threshold: float
    stop: bool
    stop_gain: float  # G(s) = Q(s, stop)
    continuation_gain: float | None  # g(s), where the variant models it
    average_margin: float  # of the state at the training mean, from where the shares count
    shares: dict[str, float]  # by coordinate of the state; they add up to margin − average_margin
    values: dict[str, float]  # of the coordinates, in raw units

    def figure(self, most: int = 12) -> Figure:
        """Draw the largest shares as bars."""
        from lit_ios.plotting import margin_shares

        return margin_shares(self, most)


def explain(
    policy: StoppingPolicy, observation: Any, stream: Stream | None = None,
    time: float | None = None, points: int = 64,
) -> Explanation:  # fmt: skip
    """Take the margin of an observation apart by integrated gradients.

    Along the straight line from the training mean to the state, the margin's gradient is
    integrated coordinate by coordinate, so that the shares add up to the difference.

    Args:
        policy: whose margin.
        observation: as for `stream.step`.
        stream: the live path it would be the next row of; a new path by default. It is not
            advanced.
        time: of the observation.
        points: nodes of the Gauss–Legendre rule.
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
    nodes, weights = _legendre(points)
    shares = torch.zeros_like(target)
    for node, weight in zip(nodes, weights, strict=True):
        point = (target * node).requires_grad_()
        gradient = torch.autograd.grad(_margin(policy, point, decision.t, y), point)[0]
        shares += weight * gradient * target
    with torch.no_grad():
        average = float(_margin(policy, torch.zeros_like(target), decision.t, y))
        output = _judge(policy, state, decision.t, y)
    names = (*module.state_names, HISTORY) if len(y) else module.state_names
    return Explanation(
        margin=decision.margin,
        threshold=policy.threshold,
        stop=decision.stop,
        stop_gain=float(output.q[0, 0]),
        continuation_gain=None if output.gain is None else float(output.gain[0]),
        average_margin=average,
        shares=dict(zip(names, shares.tolist(), strict=True)),
        values=dict(zip(names, [*raw.tolist(), *([float(y.mean())] if len(y) else [])],
                        strict=True)),
    )  # fmt: skip


def _margin(policy: StoppingPolicy, point: Tensor, t: int, y: Tensor) -> Tensor:
    """Return the margin of a state, the last coordinate being the history if there is one."""
    if not len(y):
        return torch.as_tensor(_judge(policy, point, t, y).margin[0])
    # members differ in their history: their mean moves, the differences stay in proportion
    mean = y.mean()
    scale = point[-1] / mean if mean != 0 else point[-1] * 0 + 1
    return torch.as_tensor(_judge(policy, point[:-1], t, y * scale).margin[0])


def _judge(policy: StoppingPolicy, state: Tensor, t: int, y: Tensor) -> Any:
    module, step = policy.module, torch.tensor([t])
    if isinstance(module, DOIQS):
        previous = y[0:1] if module.members == 1 else y[:, None]
        return module.evaluate_rows(state[None], step, previous).vote()
    return module.evaluate(state[None], step, torch.tensor([0]), gains=True).vote()


def _legendre(points: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the Gauss–Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2
