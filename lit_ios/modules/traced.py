"""One training step as a graph of tensors, traced from the module's own code.

What a step changes are the weights of all parts, which are one vector, and the state of each part's
Adam; what differs from step to step, the learning rates, ε, the confidence and the rows, are inputs
too. Everything else is baked into the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.adam import adam

from lit_ios.batches import TrainBatch
from lit_ios.modules.flat import FlatParts, clip_factor
from lit_ios.modules.suitable import row_axis
from lit_ios.modules.terms import names_of, values_of

ROWS = (2, 1 << 24)  # of a batch
_STATE = ("exp_avg", "exp_avg_sq", "step")


class Traced(NamedTuple):
    """A step as a graph, and what its terms are logged under."""

    program: torch.export.ExportedProgram
    names: list[str]


class Rates:
    """What a module's step takes beside the rows, as tensors: the same ones step after step.

    Args:
        module: that learns.
        flat: its weights.
        optimizers: of each part, Adam or AdamW.
    """

    def __init__(self, module: Any, flat: FlatParts, optimizers: Sequence[torch.optim.Optimizer]):
        self._module, self._flat, self._optimizers = module, flat, optimizers
        self._rates = [torch.tensor(0.0, dtype=torch.double) for _ in optimizers]

    def inputs(self) -> list[Tensor]:
        """Return weights, ε, confidence, then of each part the state of its optimizer and its rate.

        The state is that of a fresh optimizer where it has not stepped.
        """
        given = [self._flat.weights, self._module.rule.epsilon, self._module.confidence]
        for optimizer, piece, rate in zip(
            self._optimizers, self._flat.pieces, self._rates, strict=True
        ):
            state = optimizer.state[piece]
            if not state:
                state["step"] = torch.tensor(0.0)
                state["exp_avg"] = torch.zeros_like(piece.detach())
                state["exp_avg_sq"] = torch.zeros_like(piece.detach())
            rate.fill_(optimizer.param_groups[0]["lr"])
            given += [*(state[name] for name in _STATE), rate]
        return given


def rows_of(batch: TrainBatch) -> list[Tensor]:
    """Return the columns that a batch has, as they are compiled for: without gaps."""
    return [column.contiguous() for column in batch if column is not None]


class _Total(nn.Module):
    """The loss of some parts, as a function of the weights."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, parts: Sequence[int], batch: TrainBatch) -> tuple[Tensor, dict[str, Any]]:
        records: dict[str, Any] = {}
        return self.module.total(parts, batch, records), records  # type: ignore[operator]


