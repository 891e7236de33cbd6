"""A training step compiled ahead of time, and when there is one.

PyTorch's compiler turns the graph of `traced` into a library, which is kept for later runs
(`step_cache`). A compiled step differs from an eager one in the order in which numbers are added
up: each repeats to the bit, but after many steps their weights are not the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor
from torch.optim import Optimizer
from tqdm import tqdm

from lit_ios.batches import TrainBatch
from lit_ios.functional.recurrences import BLOCK
from lit_ios.modules import step_cache
from lit_ios.modules.flat import FlatParts
from lit_ios.modules.suitable import fingerprint, row_axis, why_eager
from lit_ios.modules.traced import ROWS, Rates, rows_of, trace

Compile = Literal["never", "build", "cached"]
EAGER = "eager"  # in the place of a compiled step's fingerprint
SECONDS = 20  # that building takes, about
LIBRARY, OPERATORS, TERMS = "step.so", "step.json", "terms.json"  # of a compiled step
_INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"


class _Column:
    """What a column of a batch is like, but for its number of rows."""

    def __init__(self, name: str, column: Tensor) -> None:
        self.dtype, axis = column.dtype, row_axis(name, column)
        self._before, self._after = tuple(column.shape[:axis]), tuple(column.shape[axis + 1 :])

    def shape_of(self, rows: int) -> tuple[int, ...]:
        return (*self._before, rows, *self._after)


class CompiledStep:
    """Steps all parts once for each batch, in place.

    Args:
        folder: with the files of the compiled step.
        rates: what it takes beside the rows.
        batch: of the kind it was compiled for.
        most: rows it can take.
    """

    def __init__(self, folder: Path, rates: Rates, batch: TrainBatch, most: int) -> None:
        self._loaded = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / LIBRARY), 1)
        self.names: list[str] = json.loads((folder / TERMS).read_text())
        self._rates, self._most = rates, most
        self._known = [
            None if column is None else _Column(name, column)
            for name, column in batch._asdict().items()
        ]

    def takes(self, batch: TrainBatch) -> bool:
        """Say whether a batch is of the kind and size it was compiled for."""
        rows = batch.state.shape[0]
        if not ROWS[0] <= rows <= self._most:
            return False
        for known, column in zip(self._known, batch, strict=True):
            if known is None:
                if column is not None:
                    return False
            elif (
                column is None
                or column.dtype != known.dtype
                or column.shape != known.shape_of(rows)
            ):
                return False
        return True

    def __call__(self, batch: TrainBatch) -> Tensor:
        """Step once; return the loss terms; (T,)."""
        terms: Tensor = self._loaded.run([*self._rates.inputs(), *rows_of(batch)])[0]
        return terms


class Steps:
    """How the steps of a run are done; chosen at the first one, and told to checkpoints.

    Args:
        mode: `never` compiled, `build` a compiled step unless one is kept from earlier, or take it
            only if it is `cached`.
    """

    def __init__(self, mode: Compile) -> None:
        self.mode = mode
        self.before: str | None = None  # how they were done, where a run is resumed
        self._chosen: tuple[CompiledStep | None, str] | None = None

    @property
    def by(self) -> str | None:
        """The compiled step's fingerprint, or `eager`."""
        return self.before if self._chosen is None else self._chosen[1]

    def choose(
        self, module: Any, flat: FlatParts, wrapped: Sequence[Any], batch: TrainBatch
    ) -> CompiledStep | None:
        """Return the compiled step, None for eager ones; say it if a run goes on in another way.

        Args:
            module: that is being trained.
            flat: its weights.
            wrapped: optimizers of its parts, as Lightning gives them.
            batch: of training rows.
        """
        if self._chosen is None:
            self._chosen = self._find(module, flat, wrapped, batch)
            if self.before not in (None, self._chosen[1]):
                rank_zero_warn(
                    f"until now this run took {_words(self.before)} and goes on with "
                    f"{_words(self._chosen[1], 'other ')}: its numbers will not be those of a run "
                    "that was never interrupted"
                )
        return self._chosen[0]

    def _find(
        self, module: Any, flat: FlatParts, wrapped: Sequence[Any], batch: TrainBatch
    ) -> tuple[CompiledStep | None, str]:
        """Return the compiled step and its fingerprint, or say why there is none."""
        if self.mode == "never":
            return None, EAGER
        optimizers = [optimizer.optimizer for optimizer in wrapped]
        why = why_eager(module, optimizers, batch)
        if why is None:
            key = fingerprint(module, optimizers, batch)
            try:
                folder = step_cache.cache_folder()
                library = step_cache.find(folder, key)
                if library is None and self.mode == "build" and shutil.which(_compiler()):
                    library = _build(folder, key, module, flat, optimizers, batch)
                if library is not None:
                    rates = Rates(module, flat, optimizers)
                    return CompiledStep(library, rates, batch, _most_rows(module)), key
                why = "no compiled step is kept for these settings; --compile build makes one"
                if self.mode == "build":
                    why = f"there is no C++ compiler {_compiler()}: install one, or name it by CXX"
            except step_cache.UnsafeCacheError as unsafe:
                why = f"{unsafe}; choose another folder with LIT_IOS_CACHE"
            except Exception as error:  # a compiler can fail in many ways, and training need not
                why = f"compiling failed: {_first_line(error)}"
        rank_zero_warn(f"training steps are not compiled: {why}")
        return None, EAGER


