"""Checkpoints and exported files that are not as they were written: noticed, or harmless."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.reliability_checks.children import end, fit, start
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios import StoppingPolicy, runtime
from lit_ios.checks import UserError
from lit_ios.modules.checkpointing import SealedCheckpointIO

BLOCK = 4096
Change = Callable[[bytearray, np.random.Generator], None]
Load = Callable[[Path], object]


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))


def _zero(data: bytearray, rng: np.random.Generator) -> None:
    first = int(rng.integers(-(-len(data) // BLOCK))) * BLOCK
    data[first : first + BLOCK] = bytes(len(data[first : first + BLOCK]))


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data))) :]


def bit_flips(trials: int, seed: int) -> Outcome:
    """Flip one bit anywhere in the file."""
    return count("bit_flips", range(seed, seed + trials), lambda one: _checkpoint(one, _flip))


def zeroed_blocks(trials: int, seed: int) -> Outcome:
    """Overwrite a block of 4 kB with zeros, as a lost write leaves it."""
    return count("zeroed_blocks", range(seed, seed + trials), lambda one: _checkpoint(one, _zero))


def truncations(trials: int, seed: int) -> Outcome:
    """Cut the file off anywhere."""
    return count("truncations", range(seed, seed + trials), lambda one: _checkpoint(one, _cut))


def exported_damage(trials: int, seed: int) -> Outcome:
    """Do the same to exported files, mostly flip one bit: ….onnx and ….pt2 in turn."""
    loads: dict[str, Sequence[Load]] = {
        ".onnx": (runtime.load, runtime.verify),
        ".pt2": (runtime.verify,),
    }

    def trial(one: int) -> str | None:
        ending = list(loads)[one % len(loads)]
        change = (_flip, _flip, _flip, _zero, _cut)[one // len(loads) % 5]
        return _changed(exported(ending), ending, one, change, loads[ending])

    return count("exported_damage", range(seed, seed + trials), trial)


@cache
def checkpoint() -> bytes:
    """Return a checkpoint that training wrote."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if end(start(fit(folder, "--trainer.max_epochs=1"), folder / "said.txt")):
            raise RuntimeError((folder / "said.txt").read_text())
        (last,) = folder.glob("*/*/*/checkpoints/last.ckpt")
        return last.read_bytes()


@cache
def exported(ending: str) -> bytes:
    """Return what that checkpoint is exported to."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "policy.ckpt"
        file.write_bytes(checkpoint())
        return StoppingPolicy.load(file).export(file.with_suffix(ending)).read_bytes()


def _checkpoint(seed: int, change: Change) -> str | None:
    loads = (StoppingPolicy.load, SealedCheckpointIO().load_checkpoint)
    return _changed(checkpoint(), ".ckpt", seed, change, loads)


def _changed(
    content: bytes, ending: str, seed: int, change: Change, loads: Sequence[Load]
) -> str | None:
    """Say how a changed file was taken, if it was, by each way of loading one."""
    data = bytearray(content)
    change(data, np.random.default_rng(seed))
    if bytes(data) == content:
        return None  # a block of zeros was there
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / f"changed{ending}"
        file.write_bytes(data)
        for load in loads:
            try:
                load(file)
            except UserError as error:
                if "\n" in str(error) or str(file) not in str(error):
                    return f"not one sentence: {error}"
                continue
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            return "taken as if it were whole"
    return None
