"""Networks that give Q: ours, one of a user's, or several members of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from lit_ios.checks import UserError
from lit_ios.imports import Spec, build, import_class
from lit_ios.rule.layers import Activation, Normalisation, linear, mlp_trunk


class Head(nn.Module):
    """Q(s, h, ·): what stopping and continuing are worth in a state, given what is remembered.

    A network of your own subclasses this: make its layers, say how wide its features are and
    compute them. Q is linear in the features, and so are the dynamics of model-based variants.

        class Residual(Head):
            def __init__(self, state_dim, memory_dim, width=64):
                super().__init__(width)
                self.first = nn.Linear(state_dim + memory_dim, width)
                self.second = nn.Linear(width, width)

            def features(self, state, h):
                x = self.first(join(state, h)).relu()
                return x + self.second(x).relu()

    Args:
        width: number of features.
        members: number of networks; only heads that are `stacked` are given more than one.
    """

    stacked: ClassVar[bool] = False  # whether it takes `members` itself, in batched layers

    def __init__(self, width: int, members: int = 1) -> None:
        super().__init__()
        self.width = width
        self.q = linear(width, 2, members)

    def features(self, state: Tensor, h: Tensor) -> Tensor:
        """Return what Q and the dynamics are linear in; (…, B, S), (…, B, C) → (…, B, width)."""
        raise NotImplementedError

    def values(self, features: Tensor) -> Tensor:
        """Return Q(s, h, ·); (…, B, width) → (…, B, 2)."""
        return self.q(features)  # type: ignore[no-any-return]

    def forward(self, state: Tensor, h: Tensor) -> Tensor:
        """Return Q(s, h, ·); (…, B, 2)."""
        return self.values(self.features(state, h))

    def value_parameters(self) -> list[nn.Parameter]:
        """Return what Q alone depends on, and the features do not."""
        return list(self.q.parameters())

    def feature_parameters(self) -> list[nn.Parameter]:
        """Return what the features depend on."""
        others = {id(parameter) for parameter in self.value_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in others]


def join(state: Tensor, h: Tensor) -> Tensor:
    """Return (s, h) as one vector; members share a state that has no axis of theirs."""
    if h.shape[-1] == 0:
        return state
    return torch.cat([state.expand(*h.shape[:-1], -1), h], dim=-1)


class MLPHead(Head):
    """Fully connected layers.

    Args:
        state_dim: S.
        memory_dim: C.
        hidden: layer sizes.
        activation: between layers.
        normalisation: before each activation.
        members: number of networks.
    """

    stacked = True

    def __init__(
        self,
        state_dim: int,
        memory_dim: int,
        hidden: Sequence[int] = (64, 64),
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        members: int = 1,
    ) -> None:
        trunk = mlp_trunk(state_dim + memory_dim, hidden, activation, normalisation, members)
        super().__init__(hidden[-1], members)
        self.trunk = trunk

    def features(self, state: Tensor, h: Tensor) -> Tensor:
        """Return the last hidden layer."""
        return self.trunk(join(state, h))  # type: ignore[no-any-return]


class MemberHeads(Head):
    """Several heads of a user's class, their weights stacked along a first axis.

    They are evaluated in one pass where torch.func can, else one by one.

    Args:
        heads: of one class and one architecture.
    """

    def __init__(self, heads: Sequence[Head]) -> None:
        nn.Module.__init__(self)
        self.width, self.members = heads[0].width, len(heads)
        parameters, buffers = stack_module_state(list(heads))
        self._names = {name.replace(".", "/"): name for name in (*parameters, *buffers)}
        for name, values in parameters.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(values.detach()))
        for name, values in buffers.items():
            self.register_buffer(name.replace(".", "/"), values)
        # in a tuple, so that its parameters are not counted as this module's
        self._template = (_ByMethod(copy.deepcopy(heads[0]).to("meta")),)
        self._vectorised = True

    def try_out(self, state_dim: int, memory_dim: int) -> None:
        """Find out whether torch.func can evaluate the members in one pass."""
        state, h = torch.zeros(2, state_dim), torch.zeros(self.members, 2, memory_dim)
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                self.forward(state, h)
        except Exception:  # what torch raises depends on the layer
            self._vectorised = False

    def train(self, mode: bool = True) -> MemberHeads:
        """Switch the members' layers, too."""
        self._template[0].train(mode)
        super().train(mode)
        return self

    def features(self, state: Tensor, h: Tensor) -> Tensor:
        """Return the members' features; (K, B, width)."""
        return self._each("features", state, h)

    def values(self, features: Tensor) -> Tensor:
        """Return the members' Q; (K, B, 2)."""
        return self._each("values", features)

    def forward(self, state: Tensor, h: Tensor) -> Tensor:
        """Return the members' Q; (K, B, 2)."""
        return self._each("forward", state, h)

    def value_parameters(self) -> list[nn.Parameter]:
        """Return what Q alone depends on, and the features do not."""
        return [p for name, p in self.named_parameters() if name.startswith("q/")]

    def _each(self, method: str, *inputs: Tensor) -> Tensor:
        weights = {self._names[name]: values for name, values in self._stacked()}
        own = [values.ndim == 3 for values in inputs]  # an axis of the members

        def call(weights: dict[str, Tensor], *inputs: Tensor) -> Tensor:
            named = {f"head.{name}": values for name, values in weights.items()}
            return functional_call(self._template[0], named, (method, *inputs))  # type: ignore[no-any-return]

        if self._vectorised and not torch.compiler.is_exporting():
            axes = (0, *(0 if axis else None for axis in own))
            return vmap(call, axes, randomness="different")(weights, *inputs)
        outputs = [
            call(
                {name: values[k] for name, values in weights.items()},
                *(values[k] if axis else values for values, axis in zip(inputs, own, strict=True)),
            )
            for k in range(self.members)
        ]
        return torch.stack(outputs)

    def _stacked(self) -> list[tuple[str, Tensor]]:
        return [*self.named_parameters(), *self.named_buffers()]


