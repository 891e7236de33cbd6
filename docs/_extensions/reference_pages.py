"""Reference from the code itself: settings, classes and functions, commands.

```{settings} lit_ios.modules.DOIQS
:beyond: lit_ios.modules.IQS
```
```{members} lit_ios.functional
```
```{class} lit_ios.StoppingPolicy
```
```{commands}
```
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

import jsonargparse
from docstring_parser import parse
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lit_ios.program.usage import TRAINING, USES

ROOT = Path(__file__).resolve().parents[2]


class Generated(SphinxDirective):
    """A directive whose content is Markdown made from the code."""

    required_arguments = 1

    def markdown(self) -> Iterator[str]:
        """Yield lines."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return what the lines say."""
        return self.parse_text_to_nodes("\n".join(self.markdown()), allow_section_headings=True)


def find(path: str) -> Any:
    """Return a module, class or function by its full name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


# Settings ----------------------------------------------------------------------------------------


def arguments(cls: type) -> dict[str, Any]:
    """Return the arguments of a class with those of its bases, as the program knows them."""
    parser = jsonargparse.ArgumentParser()
    parser.add_class_arguments(cls)
    return {a.dest: a for a in parser._actions if not a.dest.endswith("help")}


def write_type(kind: Any) -> str:
    """Write a type as somebody who fills in YAML needs it."""
    if kind is type(None):
        return "null"
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(str(part) for part in parts)
    if origin is Union or type(kind).__name__ == "UnionType":
        return " or ".join(dict.fromkeys(map(write_type, parts)))
    if origin in (list, dict, tuple) or kind in (list, dict):
        return "list" if (origin or kind) in (list, tuple) else "mapping"
    names = {bool: "true, false", int: "integer", float: "number", str: "text"}
    return names.get(kind, "")


def cell(text: str) -> str:
    """Write text into a cell of a table."""
    return plain(" ".join(text.split())).replace("|", r"\|")


def plain(text: str) -> str:
    """Keep what docstrings mean as it is from being taken for Markdown, but for `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if at % 2 else re.sub(r"([\\*_<>\[\]$])", r"\\\1", part)
        for at, part in enumerate(parts)
    )


class Settings(Generated):
    """A table of the arguments of a class: name, values, default, meaning."""

    option_spec: ClassVar = {"beyond": str}

    def markdown(self) -> Iterator[str]:
        """Yield the table."""
        known = arguments(find(self.arguments[0]))
        for base in self.options.get("beyond", "").split():
            known = {k: v for k, v in known.items() if k not in arguments(find(base))}
        if not known:
            yield "None of its own."
            return
        yield "| setting | values | default | meaning |"
        yield "|---|---|---|---|"
        for name, argument in known.items():
            if not argument.help:
                raise self.error(f"{self.arguments[0]}: nothing is said of {name}")
            required = argument.default is None and "null" not in write_type(argument._typehint)
            default = "required" if required else f"`{write_default(argument.default)}`"
            values = cell(write_type(argument._typehint))
            yield f"| `{name}` | {values} | {default} | {cell(argument.help)} |"


def write_default(value: Any) -> str:
    """Write a default as YAML has it."""
    words = {None: "null", True: "true", False: "false"}
    return words.get(value, str(value)) if isinstance(value, bool | None) else str(value)


# Classes and functions ---------------------------------------------------------------------------


def described(thing: Any) -> Iterator[str]:
    """Yield the text and the arguments of a docstring."""
    text = inspect.getdoc(thing) or ""
    yield from prose(re.split(r"^(?:Args|Returns|Raises|Yields|Attributes):$", text, flags=re.M)[0])
    for one in parse(text).params:
        yield f"- `{one.arg_name}`: {plain(' '.join((one.description or '').split()))}"
    yield ""


def prose(text: str) -> Iterator[str]:
    """Yield paragraphs; indented ones are code."""
    for paragraph in re.split(r"\n\s*\n", text.rstrip()):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            yield from ("```text", inspect.cleandoc(paragraph), "```", "")
        else:
            yield from (plain(paragraph), "")


def signature(name: str, thing: Any) -> str:
    """Write how something is called, without types: those stand in the source."""
    try:
        known = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    shown = [
        one.replace(
            annotation=inspect.Parameter.empty,
            default=... if repr(one.default).startswith("<") and has_default(one) else one.default,
        )
        for one in known.parameters.values()
        if one.name not in ("self", "cls")
    ]
    text = str(known.replace(parameters=shown, return_annotation=inspect.Signature.empty))
    return "\n".join(
        textwrap.wrap(name + text.replace("Ellipsis", "..."), 80, subsequent_indent="    ")
    )


def has_default(parameter: inspect.Parameter) -> bool:
    """Say whether an argument may be left out."""
    return parameter.default is not inspect.Parameter.empty


def entry(name: str, thing: Any, level: int, shown: str = "") -> Iterator[str]:
    """Yield a heading, how it is called and what its docstring says."""
    yield f"{'#' * level} {shown or name}"
    yield ""
    if inspect.isclass(thing) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
        yield f"A record of {', '.join(f'`{field}`' for field in thing._fields)}."
        yield ""
    elif callable(thing) and get_origin(thing) is None:
        yield from ("```python", signature(name, thing), "```", "")
    if get_origin(thing) is Literal:
        yield f"One of {', '.join(f'`{value}`' for value in get_args(thing))}."
    elif inspect.isclass(thing) or inspect.isroutine(thing):
        yield from described(thing)
    else:
        yield f"`{thing!r}`"
    yield ""


def public(module: Any) -> list[str]:
    """Return the names a module offers: `__all__`, or what is defined in it."""
    defined = [
        name for name, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module.__name__
    ]  # fmt: skip
    return list(getattr(module, "__all__", defined))


class Members(Generated):
    """All public names of a module."""

    def markdown(self) -> Iterator[str]:
        """Yield an entry for each."""
        module = find(self.arguments[0])
        names = [name for name in public(module) if not name.startswith("_")]
        for name in sorted(names, key=str.lower):
            yield from entry(name, getattr(module, name), 3)


class Class(Generated):
    """A class and its public methods and properties, inherited ones of this project included."""

    def markdown(self) -> Iterator[str]:
        """Yield an entry for the class and one for each of its own names."""
        cls = find(self.arguments[0])
        yield from entry(cls.__name__, cls, 3)
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if base.__module__.startswith(("lit_ios", "datamodules")):
                found |= {k: v for k, v in vars(base).items() if not k.startswith("_")}
        for name, thing in sorted(found.items()):
            one = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
            if isinstance(one, property) or inspect.isfunction(one):
                call = name if isinstance(one, property) else signature(name, one)
                yield from (
                    f"#### {cls.__name__}.{name}",
                    "",
                    "```python",
                    call,
                    "```",
                    "",
                    *described(one),
                )


# Commands ----------------------------------------------------------------------------------------


class Commands(Generated):
    """What `lit-ios COMMAND --help` says, of every command."""

    required_arguments = 0

    def markdown(self) -> Iterator[str]:
        """Yield the help of each command."""
        for command in (*TRAINING, *USES):
            words = [sys.executable, "-m", "lit_ios", command, "--help"]
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            yield from (f"## {command}", "", "```text", said.strip(), "```", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    directives: dict[str, Callable[..., Any]] = {
        "settings": Settings, "members": Members, "class": Class, "commands": Commands,
    }  # fmt: skip
    for name, directive in directives.items():
        app.add_directive(name, directive, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
