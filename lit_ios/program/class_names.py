"""Which classes settings may name: those of trusted and allowed packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import yaml
from jsonargparse import get_loader, set_loader, set_parsing_settings
from pytorch_lightning import LightningDataModule
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger

from lit_ios.checks import UserError, nearest
from lit_ios.imports import TRUSTED, allow_packages
from lit_ios.modules import StoppingModule
from lit_ios.settings import Settings, gather_options
from lit_ios.variants import configs_folder
from lit_ios.yaml_text import check_yaml

_BASES: tuple[type, ...] = (StoppingModule, LightningDataModule, Callback, Logger)


def allow_imports(packages: list[str]) -> None:
    """Let settings name classes of trusted and allowed packages, and of those imported already."""
    allow_packages(packages)
    imported = [cls.__module__ for base in _BASES for cls in _subclasses(base)]
    set_parsing_settings(
        import_path_denylist=["*"], import_path_allowlist=[*TRUSTED, *packages, *imported]
    )
    if get_loader("yaml") is not read_yaml:
        set_loader("yaml", read_yaml, exceptions=(yaml.YAMLError,))


_yaml_as_jsonargparse_reads_it = get_loader("yaml")


def read_yaml(text: str) -> Any:
    """Read YAML for jsonargparse, unless it stands for more than settings can need."""
    check_yaml(text)
    return _yaml_as_jsonargparse_reads_it(text)


def check_class(role: str, settings: Settings, words: list[str], base: type) -> None:
    """Refuse a class name that is not one of ours, listing those there are."""
    named = settings.get(role) or {}
    if not isinstance(named, dict):
        raise UserError(
            f"{role} in a settings file must have a class_path and init_args, got {named!r:.50}"
        )
    given, _ = gather_options(words, f"--{role}")
    known = {cls.__name__ for cls in _subclasses(base)}
    for name in (str(named.get("class_path", "")), *given):
        if "." in name or name in known:
            continue
        shipped = [file.stem for file in configs_folder().glob(f"{role}/*.yaml")]
        near = nearest(name, [*shipped, *known]) if given else None
        there = [*(["auto"] if role == "model" else []), *shipped] if given else known
        advice = f"did you mean {near}?" if near else f"there are {', '.join(sorted(there))}"
        what = f"--{role}: there is no" if given else f"{role}: no class"
        raise UserError(f"{what} {name!r}; {advice}")


def named_classes(words: list[str]) -> Iterator[str]:
    """Return the class paths that options name: --model a.B, --trainer.callbacks+=a.B."""
    takes_class = re.compile(
        r"--(.+\.)?(class_path|model|data|callbacks|logger|head|memory|optimizer|oversampling"
        r"|encoder|plugins|profiler|strategy)\+?"
    )
    split = [part for word in words for part in word.split("=", 1)]
    for name, value in pairwise(split):
        if takes_class.fullmatch(name) and re.fullmatch(r"\w+(\.\w+)+", value):
            yield value


def known_classes() -> dict[str, type]:
    """Return the classes that settings may name by their bare names."""
    return {cls.__name__: cls for base in _BASES for cls in _subclasses(base)}


def _subclasses(base: type) -> list[type]:
    """Return a class and all its subclasses."""
    children: list[type] = base.__subclasses__()
    return [base, *(cls for child in children for cls in _subclasses(child))]