class _ByMethod(nn.Module):
    """Calls one of a head's methods, since torch.func only calls `forward`."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, method: str, *inputs: Tensor) -> Any:
        return getattr(self.head, method)(*inputs)


def build_head(
    spec: Spec, state_dim: int, memory_dim: int, members: int, allow: Sequence[str] = ()
) -> Head:
    """Make the head that a class path and its arguments name.

    Args:
        spec: class_path and init_args of a Head.
        state_dim: S.
        memory_dim: C.
        members: number of networks.
        allow: packages that may be imported beside the trusted ones.
    """
    given = {"state_dim": state_dim, "memory_dim": memory_dim}
    cls = import_class(spec["class_path"], Head, allow)
    if cls.stacked:
        return build("head", spec, Head, allow, **given, members=members)
    heads = [build("head", spec, Head, allow, **given) for _ in range(members)]
    if any(isinstance(layer, _BatchNorm) for layer in heads[0].modules()):
        raise UserError(
            f"{spec['class_path']}: batch normalisation cannot be used, since rows of a batch "
            "count by their weights and live paths come alone; LayerNorm can"
        )
    _check_width(heads[0], spec["class_path"], state_dim, memory_dim)
    if members == 1:
        return heads[0]
    together = MemberHeads(heads)
    together.try_out(state_dim, memory_dim)
    return together


def _check_width(head: Head, name: str, state_dim: int, memory_dim: int) -> None:
    """Evaluate two rows, so that a wrong shape is said now and by name."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            features = head.features(torch.zeros(2, state_dim), torch.zeros(2, memory_dim))
            q = head.values(features)
    except Exception as error:
        raise UserError(f"{name}: two rows cannot be evaluated: {error}") from error
    if features.shape != (2, head.width) or q.shape != (2, 2):
        raise UserError(
            f"{name}: 2 rows must give features of shape (2, {head.width}) and values of shape "
            f"(2, 2), got {tuple(features.shape)} and {tuple(q.shape)}"
        )
