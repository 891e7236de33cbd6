"""Files that are written whole or not at all, and folders that belong to one run.

A file is written beside its target under a name of its own, brought to the disk (fsync), and only
then takes the target's place: whoever is killed, or runs out of disk, leaves the file that was
there before. What a killed process leaves behind is removed when its target is next written, and
by `remove_leftovers` when a run begins in that folder. Whoever writes holds a lock on the half of a
file, which ends with the process: numbers of processes come again, locks do not.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import math
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lit_ios.checks import UserError

try:
    import fcntl
except ImportError:  # a system without such locks: half-written files are known by their age
    fcntl = None  # type: ignore[assignment]

ABANDONED = 24 * 3600.0  # seconds after which a half-written file is left over if locks do not say
_HOST = re.sub(r"[^\w-]", "-", socket.gethostname()) or "host"
_OURS = re.compile(r"\..*\.(?P<host>[\w-]+)\.\d+\.\d+\.tmp")
_REASONS = {
    errno.ENOSPC: "the disk is full; make room or choose another folder",
    errno.EDQUOT: "your share of the disk is used up; make room or choose another folder",
    errno.EFBIG: "it would be larger than the limit for files (ulimit -f); raise it",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EACCES: "that is not permitted; choose another folder",
    errno.EPERM: "that is not permitted; choose another folder",
    errno.ENOENT: "it is not there (any more)",
    errno.ENOTDIR: "its folder is a file; choose another",
    errno.ENXIO: "it is a pipe that nobody reads",
    errno.EISDIR: "there is a folder of that name; choose another name",
}
_numbers = itertools.count()


class WriteError(UserError):
    """A file that could not be written; what was there before is unchanged."""


def explain_os_error(error: OSError) -> str:
    """Return in words why a file cannot be written, and what to do."""
    if error.errno == errno.ENOENT and error.filename is not None:
        folder = Path(os.fsdecode(error.filename)).parent
        if not folder.is_dir():
            return f"there is no folder {folder}"
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


@contextlib.contextmanager
def replacing(file: str | Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a stream whose content takes the place of a file if all goes well, else nothing does.

    Args:
        file: to be written; a link is followed. A device, a pipe and what this program prints to
            (/dev/stdout) cannot be replaced: the content goes into it.
        durable: wait until the content is on the disk, so that it also survives a power cut.
    """
    target = Path(os.path.realpath(file))
    try:
        if (direct := _open_direct(file)) is not None:
            with direct:
                yield direct
            return
        with _beside(target) as (stream, half):
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
            if fcntl is None:
                stream.close()  # such systems do not rename what is open
            os.replace(half, target)  # before the lock ends with closing
        if durable:
            _sync_folder(target.parent)
    except OSError as error:
        raise WriteError(f"{file} could not be written: {explain_os_error(error)}") from None


def _open_direct(file: str | Path) -> IO[bytes] | None:
    """Open a device, a pipe, or what this program prints to; None for what can be replaced."""
    try:
        known = os.stat(file)
    except OSError:
        return None
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # of streams without a file
            if os.path.samestat(known, os.fstat(printed.fileno())):
                printed.flush()
                return os.fdopen(os.dup(printed.fileno()), "wb")
    replaceable = stat.S_ISREG(known.st_mode) or stat.S_ISDIR(known.st_mode)
    if replaceable:
        return None
    descriptor = os.open(file, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))  # waits for no reader
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a file of a name of its own beside the target; remove it unless it was renamed."""
    _remove_abandoned(target.parent, f".{target.name[:100]}.")
    descriptor, half = _create(target)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if target.exists():
                os.chmod(half, stat.S_IMODE(target.stat().st_mode))
            yield stream, half
    finally:
        _remove(half)


def _create(target: Path) -> tuple[int, Path]:
    """Make a file of a name of its own beside the target, and lock it."""
    while True:
        name = f".{target.name[:100]}.{_HOST}.{os.getpid()}.{next(_numbers)}.tmp"
        half = target.with_name(name)
        # the mode is what the umask leaves of it, as for any new file
        descriptor = os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        with contextlib.suppress(OSError):  # of file systems without locks
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, half
        os.close(descriptor)  # somebody took it for abandoned before it was locked


def write_bytes(file: str | Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file whole or not at all."""
    with replacing(file, durable=durable) as stream:
        stream.write(content)


def write_text(file: str | Path, content: str) -> None:
    """Write a text file whole or not at all; what is no UTF-8 in a name is escaped."""
    write_bytes(file, content.encode(errors="backslashreplace"))


def write_json(file: str | Path, content: Any) -> None:
    """Write a JSON file whole or not at all; what is not finite becomes null."""
    write_text(file, json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write_figure(file: str | Path, figure: Any) -> None:
    """Write a figure of matplotlib in the format that the file's ending says."""
    write_bytes(file, drawing(figure, Path(file).suffix.removeprefix(".") or "png"))


def drawing(figure: Any, kind: str = "png") -> bytes:
    """Return what a file with a figure of matplotlib holds."""
    with io.BytesIO() as stream:
        figure.savefig(stream, dpi=120, format=kind)
        return stream.getvalue()


def claim_version(place: str | Path) -> Path:
    """Make the folder version_N with the next free number, for this run alone.

    Whoever makes a folder has it: of runs that begin at the same instant, each gets its own.
    """
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            taken = [int(name[8:]) for name in os.listdir(folder) if _is_version(name)]
            try:
                claimed = folder / f"version_{max(taken, default=-1) + 1}"
                claimed.mkdir()
                return claimed
            except FileExistsError:
                continue  # another run was faster
    except OSError as error:
        raise WriteError(f"{folder} could not be made: {explain_os_error(error)}") from None


def _is_version(name: str) -> bool:
    return name.startswith("version_") and name[8:].isdecimal()


def remove_leftovers(folder: str | Path) -> None:
    """Remove what killed processes left of half-written files, in a folder and those below it."""
    for place, _, _ in os.walk(folder):
        _remove_abandoned(Path(place))


def _remove_abandoned(folder: Path, beginning: str = ".") -> None:
    """Remove half-written files that nobody is writing any more."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(beginning)]
    except OSError:
        return
    for name in names:
        ours = _OURS.fullmatch(name)
        if ours is None:
            continue
        file = folder / name
        with lock_of(file) as free:
            known = free is not None and ours["host"] == _HOST  # others' locks may not be seen here
            if free if known else _age(file) > ABANDONED:
                _remove(file)


@contextlib.contextmanager
def lock_of(file: Path, *, wait: bool = False) -> Iterator[bool | None]:
    """Take the lock of a file; say whether it was free, None if that cannot be known.

    It ends with the process that holds it, however that ends.

    Args:
        file: that is there.
        wait: until it is free.
    """
    if fcntl is None:
        yield None
        return
    descriptor = _open_to_lock(file)
    if descriptor is None:
        yield None
        return
    try:
        free: bool | None = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            free = False
        except OSError:
            free = None
        yield free
    finally:
        os.close(descriptor)


def _open_to_lock(file: Path) -> int | None:
    """Open a file; for writing if that is allowed, which network file systems want for locks."""
    for mode in (os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(OSError):  # neither follow a link nor wait for a pipe's other end
            return os.open(file, mode | os.O_NOFOLLOW | os.O_NONBLOCK)
    return None


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
