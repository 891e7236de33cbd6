"""The trainer's own options: strategy, loggers, threads, and what Lightning says of them."""

from __future__ import annotations

import os
import re
from typing import Any

import torch
from pytorch_lightning.callbacks import Callback, ProgressBar
from pytorch_lightning.loggers import Logger

from lit_ios.checks import UserError


def check_trainer(config: Any) -> None:
    """Refuse what this project's models cannot be trained with."""
    if config.get("precision") in ("16-true", "bf16-true"):
        raise UserError(f"precision {config['precision']} is too coarse to learn in: use mixed")
    if config.get("accelerator") == "mps":
        raise UserError("accelerator mps has no double precision, which scaling needs: use cpu")


def callbacks_of(config: Any, output: str | None, safe_csv: bool) -> list[Callback]:
    """Return the callbacks that a user asks for; writers of decisions are told where to."""
    callbacks: list[Callback] = config.get("callbacks") or []
    if config.get("enable_progress_bar") is False:
        callbacks = [c for c in callbacks if not isinstance(c, ProgressBar)]
    for callback in callbacks:
        if output is not None and hasattr(callback, "output"):
            callback.output = output
        if safe_csv and hasattr(callback, "safe_csv"):
            callback.safe_csv = True
    return callbacks


def loggers_of(given: Any) -> list[Logger]:
    """Return the loggers that a user asks for, beside the run folder's own."""
    if given in (None, True):
        return []
    return [given] if isinstance(given, Logger) else list(given)


def choose_strategy(config: Any, updates: str) -> None:
    """Choose the strategy where the user has not; Ray's need its workers.

    Args:
        config: of the trainer.
        updates: of the model; `alternating` ones go backward several times in a step.
    """
    if config.get("strategy") == "auto" and _several_processes(config):
        config["strategy"] = (
            "ddp_find_unused_parameters_true" if updates == "alternating" else "ddp"
        )
    elif type(config.get("strategy")).__module__.startswith("ray."):
        _check_worker()
        if updates == "alternating":
            config["strategy"]._ddp_kwargs["find_unused_parameters"] = True


def _several_processes(config: Any) -> bool:
    devices, accelerator = config.get("devices"), config.get("accelerator")
    if config.get("num_nodes", 1) > 1:
        return True
    if devices == "auto":
        return accelerator != "cpu" and torch.cuda.device_count() > 1
    return str(devices) != "1"


def _check_worker() -> None:
    """Refuse Ray's strategies outside of its workers."""
    import ray.train

    try:
        ray.train.get_context().get_world_size()
    except (RuntimeError, AttributeError):
        raise UserError(
            "trainer.strategy is one of Ray's workers, and this process is none: fit … --on ray "
            "--workers N"
        ) from None


def explain_trainer_error(error: Exception, strategy: object) -> UserError | None:
    """Return what Lightning says of the trainer's options in one sentence, if it is known."""
    if "invalid strategy name" in str(error):
        ray = str(strategy).startswith("ray")
        advice = "; Ray's are classes: fit … --on ray --workers N" if ray else ""
        return UserError(f"trainer.strategy: there is no strategy of this name{advice}")
    if "more than one stateful callback" in str(error):
        return UserError(
            "trainer.callbacks has two of one class with the same arguments: leave one out"
        )
    return None


def refused_by_trainer(reason: str) -> UserError:
    """Return the error for what Lightning says of the trainer's options."""
    machine = re.search("accelerator|backend|devices", reason)
    return UserError(
        f"trainer: {reason}"
        + ("; leave --trainer.accelerator and --trainer.devices out" if machine else "")
    )


def default_threads(work: int) -> int:
    """Choose the number of threads by the numbers in a layer: rows × width × members."""
    return 1 if work < 1_000_000 else os.cpu_count() or 1
