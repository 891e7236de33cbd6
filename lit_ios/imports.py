"""Classes given by name: what may be imported because a file asks for it.

Settings and checkpoints name classes as plain values, `{"class_path": "package.Class",
"init_args": {…}}`. A file may come from a stranger, and importing a module runs its code: only
trusted packages and those the user allows by name are imported. A module that the running
program has imported itself needs no permission.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from lit_ios.checks import UserError

TRUSTED = (
    "lit_ios", "datamodules", "callbacks", "torch.nn", "torch.optim", "imblearn",
    "pytorch_lightning.callbacks", "pytorch_lightning.loggers", "pytorch_lightning.plugins",
    "pytorch_lightning.profilers", "pytorch_lightning.strategies", "lightning_fabric.plugins",
    "lightning_fabric.strategies", "ray.train.lightning",
)  # fmt: skip
Spec = dict[str, Any]
T = TypeVar("T")
_allowed: list[str] = []  # packages the user has allowed by name


def allow_packages(packages: Iterable[str]) -> None:
    """Allow classes of these packages to be imported because a file names them."""
    for package in packages:
        words = package.split(".")
        if not all(word.isidentifier() for word in words) or words[0] == "jsonargparse":
            raise UserError(f"--allow takes the name of a package of yours, got {package!r}")
        _allowed.append(package)


def as_spec(name: str, value: str | Spec) -> Spec:
    """Return a class path with its arguments in full; refuse what is neither text nor a mapping.

    Args:
        name: of the argument, for errors.
        value: `package.Class`, or a mapping of class_path and init_args.
    """
    spec = {"class_path": value} if isinstance(value, str) else value
    if not isinstance(spec, dict) or not isinstance(spec.get("class_path"), str):
        raise UserError(
            f"{name} must be a class path, or a mapping of class_path and init_args; got {value!r}"
        )
    unknown = set(spec) - {"class_path", "init_args"}
    if unknown:
        raise UserError(f"{name}: unknown {', '.join(sorted(unknown))} beside class_path")
    arguments = spec.get("init_args") or {}
    if not isinstance(arguments, dict):
        raise UserError(f"{name}: init_args must be arguments by name, got {arguments!r}")
    return {"class_path": spec["class_path"], "init_args": dict(arguments)}


def import_class(path: str, base: type[T], allow: Iterable[str] = ()) -> type[T]:
    """Import a class that a file or a user names.

    Args:
        path: package.module.Class.
        base: the class must be of this kind.
        allow: packages that may be imported beside the trusted ones.
    """
    check_import(path, allow)
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"the class {path} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{path} must be a subclass of {base.__module__}.{base.__qualname__}")
    return found


def check_import(path: str, allow: Iterable[str] = ()) -> None:
    """Refuse a class path that is neither trusted nor allowed nor imported already."""
    if not is_trusted(path, allow) and path.rpartition(".")[0] not in sys.modules:
        top = path.partition(".")[0]
        raise UserError(
            f"{path} is not imported because a file names it: allow it with "
            f"allow={[top]} if you trust that package"
        )


def is_trusted(path: str, allow: Iterable[str] = ()) -> bool:
    """Say whether a class path lies in a trusted or allowed package."""
    return is_allowed(path, (*TRUSTED, *allow))


def is_allowed(path: str, allow: Iterable[str] = ()) -> bool:
    """Say whether a class path lies in a package that the user has allowed by name."""
    return any(path.startswith(f"{package}.") for package in (*_allowed, *allow))


def class_path(cls: type) -> str:
    """Return the name under which a class is found again."""
    return f"{cls.__module__}.{cls.__qualname__}"


def build(name: str, spec: Spec, base: type[T], allow: Iterable[str] = (), **given: Any) -> T:
    """Make an object of a class path and its arguments.

    Args:
        name: what it is for, in errors.
        spec: class_path and init_args.
        base: the class must be of this kind.
        allow: packages that may be imported beside the trusted ones.
        **given: arguments that do not come from the user.
    """
    cls = import_class(spec["class_path"], base, allow)
    try:
        return cls(**given, **spec["init_args"])
    except UserError:
        raise
    except (TypeError, ValueError) as error:
        raise UserError(f"{name}: {spec['class_path']} cannot be made: {error}") from error
