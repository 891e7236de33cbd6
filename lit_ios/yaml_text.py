"""YAML from anywhere: plain values alone, and no more of them than settings can need.

A few lines of YAML can stand for more values than any memory holds (aliases of aliases), and deep
nesting ends the process. So the text is looked through before anything is made of it.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
MOST_VALUES = 50_000  # an alias counts as all that it stands for
DEEPEST = 50
LONGEST_NUMBER = 400  # characters; longer digits are no number that anybody means
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreasonableError(yaml.YAMLError):
    """YAML that stands for more than settings can need; the message says of what there is more."""


def load_yaml(text: str) -> Any:
    """Return the plain values that YAML stands for; its tags are not obeyed."""
    check_yaml(text)
    try:
        return yaml.load(text, Loader=_LOADER)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # such as 2026-02-30
        raise UnreasonableError(f"a value that cannot be read ({type(error).__name__})") from None


def check_yaml(text: str) -> None:
    """Refuse YAML that is too long, too deep, or stands for too many values."""
    if len(text) > MOST_CHARACTERS:
        raise UnreasonableError(f"more than {MOST_CHARACTERS:,} characters")
    values = 0
    opened: list[tuple[str | None, int]] = []  # anchor, and where the count stood
    anchored: dict[str | None, int] = {}
    for event in yaml.parse(text, Loader=_LOADER):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in anchored:
                raise UnreasonableError("an alias of what is not there, or contains it")
            values += anchored[anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((anchor, values))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            began, before = opened.pop()
            anchored[began] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            anchored[anchor] = 1
            if len(event.value) > LONGEST_NUMBER and _is_number(event):
                raise UnreasonableError(f"a number of more than {LONGEST_NUMBER} characters")
        if values > MOST_VALUES or len(opened) > DEEPEST:
            much = f"{MOST_VALUES:,} values" if values > MOST_VALUES else f"{DEEPEST} levels"
            raise UnreasonableError(f"more than {much}")


def _is_number(event: yaml.ScalarEvent) -> bool:
    """Say whether a scalar might be taken for a number."""
    quoted = event.style in ("'", '"', "|", ">") and event.tag is None
    return not quoted and event.value.lstrip("+-")[:1] in set("0123456789.")
