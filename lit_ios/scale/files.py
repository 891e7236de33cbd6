"""A file of a folder, worked on by another process: the policy it needs, and what is noted."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy

T = TypeVar("T")
_NOTES = 3  # of one text, with the files they are about


def digest_of(checkpoint: Path) -> str:
    """Return the SHA-256 of a checkpoint, so that other machines can tell whether theirs is it."""
    try:
        return hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    except OSError:
        raise UserError(f"there is no checkpoint {checkpoint} on this machine") from None


@cache
def policy_once(checkpoint: str, allow: tuple[str, ...], digest: str) -> StoppingPolicy:
    """Load a policy once in each process; refuse another than was asked for."""
    if digest_of(Path(checkpoint)) != digest:
        raise UserError(f"{checkpoint} changed, or is another file on this machine: begin again")
    return StoppingPolicy.load(checkpoint, list(allow))


def with_notes(work: Callable[[], T]) -> tuple[T, tuple[str, ...]]:
    """Return what work gives, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    return result, tuple(dict.fromkeys(str(note.message) for note in caught))


def pass_on_notes(notes: Mapping[str, Sequence[str]]) -> None:
    """Say what was noted on files, each text once.

    Args:
        notes: by file.
    """
    about: dict[str, list[str]] = {}
    for source, texts in notes.items():
        for text in texts:
            about.setdefault(text, []).append(Path(source).name)
    for text, files in list(about.items())[: 4 * _NOTES]:
        more = f" and {len(files) - _NOTES} more" if len(files) > _NOTES else ""
        warnings.warn(f"{', '.join(files[:_NOTES])}{more}: {text}", stacklevel=3)
    if len(about) > 4 * _NOTES:
        warnings.warn(f"and {len(about) - 4 * _NOTES} more notes like these", stacklevel=3)
