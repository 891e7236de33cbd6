"""One optimizer per part: the classes users name, stepped as fast as they allow."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lit_ios.checks import UserError
from lit_ios.imports import Spec, as_spec, build, import_class

DEFAULT = "torch.optim.Adam"
# these treat every number by itself, so that one vector of weights is stepped as many tensors are
ELEMENT_WISE = frozenset(
    {
        torch.optim.Adadelta, torch.optim.Adagrad, torch.optim.Adam, torch.optim.AdamW,
        torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop,
        torch.optim.SGD,
    }
)  # fmt: skip
FUSED = (torch.optim.Adam, torch.optim.AdamW)


def optimizer_specs(given: str | Spec | None, parts: Sequence[str]) -> list[Spec]:
    """Return class and arguments of each part's optimizer.

    Args:
        given: a class path with its arguments for all parts, or one for each part by its name;
            None for Adam.
        parts: names of the parts.
    """
    if isinstance(given, dict) and "class_path" not in given and given:
        unknown = sorted(set(given) - set(parts))
        if unknown:
            raise UserError(
                f"optimizer: there is no part {unknown[0]!r}; the parts are {', '.join(parts)}"
            )
        specs = [as_spec(f"optimizer.{part}", given.get(part, DEFAULT)) for part in parts]
    else:
        specs = [as_spec("optimizer", given or DEFAULT)] * len(parts)
    for spec in specs:
        import_class(spec["class_path"], Optimizer)
    return specs


def is_element_wise(spec: Spec) -> bool:
    """Say whether an optimizer treats every number by itself."""
    return import_class(spec["class_path"], Optimizer) in ELEMENT_WISE


def make_optimizer(
    spec: Spec, parameters: Sequence[nn.Parameter], learning_rate: float
) -> Optimizer:
    """Make the optimizer of a part; one that needs a closure is refused.

    Args:
        spec: class_path and init_args.
        parameters: of the part.
        learning_rate: unless the arguments give another.
    """
    cls = import_class(spec["class_path"], Optimizer)
    closure = inspect.signature(cls.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise UserError(
            f"optimizer: {spec['class_path']} needs a closure that evaluates the loss again, "
            "which the parts' shared step cannot give; use one that does not"
        )
    usual = {"lr": learning_rate} | ({"fused": True} if cls in FUSED else {})
    arguments = usual | spec["init_args"]
    return build("optimizer", spec | {"init_args": arguments}, Optimizer, params=list(parameters))


def together(optimizers: Sequence[Optimizer]) -> list[Optimizer]:
    """Return one optimizer that steps as these do, where they are of one class and settings.

    It shares their state. One call for all takes a third of the time of one for each.
    """
    first = optimizers[0]
    options = _options(first)
    alike = all(
        type(one) is type(first) and len(one.param_groups) == 1 and _options(one) == options
        for one in optimizers
    )
    if type(first) not in ELEMENT_WISE or not alike:
        return list(optimizers)
    pieces = [one.param_groups[0]["params"][0] for one in optimizers]
    made = type(first)([{**options, "params": pieces}])  # type: ignore[call-arg]
    for one, piece in zip(optimizers, pieces, strict=True):
        made.state[piece] = one.state[piece]
    return [made]


def _options(optimizer: Optimizer) -> dict[str, Any]:
    group = optimizer.param_groups[0]
    return {name: value for name, value in group.items() if name not in ("params", "initial_lr")}
