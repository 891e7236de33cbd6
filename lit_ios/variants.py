"""The variants, as the files of configs/model declare them: there and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lit_ios.checks import UserError, did_you_mean
from lit_ios.settings import Settings, gather_options, read_settings


class Variant(NamedTuple):
    """What a file of configs/model says."""

    name: str  # of the file
    label: str  # as in the paper: the file's first comment up to a colon
    model: Settings  # class_path and init_args
    data: Settings  # arguments of the data module
    callbacks: tuple[str, ...]  # class names of those it adds
    callback_args: tuple[Settings, ...] = ()  # and their arguments

    @property
    def traits(self) -> tuple[Any, ...]:
        """What tells variants apart."""
        oversampling, folds = self.data.get("oversampling", "none"), self.data.get("folds")
        decays = "ConfidenceDecay" in self.callbacks
        return self.model["class_path"], oversampling, decays, folds is not None

    @property
    def memory(self) -> str:
        """What it remembers."""
        return str(self.model["init_args"].get("memory", "none"))


def configs_folder() -> Path:
    """Return the folder of settings files: of the clone, or inside the installed package."""
    here = Path(__file__).resolve().parent
    return next(f for f in (here / "configs", here.parent / "configs") if f.is_dir())


@cache
def variants() -> dict[str, Variant]:
    """Return all declared variants by name, in the order of the paper's table."""
    found = [_read(file) for file in sorted(configs_folder().glob("model/*.yaml"))]
    order = ("Classifier", "IQS", "ModelBasedIQS", "DOIQS")
    place = {name: number for number, name in enumerate(order)}
    found.sort(
        key=lambda v: ("folds" in v.data, place.get(v.model["class_path"], len(order)), len(v.name))
    )
    return {variant.name: variant for variant in found}


def find_variant(name: str) -> Variant:
    """Return a declared variant; refuse a name that is none."""
    known = variants()
    if name not in known:
        near = did_you_mean(name, ("auto", *known)) or f"; there are {', '.join(known)}"
        raise UserError(f"there is no variant {name!r}{near}")
    return known[name]


def _read(file: Path) -> Variant:
    comment = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("#")
    label = comment.partition(":")[0].strip()
    return variant_of(file.stem, label, read_settings(file))


def variant_of(name: str, label: str, settings: Settings) -> Variant:
    """Return what settings of a model and its data declare."""
    trainer = settings.get("trainer") or {}
    added = [*(trainer.get("callbacks+") or []), *(trainer.get("callbacks") or [])]
    return Variant(
        name=name,
        label=label,
        model={"init_args": {}} | settings["model"],
        data=(settings.get("data") or {}).get("init_args") or {},
        callbacks=tuple(callback["class_path"] for callback in added),
        callback_args=tuple(callback.get("init_args") or {} for callback in added),
    )


def settings_by_name(words: list[str], role: str) -> tuple[list[str], list[str]]:
    """Take `--data NAME` or `--model NAME` of settings out of a command line: (files, others).

    Settings are shipped ones, or a YAML file.
    """
    known = {file.stem: str(file) for file in configs_folder().glob(f"{role}/*.yaml")}
    given, others = gather_options(words, f"--{role}")
    files = []
    for name in given:
        if name in known or name.endswith((".yaml", ".yml")):
            if name not in known and not Path(name).exists():
                there = ", ".join(sorted(known))
                raise UserError(f"--{role}: there is no file {name}; there are {there}")
            files.append(known.get(name, name))
        else:
            others.append(f"--{role}={name}")  # of a class
    return files, others


def check_one_class(role: str, named: Sequence[str], files: Sequence[str]) -> None:
    """Refuse settings files that name another class than `--data NAME` or `--model NAME` does.

    Args:
        role: data or model.
        named: files that the name stands for.
        files: given by --config.
    """
    wanted = [_named_class(file, role) for file in named]
    for file in files if any(wanted) else ():
        found = _named_class(file, role)
        if found is not None and found not in wanted:
            raise UserError(
                f"--{role} names {wanted[-1]} and --config {file} names {found}: leave one of them "
                "out"
            )


def _named_class(file: str, role: str) -> str | None:
    """Return the class, without its package, that a settings file names; None if it names none."""
    spec = read_settings(file).get(role)
    path = spec.get("class_path") if isinstance(spec, dict) else None
    return path.rpartition(".")[2] if isinstance(path, str) else None


def variant_name(model: object, datamodule: Any, callbacks: Iterable[object]) -> str:
    """Name what is trained: the declared variant it is, or its class and what it is trained on."""
    decays = any(type(callback).__name__ == "ConfidenceDecay" for callback in callbacks)
    oversampling, folds = datamodule.oversampling, datamodule.folds is not None
    traits = (type(model).__name__, oversampling, decays, folds)
    given = getattr(model, "hparams", {}).get("memory") or "none"
    memory = given if isinstance(given, str) else str(given.get("class_path"))
    kept = [] if memory == "none" else [memory.rpartition(".")[2]]
    for variant in variants().values():
        if variant.traits == traits:
            return "_".join([variant.name, *([] if variant.memory == memory else kept)]).lower()
    words = [type(model).__name__, *kept]
    words += ["CS"] if decays else []
    words += (
        [] if oversampling == "none" else ["LB" if oversampling == "bootstrap" else oversampling]
    )
    words += ["folds"] if folds else []
    return "_".join(re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=DO)(?=IQS)", "_", w).lower() for w in words)
