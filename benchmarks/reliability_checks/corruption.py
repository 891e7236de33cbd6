"""Checkpoints that are not as they were written: noticed, or harmless."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.reliability_checks.children import end, fit, start
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios import StoppingPolicy
from lit_ios.checks import UserError
from lit_ios.modules.checkpointing import SealedCheckpointIO

BLOCK = 4096


def bit_flips(trials: int, seed: int) -> Outcome:
    """Flip one bit anywhere in the file."""

    def flip(data: bytearray, rng: np.random.Generator) -> None:
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))

    return count("bit_flips", range(seed, seed + trials), lambda one: _changed(one, flip))


def zeroed_blocks(trials: int, seed: int) -> Outcome:
    """Overwrite a block of 4 kB with zeros, as a lost write leaves it."""

    def zero(data: bytearray, rng: np.random.Generator) -> None:
        first = int(rng.integers(-(-len(data) // BLOCK))) * BLOCK
        data[first : first + BLOCK] = bytes(len(data[first : first + BLOCK]))

    return count("zeroed_blocks", range(seed, seed + trials), lambda one: _changed(one, zero))


def truncations(trials: int, seed: int) -> Outcome:
    """Cut the file off anywhere."""

    def cut(data: bytearray, rng: np.random.Generator) -> None:
        del data[int(rng.integers(len(data))) :]

    return count("truncations", range(seed, seed + trials), lambda one: _changed(one, cut))


@cache
def checkpoint() -> bytes:
    """Return a checkpoint that training wrote."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if end(start(fit(folder, "--trainer.max_epochs=1"), folder / "said.txt")):
            raise RuntimeError((folder / "said.txt").read_text())
        (last,) = folder.glob("*/*/*/checkpoints/last.ckpt")
        return last.read_bytes()


def _changed(seed: int, change: object) -> str | None:
    """Say how a changed checkpoint was taken, if it was, by each way of loading one."""
    data = bytearray(checkpoint())
    assert callable(change)
    change(data, np.random.default_rng(seed))
    if bytes(data) == checkpoint():
        return None  # a block of zeros was there
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "changed.ckpt"
        file.write_bytes(data)
        for load in (StoppingPolicy.load, SealedCheckpointIO().load_checkpoint):
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
