"""Settings found in a run folder: they say what model and data are, and nothing else.

A run folder may come from a stranger, who could ask to write anywhere by a logger, a checkpoint's
folder or an output file. What a user gives by --config or an option is the user's own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.imports import check_import, is_allowed
from lit_ios.settings import Settings, read_settings

CONFIG = "config.yaml"
_TRAINER = (  # numbers and words that say how long and on what to train
    "accelerator", "accumulate_grad_batches", "barebones", "benchmark", "check_val_every_n_epoch",
    "detect_anomaly", "deterministic", "devices", "enable_checkpointing", "enable_model_summary",
    "enable_progress_bar", "fast_dev_run", "gradient_clip_algorithm", "gradient_clip_val",
    "inference_mode", "limit_predict_batches", "limit_test_batches", "limit_train_batches",
    "limit_val_batches", "log_every_n_steps", "max_epochs", "max_steps", "max_time", "min_epochs",
    "min_steps", "num_nodes", "num_sanity_val_steps", "overfit_batches", "precision",
    "reload_dataloaders_every_n_epochs", "strategy", "sync_batchnorm", "use_distributed_sampler",
    "val_check_interval",
)  # fmt: skip
_LIGHTNING = (  # callbacks that write to no place they are told
    "DeviceStatsMonitor", "EarlyStopping", "EMAWeightAveraging", "GradientAccumulationScheduler",
    "LearningRateMonitor", "ModelCheckpoint", "ModelPruning", "ModelSummary", "RichModelSummary",
    "RichProgressBar", "StochasticWeightAveraging", "TQDMProgressBar", "Timer", "WeightAveraging",
)  # fmt: skip
_ELSEWHERE = (  # of the command, not of the run: a new command has its own
    "ckpt_path", "config", "datamodule", "dataloaders", "model", "output", "return_predictions",
    "runs_dir", "safe_csv", "threads", "verbose", "weights_only",
)  # fmt: skip
_FILES = ("file", "val_file", "test_file", "events", "data_dir")


def found_settings(config: Path, allow: Sequence[str] = ()) -> Settings:
    """Read what settings in a run folder say of model, data and training.

    Class paths outside the trusted packages are refused. What else the file asks for is left out,
    and a note says so.

    Args:
        config: config.yaml of the run.
        allow: packages whose classes the user trusts, with the arguments they are given there.
    """
    settings = read_settings(config, "the settings of the run")
    for path in class_paths(settings):
        check_import(path, allow)
    left: list[str] = []
    taken: Settings = {}
    for name, value in settings.items():
        if name in ("model", "data"):
            taken[name] = _class(config, name, value)
        elif name == "trainer":
            taken[name] = _trainer(config, value, left, allow)
        elif name in ("seed_everything", "baseline", "report") and isinstance(value, int | None):
            taken[name] = value
        elif name not in _ELSEWHERE and value is not None:
            left.append(str(name))
    if left:
        warnings.warn(
            f"{config} also asks for {', '.join(left[:5])}{', …' if len(left) > 5 else ''}, which "
            f"is not taken from a file that was found: --config {config} takes all of it",
            stacklevel=2,
        )
    return taken


def found_options(words: Sequence[str]) -> list[str]:
    """Return those options of a command line kept in a run folder that say what settings may say.

    A class that an option names is looked at where it is imported.
    """
    kept: list[str] = []
    left: list[str] = []
    taking = False
    for word in words:
        name = word.partition("=")[0]
        if word.startswith("-") and not re.fullmatch(r"-[\d.][\d.e-]*", word):
            role, _, rest = name.removeprefix("--").partition(".")
            taking = role in ("data", "model")
            taking |= name in ("--seed_everything", "--baseline", "--report")
            taking |= role == "trainer" and rest in _TRAINER
            if not taking and name.removeprefix("--") not in _ELSEWHERE:
                left.append(name)
        if taking:
            kept.append(word)
    if left:
        warnings.warn(
            f"the run's own command line has {', '.join(left[:5])}, which is not taken from a file "
            "that was found",
            stacklevel=2,
        )
    return kept


def _class(config: Path, name: str, value: Any) -> Settings:
    """Return the settings of a class."""
    fits = isinstance(value, dict) and isinstance(value.get("class_path"), str)
    if not fits or not isinstance(value.get("init_args") or {}, dict):
        raise UserError(
            f"{config} is damaged: {name} must have a class_path and init_args; give other "
            "settings by --config, or data by --data"
        )
    kept: Settings = value | {"init_args": dict(value.get("init_args") or {})}
    return kept


def _trainer(config: Path, value: Any, left: list[str], allow: Sequence[str]) -> Settings:
    """Return how to train; what is left out is added to a list."""
    if not isinstance(value, dict):
        raise UserError(f"{config} is damaged: trainer must be settings by name")
    taken: Settings = {}
    for name, given in value.items():
        plain = isinstance(given, int | float | None) or name in ("devices", "max_time")
        plain |= isinstance(given, str) and re.fullmatch(r"[\w-]+", given) is not None
        if name == "callbacks" and isinstance(given, list):
            taken[name] = [kept for one in given if (kept := _callback(one, left, allow))]
        elif (name in _TRAINER and plain) or (name == "logger" and _of_allowed(given, allow)):
            taken[name] = given
        elif given not in (None, True, []) and not _of_ray(given):
            left.append(f"trainer.{name}")
    return taken


def _callback(given: Any, left: list[str], allow: Sequence[str]) -> Settings | None:
    """Return a callback without the places it is to write to; None if it is not taken."""
    spec = {"class_path": given} if isinstance(given, str) else given
    path = spec.get("class_path") if isinstance(spec, dict) else None
    if isinstance(path, str):
        check_import(path if "." in path else f"callbacks.{path}", allow)
    if _of_allowed(spec, allow):
        return dict(spec)
    module, _, name = str(path).rpartition(".")
    ours = module.partition(".")[0] in ("", "callbacks")
    arguments = spec.get("init_args") or {} if isinstance(spec, dict) else None
    known = ours or (module.startswith("pytorch_lightning.callbacks") and name in _LIGHTNING)
    file = arguments.get("filename") if isinstance(arguments, dict) else None
    if not known or not isinstance(arguments, dict) or not _is_bare(file):
        left.append(f"the callback {name}")
        return None
    for place in ("dirpath", "output"):
        if arguments.get(place) is not None:
            left.append(f"{place} of {name}")
    kept = {key: value for key, value in arguments.items() if key not in ("dirpath", "output")}
    return {"class_path": path, "init_args": kept}


def _of_ray(given: Any) -> bool:
    """Say whether classes are those of `--on ray`: of a command, not of the run."""
    specs = given if isinstance(given, list) else [given]
    paths = [spec.get("class_path") if isinstance(spec, dict) else None for spec in specs]
    return all(isinstance(p, str) and p.startswith("ray.train.lightning.") for p in paths)


def _of_allowed(spec: Any, allow: Sequence[str]) -> bool:
    path = spec.get("class_path") if isinstance(spec, dict) else None
    return isinstance(path, str) and is_allowed(path, allow)


def _is_bare(file: Any) -> bool:
    """Say whether the name of a file leads nowhere else; None is the class's own."""
    return file is None or (
        isinstance(file, str) and re.fullmatch(r"[\w.{}=:-]+", file) is not None
    )


