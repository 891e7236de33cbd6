"""Compiled steps that are kept for later runs, in a folder of the user's own.

A compiled step is code that runs in this process. So it is only taken from a folder that nobody
else can write to, it carries a checksum, and its name is a fingerprint of everything that went into
it. Of several processes that want the same step at once, one builds it and the others wait.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from lit_ios.checks import UserError
from lit_ios.files import lock_of, write_bytes
from lit_ios.seals import read_sealed, seal_archive

KEPT = 200  # compiled steps, of some 2 MB each; those not used for longest are removed


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
    """Return the compiled step of this key, if there is one and it is whole.

    Args:
        folder: from `cache_folder`.
        key: fingerprint of all that went into the step.
    """
    file = folder / f"{key}.pt2"
    if not file.is_file():
        return None
    _check_private(file)
    try:
        read_sealed(file, "a compiled step", "it is built again")
    except UserError:
        return None
    with contextlib.suppress(OSError):
        os.utime(file)
    return file


def find_or_build(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the compiled step of this key, built by one process if there is none.

    Args:
        folder: from `cache_folder`.
        key: fingerprint of all that went into the step.
        build: writes the step to the file it is given, whose folder is its own.
    """
    lock = folder / f"{key}.lock"
    lock.touch(mode=0o600)
    with lock_of(lock, wait=True):
        found = find(folder, key)
        if found is not None:
            return found
        own = folder / f"{key}.build"
        shutil.rmtree(own, ignore_errors=True)  # a process that built here was killed
        own.mkdir(mode=0o700)
        try:
            build(own / "step.pt2")
            write_bytes(folder / f"{key}.pt2", seal_archive((own / "step.pt2").read_bytes()))
        finally:
            shutil.rmtree(own, ignore_errors=True)
    _remove_oldest(folder)
    return folder / f"{key}.pt2"


def _remove_oldest(folder: Path) -> None:
    """Keep the steps that were used last."""
    with contextlib.suppress(OSError):  # another process may be removing them, too
        files = sorted(folder.glob("*.pt2"), key=lambda file: file.stat().st_mtime)
        for file in files[:-KEPT]:
            file.unlink()
            file.with_suffix(".lock").unlink(missing_ok=True)
