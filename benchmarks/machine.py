"""What the benchmarks run on: a CPU, or a GPU, whose work is waited for when the clock is read."""

from __future__ import annotations

import os
import platform
import time
from typing import Any, Literal

import torch

Accelerator = Literal["cpu", "gpu"]
_chosen: list[Accelerator] = ["cpu"]


def choose(accelerator: Accelerator) -> None:
    """Run everything from here on on this; end the program where it does not exist."""
    if accelerator == "gpu" and not torch.cuda.is_available():
        raise SystemExit(
            "error: PyTorch sees no GPU on this machine: run this on one that has one, or leave "
            "--accelerator gpu out"
        )
    _chosen[0] = accelerator


def accelerator() -> Accelerator:
    """Return what is run on."""
    return _chosen[0]


def device() -> torch.device:
    """Return where tensors lie."""
    return torch.device("cuda" if _chosen[0] == "gpu" else "cpu")


def clock() -> float:
    """Return the time in seconds at which all work asked for so far is done."""
    if _chosen[0] == "gpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def describe() -> dict[str, Any]:
    """Return what figures must be read with."""
    gpu = {"gpu": torch.cuda.get_device_name(0)} if _chosen[0] == "gpu" else {}
    return {
        "accelerator": _chosen[0],
        **gpu,
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "torch": torch.__version__,
    }