def class_paths(settings: Any) -> Iterator[str]:
    """Return all class paths that settings name."""
    children = settings.values() if isinstance(settings, dict) else settings
    if isinstance(settings, dict) and "." in str(settings.get("class_path", "")):
        yield str(settings["class_path"])
    for child in children if isinstance(settings, dict | list) else ():
        yield from class_paths(child)


def files_read(settings: Settings) -> list[str]:
    """Return the files and folders of data that settings name."""
    arguments = (settings.get("data") or {}).get("init_args") or {}
    return [str(arguments[name]) for name in _FILES if arguments.get(name) is not None]


def refuse_link(folder: Path) -> None:
    """Refuse to write to the checkpoints of a run where that is a link: it may lead anywhere."""
    if folder.name == "checkpoints" and folder.is_symlink():
        raise UserError(f"{folder} is a link: say where to write by --output FILE")


def refuse_links(folder: Path) -> None:
    """Refuse a run folder in which a link leads elsewhere: what is written would go there."""
    inside = folder.resolve()
    for file in folder.rglob("*"):
        if file.is_symlink() and not file.resolve().is_relative_to(inside):
            raise UserError(
                f"{file} is a link that leads out of the run folder {folder}, and is not written "
                "to: copy what it leads to in its place, or remove it"
            )


def refuse_packages(what: str, asked: Sequence[str], allow: Sequence[str]) -> None:
    """Refuse to go on with what imports classes of packages that are not allowed again.

    Args:
        what: it is, and where.
        asked: the packages that it was allowed when it began.
        allow: those that are allowed now.
    """
    for package in asked:
        if package not in allow:
            raise UserError(
                f"--resume: {what} imports classes of {package}: add --allow {package} if you "
                "trust that package"
            )
