"""Compiled steps that are kept for later runs, in a folder of the user's own.

A compiled step is code that runs in this process. So it is only taken from a folder that nobody
else can write to, its files are checked against their checksums, and the name of their folder is a
fingerprint of everything that went into them. Of several processes that want the same step at once,
one builds it and the others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from lit_ios.files import lock_of, write_text

KEPT = 200  # compiled steps, of some 2 MB each; those not used for longest are removed
SUMS = "sums.json"  # checksums of the other files


class UnsafeCacheError(Exception):
    """A folder from which nothing may be executed; the message says why."""


def cache_folder() -> Path:
    """Return the folder of compiled steps, made if need be; refuse one that others can write to.

    It is LIT_IOS_CACHE, or lit_ios in the user's folder of caches.
    """
    own = os.environ.get("LIT_IOS_CACHE")
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(own or os.path.join(usual, "lit_ios")).absolute() / "steps"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UnsafeCacheError(f"{folder} could not be made: {error.strerror}") from None
    for place in (folder.resolve(), *folder.resolve().parents):
        _check_private(place)
    return folder.resolve()


def _check_private(place: Path) -> None:
    """Refuse a folder or file that somebody else could change or replace."""
    if not hasattr(os, "getuid"):
        raise UnsafeCacheError("this system does not say who may write to a folder")
    known = place.stat()
    if known.st_uid not in (os.getuid(), 0):
        raise UnsafeCacheError(f"{place} belongs to another user")
    shared = known.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and not (place.is_dir() and known.st_mode & stat.S_ISVTX):
        raise UnsafeCacheError(f"other users can write to {place}")


def find(folder: Path, key: str) -> Path | None:
    """Return the folder of this key's compiled step, if there is one and it is whole.

    Args:
        folder: from `cache_folder`.
        key: fingerprint of all that went into the step.
    """
    own = folder / key
    if not own.is_dir():
        return None
    for place in (own, *own.iterdir()):
        _check_private(place)
    try:
        known = json.loads((own / SUMS).read_text())
    except (OSError, ValueError):
        return None
    if known != _sums(own):
        return None
    with contextlib.suppress(OSError):
        os.utime(own)
    return own


def _sums(own: Path) -> dict[str, str]:
    """Return a checksum of each file of a compiled step."""
    files = sorted(file for file in own.iterdir() if file.name != SUMS)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def find_or_build(folder: Path, key: str, build: Callable[[Path, Path], None]) -> Path:
    """Return the folder of this key's compiled step, built by one process if there is none.

    Args:
        folder: from `cache_folder`.
        key: fingerprint of all that went into the step.
        build: writes the step's files into the first folder; what it needs meanwhile may lie in the
            second.
    """
    lock = folder / f"{key}.lock"
    lock.touch(mode=0o600)
    with lock_of(lock, wait=True):
        found = find(folder, key)
        if found is not None:
            return found
        work = folder / f"{key}.build"
        shutil.rmtree(work, ignore_errors=True)  # a process that built here was killed
        made, other = work / "step", work / "other"
        for place in (work, made, other):
            place.mkdir(mode=0o700)
        try:
            build(made, other)
            write_text(made / SUMS, json.dumps(_sums(made)))
            shutil.rmtree(folder / key, ignore_errors=True)  # it was damaged
            made.rename(folder / key)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    _remove_oldest(folder)
    return folder / key


def _remove_oldest(folder: Path) -> None:
    """Keep the steps that were used last."""
    with contextlib.suppress(OSError):  # another process may be removing them, too
        kept = [place for place in folder.iterdir() if place.is_dir() and not place.suffix]
        for place in sorted(kept, key=lambda one: one.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(place, ignore_errors=True)
            (folder / f"{place.name}.lock").unlink(missing_ok=True)
