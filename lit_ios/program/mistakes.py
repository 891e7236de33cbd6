"""Mistakes of a command line, each answered in one line that ends in what to do.

What jsonargparse says of a mistake takes dozens of lines and quotes whatever it was given, also
the content of files. Only names are taken from it; values are quoted from the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from itertools import pairwise

from lit_ios.checks import UserError, nearest
from lit_ios.program.short import SHORT

LONG = 60  # characters of a value that are quoted


def no_option(option: str, known: Iterable[str], otherwise: str) -> UserError:
    """Return the error for an option that does not exist.

    Args:
        option: as it was typed, without its value.
        known: options there are.
        otherwise: what to do if none of them is like it.
    """
    near = nearest(option, known)
    return UserError(
        f"there is no option {option}; " + (f"did you mean {near}?" if near else otherwise)
    )


def explain(
    message: str, words: list[str], options: Iterable[str], classes: dict[str, type]
) -> UserError:
    """Return one sentence for what jsonargparse said of a command line.

    Args:
        message: what it said.
        words: of the command line.
        options: of the command.
        classes: that arguments can be of, by name.
    """
    given = _given(words)
    role = next(iter(re.findall(r'Parser key "([\w.]+)"', message)), "")
    of_class = re.findall(r"given class_path '([\w.]+)'", message)
    if not_accepted := re.search(r"Option '([\w.]+)' is not accepted", message):
        return _no_argument(role, not_accepted[1], of_class[-1:], classes)
    if unknown := re.search(r"does not accept option '([\w.]+)'", message):
        near = nearest(unknown[1], [option.removeprefix("--") for option in options])
        advice = f"did you mean {near}?" if near else "fit --help-all lists what there is"
        return UserError(f"there is no setting {unknown[1]}; {advice}")
    if unknown := re.search(r"unrecognized arguments: (\S+)", message):
        word = unknown[1].partition("=")[0]
        if of_class:
            word = f"--{role}.{word.removeprefix('--')}"
            options = [f"--{role}.init_args.{name}" for name in _arguments(of_class, classes)]
        if not word.startswith("-"):
            return UserError(f"{_quote(word)} belongs to no option: leave it out, or name one")
        return no_option(word, options, "fit --help-all lists them")
    if missing := re.search(r"argument (\S+): expected one argument", message):
        return UserError(f"{missing[1]} needs a value: {missing[1]} VALUE")
    if required := re.search(r"Option '?\"?([\w.]+)'?\"? is required|Key \"([\w.]+)\" is required",
                             message):  # fmt: skip
        key = (required[1] or required[2]).rpartition(".")[2]
        return UserError(f"{key} is not given: add {_shown(role or 'data', key)} VALUE")
    if absent := re.search(r"No module named '([\w.]+)'", message):
        return UserError(
            f"there is no module {absent[1]}: it is looked for beside lit-ios and in this folder"
        )
    return _wrong_value(message, role, given)


def _no_argument(role: str, name: str, of_class: list[str], classes: dict[str, type]) -> UserError:
    bare = of_class[0].rpartition(".")[2] if of_class else role
    near = nearest(name, _arguments(of_class, classes))
    asked = role if role in ("model", "data") else None
    listed = f"fit --{asked}.help {bare} lists them" if asked else "leave it out"
    advice = f"did you mean {_shown(role, near)}?" if near else listed
    return UserError(f"{bare} has no argument {name}; {advice}")


def _wrong_value(message: str, role: str, given: dict[str, str]) -> UserError:
    """Return the error for a value of the wrong kind."""
    keys: list[str] = re.findall(r'Parser key "([\w.]+)"', message)
    if not keys:
        return UserError("the command line cannot be understood: lit-ios fit --help has examples")
    key = f"--{role}" if keys[-1] == role else _shown(role, keys[-1])
    kinds = dict.fromkeys(_kind(found) for found in re.findall(_EXPECTED, message))
    wanted = [kind for kind in kinds if kind]
    value = given.get(key, given.get(f"--{role}.init_args.{keys[-1]}"))
    got = "" if value is None else f", got {_quote(value)}"
    if not wanted:
        return UserError(f"{key} cannot be used{got}: fit --help-all says what it takes")
    return UserError(f"{key} must be {' or '.join(wanted)}{got}")


_EXPECTED = r"Expected an? (<class '[\w.]+'>|typing\.Literal\[[^\]]*\]|list\[[^\s]*\])"
_KINDS = {
    "int": "an integer", "float": "a number", "str": "text", "bool": "true or false",
    "list": "a list, [a, b]", "dict": "settings by name",
}  # fmt: skip


def _kind(found: str) -> str | None:
    if found.startswith("typing.Literal"):
        return "one of " + ", ".join(re.findall(r"'([^']*)'", found))
    name = found.removeprefix("<class '").removesuffix("'>")
    return None if name == "NoneType" else _KINDS.get(name.partition("[")[0], name)


def _shown(role: str, key: str) -> str:
    """Return the option for an argument: the short one if there is."""
    shorts = {short.argument: short.option for short in SHORT}
    if role == "data" and key in shorts:
        return shorts[key]
    return f"--{role}.init_args.{key}" if role in ("data", "model") else f"{role}: {key}"


def _arguments(of_class: list[str], classes: dict[str, type]) -> list[str]:
    """Return the arguments of a class that is named."""
    cls = classes.get(of_class[-1].rpartition(".")[2]) if of_class else None
    return [] if cls is None else list(arguments_of(cls))


def arguments_of(cls: type) -> dict[str, str]:
    """Return the arguments of a class, with those it hands on to its bases, and their kinds."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        make = vars(base).get("__init__") if base is not object else None
        for name, argument in inspect.signature(make).parameters.items() if make else ():
            if name not in ("self", "args", "kwargs"):
                found.setdefault(name, str(argument.annotation))
    return found


def _given(words: list[str]) -> dict[str, str]:
    """Return the value that follows each option."""
    found = {}
    for word, after in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            short = name.removeprefix("--data.init_args.").replace("_", "-")
            found[name] = value if equals else after
            found[f"--{short}"] = found[name]
    return found


def _quote(value: str) -> str:
    """Return a value of the command line as it is quoted: short, in one line."""
    one_line = " ".join(value.split())
    return repr(one_line if len(one_line) <= LONG else one_line[: LONG - 1] + "…")
