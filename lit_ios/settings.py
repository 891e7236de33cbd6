"""Settings files laid over one another, before the command line's options.

A later file wins key by key. `callbacks+` appends to a list. Where a later file names another
class, the arguments of the class before are dropped, but for those every data set has: a data
file then keeps the oversampling that a model file asked for, and nothing else leaks from the
defaults of one class into another.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from lit_ios.checks import UserError
from lit_ios.yaml_text import MOST_CHARACTERS, UnreasonableError, load_yaml

Settings = dict[str, Any]

OF_EVERY_DATA_SET = (
    "oversampling", "ratio", "neighbors", "smote_kind", "smote_windows",
    "synthetic_confidence", "batch_size", "batch_by",
    "batches_per_call", "lags", "include_time", "validation_share", "lead", "stop_lead", "folds",
    "encoder",
)  # fmt: skip


def read_settings(file: str | Path, name: str = "--config") -> Settings:
    """Read one YAML file of settings.

    Args:
        file: to read.
        name: what it was given as, for errors.
    """
    try:
        settings = load_yaml(_text(Path(file)))
    except OSError as error:
        raise UserError(f"{name}: cannot read {file}: {error.strerror}") from None
    except UnreasonableError as error:
        raise UserError(f"{name}: {file} is not read, it has {error}: correct it") from None
    except (yaml.YAMLError, ValueError) as error:  # whose text quotes the file
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise UserError(f"{name}: {file} is not valid YAML{where}: correct it") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise UserError(
            f"{name}: {file} does not hold settings by name, such as `trainer: {{max_epochs: "
            "9}}`; a table is given by --data"
        )
    return settings


def _text(file: Path) -> str:
    """Return the text of a file, or so much of it that it is seen to be too long."""
    with file.open(encoding="utf-8") as stream:
        return stream.read(MOST_CHARACTERS + 1)


def merge_settings(layers: Iterable[Settings]) -> Settings:
    """Lay settings over one another, the last on top."""
    merged: Settings = {}
    for layer in layers:
        merged = _overlay(merged, layer)
    return merged


def _overlay(below: Settings, above: Settings, key: str = "") -> Settings:
    if _is_class(below) != _is_class(above) and below:  # a class laid over other settings
        return dict(above)
    result = dict(below)
    old, new = _class_path(below, key), _class_path(above, key)
    if old is not None and new is not None and old != new:
        kept = OF_EVERY_DATA_SET if key == "data" else ()
        args = below.get("init_args")
        args = args if isinstance(args, dict) else {}
        result["init_args"] = {name: args[name] for name in kept if name in args}
    for name, value in above.items():
        if isinstance(name, str) and name.endswith("+"):
            name = name.removesuffix("+")
            there = result.get(name) or []
            if not isinstance(there, list) or not isinstance(value, list):
                raise UserError(f"{name}+ in a settings file appends to a list: give a list")
            result[name] = there + [item for item in value if item not in there]
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = _overlay(result[name], value, name)
        else:
            result[name] = value
    return result


def _is_class(settings: Settings) -> bool:
    """Say whether settings are those of a class: its path, its arguments or both."""
    return bool(settings) and set(settings) <= {"class_path", "init_args", "dict_kwargs"}


def _class_path(settings: Settings, key: str) -> str | None:
    """Return the name of a class without its package; None if settings name none."""
    path = settings.get("class_path")
    if path is not None and not isinstance(path, str):
        raise UserError(f"class_path of {key or 'the settings'} must be text, got {path!r:.50}")
    return None if path is None else path.rpartition(".")[2]


def gather_options(args: list[str], *names: str) -> tuple[list[str], list[str]]:
    """Take options of these names, with a value each, out of a command line: (values, others)."""
    values, others = [], []
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in names:
            others.append(word)
        elif equals:
            values.append(value)
        else:
            values.append(next(words, ""))
    return values, others


def file_of(option: str) -> str | None:
    """Return the file or folder of data that an option names; None if it names none."""
    name, _, value = option.partition("=")
    named = name.startswith("--data.init_args.") and name.endswith(("file", "events"))
    return value if named and value else None


def with_absolute_file(option: str) -> str:
    """Return an option so that it names the same file from any folder."""
    file = file_of(option)
    return option if file is None else f"{option.partition('=')[0]}={Path(file).absolute()}"
