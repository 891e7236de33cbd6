"""Which training steps can be compiled, and a fingerprint of all that is compiled into one."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.plugins import Precision
from torch.optim import Adam, AdamW, Optimizer

from lit_ios.batches import TrainBatch

TRIED = (2, 13)  # the oldest PyTorch this is tested with
MODULES = "lit_ios.modules."
OURS = ("lit_ios.", "torch.")
KNOWN = ("benchmarks", "callbacks", "lit_ios", "pytorch_lightning", "ray")  # whose callbacks are
_HOOKS = (  # that run inside a step, and would not
    "on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step",
)  # fmt: skip
_FREE = frozenset(  # settings that a step takes as inputs, or that do not concern it
    {
        "inputs", "learning_rate", "learning_rate_decay", "epsilon", "optimizer", "margin",
        "bootstrap", "metrics", "compile",
    }
)  # fmt: skip


def why_eager(module: Any, optimizers: Sequence[Optimizer], batch: TrainBatch) -> str | None:
    """Return why the step of a module cannot be compiled; None if it can.

    Args:
        module: that is being trained.
        optimizers: of its parts.
        batch: a batch of training rows.
    """
    trainer = module.trainer
    if tuple(map(int, torch.__version__.split(".")[:2])) < TRIED:
        return f"PyTorch {'.'.join(map(str, TRIED))} or newer is needed"
    if batch.state.device.type != "cpu":
        return "it trains on a GPU"
    if trainer.world_size > 1:
        return "several processes train together"
    if type(trainer.precision_plugin) is not Precision:
        return "it trains in mixed precision"
    if torch.is_anomaly_enabled():
        return "trainer.detect_anomaly is on"
    if not type(module).__module__.startswith(MODULES):
        return f"{type(module).__name__} may step in a way of its own"
    learning = [m for m in module.modules() if any(True for _ in m.parameters())]
    stepped = (*module.rule.modules(), *learning)  # metrics are not
    foreign = next((m for m in stepped if not _is_ours(type(m))), None)
    if foreign is not None:
        return f"{type(foreign).__name__} is a class of your own"
    if getattr(module, "futures", None) is not None and module.futures.samples:
        return "successor_samples draws random numbers"
    if not all(_is_plain_adam(optimizer) for optimizer in optimizers):
        return "only Adam and AdamW with plain settings can be compiled"
    for callback in trainer.callbacks:
        name = type(callback).__name__
        if any(_overrides(callback, hook) for hook in _HOOKS):
            return f"{name} wants to see every backward pass or optimizer step"
        if not _is_known(callback):
            return f"{name} is a callback of your own, which may change what would be compiled"
    return None


def _is_ours(kind: type) -> bool:
    return f"{kind.__module__}.".startswith(OURS)


def _is_plain_adam(optimizer: Optimizer) -> bool:
    if type(optimizer) not in (Adam, AdamW) or len(optimizer.param_groups) != 1:
        return False
    group = optimizer.param_groups[0]
    unusual = any(group.get(name) for name in ("amsgrad", "capturable", "maximize"))
    return not unusual and isinstance(group["lr"], float) and len(group["params"]) == 1


def _overrides(callback: Callback, hook: str) -> bool:
    return getattr(type(callback), hook, None) is not getattr(Callback, hook)


def _is_known(callback: Callback) -> bool:
    kind = type(callback)
    return kind.__module__.split(".")[0] in KNOWN and not issubclass(kind, LambdaCallback)


def kind_of(batch: TrainBatch) -> tuple[Any, ...]:
    """Return which columns a batch has, their types, and all of their sizes but the rows'."""
    return tuple(
        (name, str(column.dtype), *_other_sizes(name, column))
        for name, column in batch._asdict().items()
        if column is not None
    )


def row_axis(name: str, column: torch.Tensor) -> int:
    """Return which axis of a column is the rows': the last one where members may differ."""
    return column.ndim - 1 if name in ("copies", "seen") else 0


def _other_sizes(name: str, column: torch.Tensor) -> list[int]:
    sizes = list(column.shape)
    del sizes[row_axis(name, column)]
    return sizes


def fingerprint(module: Any, optimizers: Sequence[Optimizer], batch: TrainBatch) -> str:
    """Return what tells a compiled step from all others: everything that is compiled into it.

    That is the model's class and settings, the optimizers' settings, the columns of a batch, this
    program's source, PyTorch, its number of threads and the processor.
    """
    settings = {k: v for k, v in module.hparams.items() if k[0] != "_" and k not in _FREE}
    groups = [
        {k: v for k, v in optimizer.param_groups[0].items() if k not in ("params", "lr")}
        for optimizer in optimizers
    ]
    for group in groups:
        group.pop("initial_lr", None)
    parts = [
        type(module).__name__, settings, [type(one).__name__ for one in optimizers], groups,
        kind_of(batch), _source(), torch.__version__, torch.version.git_version,
        torch.get_num_threads(), _processor(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _source() -> str:
    """Return a checksum of all source that a step may be made of."""
    package = Path(__file__).resolve().parents[1]
    files = [
        *package.glob("*.py"),
        *(f for part in ("functional", "modules", "rule") for f in (package / part).rglob("*.py")),
    ]
    sums = [(str(f.relative_to(package)), hashlib.sha256(f.read_bytes())) for f in sorted(files)]
    return hashlib.sha256(repr([(name, s.hexdigest()) for name, s in sums]).encode()).hexdigest()


@cache
def _processor() -> str:
    """Return what a processor understands, which decides what is compiled for it."""
    known = Path("/proc/cpuinfo")
    if not known.is_file():
        return (
            f"{platform.machine()} {platform.processor()} {torch.backends.cpu.get_cpu_capability()}"
        )
    lines = known.read_text().splitlines()
    said = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return f"{platform.machine()} {' '.join(dict.fromkeys(said))}"
