"""Disks that are full, read-only or gone: one sentence, exit code 1, the last good file kept."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.reliability_checks.children import end, fit, start
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios.checkpoints import read_checkpoint
from lit_ios.checks import UserError

READ_ONLY, AGAIN, BIND = 1, 32, 4096  # flags of mount(2)


def disk_errors(trials: int, seed: int) -> Outcome:
    """Take the disk away from a training in four ways, one after the other."""
    ways = [_full, _limited, _read_only, _removed]
    if not _may_mount():
        ways = [_limited, _removed]
    seeds = range(seed, seed + trials)
    outcome = count("disk_errors", seeds, lambda one: ways[one % len(ways)](one))
    if len(ways) < 4 and not outcome.bad:
        return outcome._replace(note="no right to mount: two of four ways")
    return outcome


def _full(seed: int) -> str | None:
    def fill(folder: Path) -> None:
        with (folder / "ballast").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))

    return _on_small_disk(fill, "disk is full")


def _read_only(seed: int) -> str | None:
    def protect(folder: Path) -> None:
        for checkpoints in folder.glob("*/*/*/checkpoints"):  # no file in it is open for long
            _mount(checkpoints, checkpoints, BIND)
            _mount(checkpoints, checkpoints, BIND | AGAIN | READ_ONLY)

    return _on_small_disk(protect, "read-only")


def _limited(seed: int) -> str | None:
    """Let files be as large as a checkpoint is, less a bit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def work() -> object:
            resource.setrlimit(resource.RLIMIT_FSIZE, (9000 + 100 * (seed % 50),) * 2)
            return fit(folder)()

        child = start(work, Path(f"{name}.txt"))
        return _ended(child, folder, Path(f"{name}.txt"), "limit for files", kept=False)


def _removed(seed: int) -> str | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        child = start(fit(folder, "--trainer.max_epochs=500"), Path(name) / "said.txt")
        _wait_for_checkpoint(folder)
        for run in folder.glob("*/*/version_0"):
            run.rename(Path(name) / "moved")
            shutil.rmtree(Path(name) / "moved")
        return _ended(child, folder, Path(name) / "said.txt", "there is no folder", kept=False)


def _on_small_disk(trouble: Callable[[Path], None], words: str) -> str | None:
    """Train on a disk of 6 MB; make trouble after the first checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "disk"
        folder.mkdir()
        _mount(Path("tmpfs"), folder)
        try:
            child = start(fit(folder, "--trainer.max_epochs=500"), Path(name) / "said.txt")
            _wait_for_checkpoint(folder)
            trouble(folder)
            return _ended(child, folder, Path(name) / "said.txt", words)
        finally:
            _unmount(folder)


def _wait_for_checkpoint(folder: Path) -> None:
    until = time.monotonic() + 60
    while not list(folder.glob("*/*/version_*/checkpoints/last.ckpt")):
        if time.monotonic() > until:
            raise RuntimeError("no checkpoint within a minute")
        time.sleep(0.01)


def _ended(child: int, folder: Path, said: Path, words: str, kept: bool = True) -> str | None:
    code, text = end(child), said.read_text()
    said.unlink()
    if (
        code != 1
        or "Traceback" in text
        or not any(line.startswith("error: ") and words in line for line in text.splitlines())
    ):
        return f"ended with {code} and said: {text[-600:]}"
    files = list(folder.rglob("*.ckpt"))
    if kept and not files:
        return "no checkpoint is kept"
    for file in files:
        try:
            read_checkpoint(file)
        except UserError as error:
            return str(error)
    return None


def _mount(source: Path, folder: Path, flags: int = 0) -> None:
    """Mount a disk of 6 MB of memory, or a folder once more."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(bytes(source), bytes(folder), b"tmpfs", flags, b"size=6m"):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _unmount(folder: Path) -> None:
    for place in (*folder.glob("*/*/*/checkpoints"), folder):
        ctypes.CDLL(None).umount2(bytes(place), 2)  # detached: what is in use ends by itself


def _may_mount() -> bool:
    with tempfile.TemporaryDirectory() as name:
        try:
            _mount(Path("tmpfs"), Path(name))
        except OSError:
            return False
        _unmount(Path(name))
        return True
