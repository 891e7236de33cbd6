"""One `lit-ios fit` in this process, piece by piece, in seconds of the processor.

`benchmarks.around` starts this file in fresh processes, also over another checkout of the project.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any


class Meter:
    """Adds up the time of pieces; a piece within another one does not count for that one."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._within = clock, ["rest"]
        self._since = clock()

    def _turn(self) -> None:
        now = self._clock()
        name = self._within[-1]
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now

    @contextlib.contextmanager
    def piece(self, name: str) -> Iterator[None]:
        """Count the time of this block for a piece."""
        self._turn()
        self._within.append(name)
        try:
            yield
        finally:
            self._turn()
            self._within.pop()

    def wrap(self, owner: Any, method: str, name: str) -> None:
        """Count a method's time for a piece, if there is such a method."""
        usual = getattr(owner, method, None)
        if usual is None:
            return

        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.piece(name):
                return usual(*args, **kwargs)

        setattr(owner, method, measured)

    def wrap_iterator(self, owner: Any, name: str) -> None:
        """Count what it takes to make the elements of an iterable for a piece."""
        usual = owner.__iter__

        def measured(own: Any) -> Iterator[Any]:
            elements = usual(own)
            while True:
                with self.piece(name):
                    element = next(elements, self)
                if element is self:
                    return
                yield element

        owner.__iter__ = measured


def measure(words: list[str]) -> dict[str, float]:
    """Carry out a command line; return seconds by piece.

    Start-up is all before `Trainer.fit`, imports of this interpreter included.
    """
    import pytorch_lightning as pl
    from pytorch_lightning.loops.evaluation_loop import _EvaluationLoop

    import train
    from callbacks import EpochProgressBar, StoppingFigures
    from callbacks.run_folder import EpochLogger
    from datamodules.loaders import Chunks
    from lit_ios.cli import StoppingCLI
    from lit_ios.modules import StoppingModule

    meter = Meter()
    usual = pl.Trainer.fit

    def fit(*args: Any, **kwargs: Any) -> None:
        meter._turn()
        meter.seconds = {"start-up": time.process_time()}
        with meter.piece("loop"):
            usual(*args, **kwargs)

    pl.Trainer.fit = fit  # type: ignore[method-assign]
    meter.wrap(pl.Trainer, "test", "test")
    meter.wrap(pl.Trainer, "save_checkpoint", "checkpoints")
    meter.wrap(StoppingModule, "training_step", "steps")
    meter.wrap(_EvaluationLoop, "run", "validation")
    meter.wrap(StoppingFigures, "on_train_epoch_end", "figures")
    meter.wrap(StoppingFigures, "on_test_end", "figures")
    meter.wrap(EpochLogger, "log_metrics", "curves")
    meter.wrap(EpochLogger, "save", "curves")
    meter.wrap(EpochProgressBar, "on_train_epoch_end", "progress bar")
    meter.wrap(StoppingCLI, "write_report", "report")
    meter.wrap_iterator(Chunks, "batches")
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        cli: Any = train.main(words)
    meter._turn()
    steps = getattr(cli.model, "_steps", None)
    if "--compile=cached" in words and getattr(steps, "by", "eager") == "eager":
        raise SystemExit("error: no compiled step was found: was the code changed meanwhile?")
    return meter.seconds


if __name__ == "__main__":
    found = measure(sys.argv[1:])
    print(json.dumps(found))
