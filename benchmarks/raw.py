"""The ten variants as plain PyTorch loops: what `benchmarks.speed` measures the framework by.

The default settings' mathematics written out by hand, without modules, views, optimizer wrappers,
hooks or logging: plain tensors, one joint backward pass, one fused Adam per part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, silu, softplus

from datamodules.loaders import TrainLoader

GAMMA = 0.99


class RawLoop:
    """Weights copied from a fresh module, trained on the rows its loader would give.

    Args:
        module: any variant with its default settings, before training.
        loader: gives the order of the rows; the loop gathers them itself.
    """

    def __init__(self, module: Any, loader: TrainLoader) -> None:
        self.kind = type(module).__name__
        self.loader = loader
        self.weights = {
            n: p.detach().clone().requires_grad_() for n, p in module.named_parameters()
        }
        names = {id(p): n for n, p in module.named_parameters()}
        self.optimizers = [
            torch.optim.Adam(
                [self.weights[names[id(p)]] for p in module.part_parameters(part)],
                lr=0.01,
                fused=True,
            )
            for part in module.parts
        ]

    def epoch(self, number: int, epsilon: Tensor, confidence: Tensor) -> None:
        """Train one epoch."""
        self.epsilon, self.confidence = epsilon, confidence
        self.loader.set_epoch(number)
        plan = self.loader._plan()
        state, rows_of_paths = self.loader._state, int(self.loader.offsets[-1])
        stops, steps = self.loader._stop, self.loader._step
        for start, end in zip(plan.bounds[:-1], plan.bounds[1:], strict=True):
            rows = torch.from_numpy(plan.rows[start:end]).to(state.device)
            stop = stops[rows]
            weight = torch.from_numpy(plan.copies[start:end]).to(state.device)
            if len(self.loader.synthetic_rows):
                weight = torch.where(rows < rows_of_paths, weight, self.confidence)
            following = state[(rows + 1).clamp_max(len(state) - 1)].masked_fill_(stop[:, None], 0.0)
            first = None
            if plan.first is not None:
                first = torch.from_numpy(plan.first[start:end] - start).to(state.device)
            step = steps[rows].long()
            self.step(state[rows], following, ~stop, step, weight, first)
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] *= 0.99

    def step(
        self,
        state: Tensor,
        following: Tensor,
        going: Tensor,
        step: Tensor,
        weight: Tensor,
        first: Tensor | None,
    ) -> None:
        """Update all parts once."""
        weight = weight / weight.sum()
        if self.kind == "Classifier":
            stop, go = self._q(self._trunk(state))
            sign = torch.where(going, stop - go, go - stop)
            loss = softplus(sign / self.epsilon) @ weight
        elif self.kind == "IQS":
            stop, go = self._q(self._trunk(torch.cat([state, following])))
            value = self._value(stop, go)
            loss = self._iq(stop[: len(state)], go[: len(state)], value, going, weight)
        else:
            gain = None
            if self.kind == "DOIQS":
                assert first is not None
                gain, y = self._gain(state, step, first)
                previous = torch.where(step > 0, y.roll(1), 0.0)
                state = torch.cat([state, y[:, None]], 1)
                following = torch.cat([following, y.roll(-1)[:, None]], 1)
            features = self._trunk(state)
            predicted = state + linear(features, *self._layer("dynamics.change"))
            stop, go = self._q(features)
            next_stop, next_go = self._q(self._trunk(predicted.detach()))
            now, then = self._value(stop, go), self._value(next_stop, next_go)
            loss = self._iq(stop, go, torch.cat([now, then]), going, weight)
            going_weight = weight * going
            going_weight = going_weight / going_weight.sum()
            error = torch.where(going[:, None], predicted - following, 0.0)
            loss = loss + error.square().mean(1) @ going_weight
            if gain is not None:
                target = (go - GAMMA * then - previous).detach()
                miss = torch.where(going, gain - target, 0.0)
                loss = loss + miss.square() @ going_weight
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"rule.{name}.weight"], self.weights[f"rule.{name}.bias"]

    def _trunk(self, state: Tensor, part: str = "head") -> Tensor:
        hidden = silu(linear(state, *self._layer(f"{part}.trunk.0")))
        return silu(linear(hidden, *self._layer(f"{part}.trunk.2")))

    def _q(self, features: Tensor) -> tuple[Tensor, Tensor]:
        stop, go = linear(features, *self._layer("head.q")).unbind(-1)
        return stop, go

    def _value(self, stop: Tensor, go: Tensor) -> Tensor:
        return go + self.epsilon * softplus((stop - go) / self.epsilon)

    def _iq(self, stop: Tensor, go: Tensor, value: Tensor, going: Tensor, weight: Tensor) -> Tensor:
        """χ² objective; `value` holds V(s), then V(s')."""
        discounted = torch.where(going, GAMMA * value[len(stop) :], 0.0)
        reward = torch.where(going, go, stop) - discounted
        return (value[: len(stop)] - discounted - reward + reward.square() / 2) @ weight

    def _gain(self, state: Tensor, step: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self._trunk(state, "memory")
        gain = linear(hidden, *self._layer("memory.head")).squeeze(-1)
        with torch.no_grad():
            discounted = gain.double() * torch.pow(GAMMA, step.double())
            running = discounted.cumsum(0)
            y = (running - (running - discounted)[first]).float()
        return gain, y

    def difference(self, weights: dict[str, Tensor]) -> float:
        """Return by how much other weights differ from these, relative to their size."""
        pairs = [(self.weights[name].detach(), other) for name, other in weights.items()]
        return max(float((a - b).norm() / b.norm()) for a, b in pairs)
