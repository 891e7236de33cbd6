"""Which settings of a run are worth telling: those that somebody, or a variant, has chosen."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from lit_ios.checks import UserError
from lit_ios.imports import import_class
from lit_ios.settings import Settings

LONGEST = 300  # characters of a value
OF_TRAINER = ("max_epochs", "max_time", "accelerator", "devices", "precision", "strategy")
USUAL = {"accelerator": "cpu", "devices": 1, "strategy": "auto"}


def told_settings(settings: Settings) -> list[tuple[str, str]]:
    """Return the settings of a run that differ from the defaults of its classes, by their names.

    Args:
        settings: of its config.yaml, which holds them all.
    """
    found = []
    for role in ("model", "data"):
        spec = settings.get(role)
        if isinstance(spec, dict) and isinstance(spec.get("class_path"), str):
            path, given = spec["class_path"], spec.get("init_args")
            found.append((role, path.rpartition(".")[2]))
            usual = _defaults(path)
            found += [
                (f"{role}.{name}", _short(value))
                for name, value in (given if isinstance(given, dict) else {}).items()
                if value is not None and usual.get(name, inspect.Parameter.empty) != value
            ]
    trainer = settings.get("trainer")
    if isinstance(trainer, dict):
        told = {name: trainer.get(name) for name in OF_TRAINER}
        found += [
            (f"trainer.{name}", _short(value))
            for name, value in told.items()
            if value is not None and USUAL.get(name) != value
        ]
        found.append(("callbacks", ", ".join(_names(trainer.get("callbacks")))))
    seed = settings.get("seed_everything")
    return [("seed", str(seed)), *found] if seed is not None else found


def _defaults(path: str) -> Mapping[str, Any]:
    """Return the defaults of a class's arguments, those of its bases included."""
    try:
        made = import_class(path, object)
    except UserError:  # of a package that is not trusted: everything is told
        return {}
    found: dict[str, Any] = {}
    for base in made.__mro__:
        try:
            arguments = inspect.signature(base.__init__).parameters  # type: ignore[misc]
        except ValueError:  # a class that is not written in Python
            continue
        for name, parameter in arguments.items():
            found.setdefault(name, parameter.default)
    return found


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _names(callbacks: Any) -> Iterator[str]:
    for one in callbacks if isinstance(callbacks, list) else []:
        if isinstance(one, dict) and isinstance(one.get("class_path"), str):
            yield one["class_path"].rpartition(".")[2]