def count_call(trainer: Any, optimizers: Sequence[Optimizer]) -> None:
    """Let Lightning count a step of each optimizer: checkpoints and schedules wait for it."""
    progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
    for optimizer in optimizers:
        optimizer._opt_called = True  # type: ignore[attr-defined]  # what a schedule looks at
        progress.increment_ready()
        progress.increment_completed()


def _most_rows(module: Any) -> int:
    """Return how many rows a step can take: sums along paths are of two levels of blocks."""
    return BLOCK**2 if module.rule.memory.width else ROWS[1]


def _compiler() -> str:
    """Return the C++ compiler that PyTorch calls."""
    return os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")


def _words(by: str | None, other: str = "") -> str:
    return "steps that were not compiled" if by == EAGER else f"{other}compiled steps"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__} {lines[0][:200] if lines else ''}".strip()


def _build(
    folder: Path,
    key: str,
    module: Any,
    flat: FlatParts,
    optimizers: Sequence[Optimizer],
    batch: TrainBatch,
) -> Path:
    """Compile the step, once for all runs with the same settings."""

    def build(made: Path, other: Path) -> None:
        tqdm.write(f"compiling the training step, once for these settings: about {SECONDS} s")
        traced = trace(module, flat, optimizers, batch)
        with _inductor_in(other):
            compile_program(traced.program, made, other / "package.pt2")
        (made / TERMS).write_text(json.dumps(traced.names))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return step_cache.find_or_build(folder, key, build)


def compile_program(program: torch.export.ExportedProgram, folder: Path, package: Path) -> None:
    """Write a traced step as a library, with a list of the operators that it calls by name.

    Args:
        program: from `trace`.
        folder: where they go.
        package: file that PyTorch's compiler writes, of which they are a part. Its own loader would
            unpack it in the temporary folder of the machine, and often leave that there.
    """
    from torch._inductor import aoti_compile_and_package, config

    settings = {
        "cpp.threads": torch.get_num_threads(),
        "cpp.vec_isa_ok": True,  # what the processor says it understands need not be tried out
        "force_disable_caches": True,
        # by default they lie in a folder of a known name in the temporary folder of the machine
        "aot_inductor.precompile_headers": False,
    }
    with config.patch(compile_threads=1):  # starts no processes
        aoti_compile_and_package(program, package_path=str(package), inductor_configs=settings)
    with zipfile.ZipFile(package) as archive:
        names = [name for name in archive.namelist() if "/aotinductor/" in name]
        (library,) = (name for name in names if name.endswith(".so"))
        (folder / LIBRARY).write_bytes(archive.read(library))
        operators = library.removesuffix(".so") + ".json"
        if operators in names:
            (folder / OPERATORS).write_bytes(archive.read(operators))


@contextmanager
def _inductor_in(folder: Path) -> Iterator[None]:
    """Let PyTorch's compiler put its files into this folder, where nobody else can."""
    before = os.environ.get(_INDUCTOR)
    os.environ[_INDUCTOR] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(_INDUCTOR)
        if before is not None:
            os.environ[_INDUCTOR] = before