class _Step:
    """One step as a function of tensors, which it changes in place; returns the terms."""

    def __init__(
        self, module: Any, flat: FlatParts, optimizers: Sequence[Any], batch: TrainBatch
    ) -> None:
        self.module, self.flat = module, flat
        self.groups = [optimizer.param_groups[0] for optimizer in optimizers]
        self.fields = [name for name, column in batch._asdict().items() if column is not None]
        self.total = _Total(module)
        names = {id(p): f"module.{name}" for name, p in module.named_parameters()}
        self.places = {names[id(p)]: (p.shape, *place) for p, place in flat.places.items()}
        self.names: list[str] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        weights, epsilon, confidence = inputs[:3]
        end = 3 + 4 * len(self.groups)
        states = [inputs[start : start + 4] for start in range(3, end, 4)]
        batch = TrainBatch(**dict(zip(self.fields, inputs[end:], strict=True)))
        schedules = {"module.rule.epsilon": epsilon, "module.confidence": confidence}
        kept: dict[str, Any] = {}
        for parts in self.module.rounds:
            leaves = {
                name: weights[start:stop].view(shape).detach().requires_grad_()
                for name, (shape, start, stop) in self.places.items()
            }
            loss, records = functional_call(self.total, leaves | schedules, (parts, batch))
            kept |= records
            gradients = self._gradients(parts, loss, leaves)
            for number, gradient in zip(parts, gradients, strict=True):
                self._adam(number, weights, gradient, *states[number])
        self.names = names_of(kept)
        return values_of(kept)

    def _gradients(
        self, parts: Sequence[int], loss: Tensor, leaves: dict[str, Tensor]
    ) -> list[Tensor]:
        """Return each part's gradient as one vector, clipped if that is asked for."""
        owned = [self._names_of(number) for number in parts]
        every = list(dict.fromkeys(name for own in owned for name in own))
        found = torch.autograd.grad(
            loss, [leaves[name] for name in every], allow_unused=True, materialize_grads=True
        )
        by_name = dict(zip(every, found, strict=True))
        vectors = []
        for own in owned:
            pieces = [by_name[name].reshape(self.module.members, -1) for name in own]
            if self.module.gradient_clip is not None:
                factor = clip_factor(pieces, self.module.gradient_clip)
                pieces = [piece * factor for piece in pieces]
            vectors.append(torch.cat([piece.flatten() for piece in pieces]))
        return vectors

    def _names_of(self, number: int) -> list[str]:
        begin, end = self.flat.bounds[number]
        return [name for name, (_, start, _) in self.places.items() if begin <= start < end]

    def _adam(
        self,
        number: int,
        weights: Tensor,
        gradient: Tensor,
        mean: Tensor,
        square: Tensor,
        count: Tensor,
        rate: Tensor,
    ) -> None:
        """Let PyTorch's own Adam step a part, whose corrections are found in double precision."""
        group, exact = self.groups[number], count.double()
        with torch.no_grad():
            adam(
                [weights[slice(*self.flat.bounds[number])]], [gradient], [mean], [square], [],
                [exact], foreach=False, fused=False, differentiable=True, amsgrad=False,
                beta1=group["betas"][0], beta2=group["betas"][1], lr=rate, eps=group["eps"],
                weight_decay=group["weight_decay"], maximize=group["maximize"],
                decoupled_weight_decay=group["decoupled_weight_decay"],
            )  # fmt: skip
            count.copy_(exact)


def trace(module: Any, flat: FlatParts, optimizers: Sequence[Any], batch: TrainBatch) -> Traced:
    """Trace the step of a module for batches of any number of rows.

    Args:
        module: that learns; nothing of it is changed.
        flat: its weights.
        optimizers: of each part, Adam or AdamW.
        batch: any; only what it consists of matters.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    step = _Step(module, flat, optimizers, batch)
    given = Rates(module, flat, optimizers).inputs()
    tensors = (*flat.places, *(column for column in batch if column is not None))
    rows = _unlike(size for tensor in tensors for size in tensor.shape)
    columns = {
        name: column.new_zeros(_shape(name, column, rows))
        for name, column in batch._asdict().items()
        if column is not None
    }
    example = [*(tensor.clone() for tensor in given), *columns.values()]
    graph: Any = make_fx(step, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*example)
    _refuse_state(graph, module, given)
    number = torch.export.Dim("rows", min=ROWS[0], max=ROWS[1])
    sizes: list[Any] = [None] * len(given)
    sizes += [{row_axis(name, column): number} for name, column in columns.items()]
    program = torch.export.export(
        graph, tuple(example), dynamic_shapes=tuple(sizes), strict=False,
        prefer_deferred_runtime_asserts_over_guards=True,  # on sizes it cannot reason about
    )  # fmt: skip
    return Traced(program, step.names)


def _unlike(sizes: Iterable[int]) -> int:
    """Return a number of rows that no other size is taken for."""
    known = set(sizes)
    return next(number for number in count(67) if number not in known)


def _shape(name: str, column: Tensor, rows: int) -> list[int]:
    shape = list(column.shape)
    shape[row_axis(name, column)] = rows
    return shape


def _refuse_state(graph: torch.fx.GraphModule, module: nn.Module, given: Sequence[Tensor]) -> None:
    """Refuse a graph into which numbers that change are baked.

    What follows from a module's settings may be, such as the decays of a memory: those buffers are
    not in its state.
    """
    changing = {t.untyped_storage().data_ptr() for t in (*given, *module.state_dict().values())}
    for node in graph.graph.nodes:
        if node.op != "get_attr":
            continue
        baked = getattr(graph, node.target)
        if isinstance(baked, Tensor) and baked.untyped_storage().data_ptr() in changing:
            raise RuntimeError(f"{node.target} would be baked into the step")
