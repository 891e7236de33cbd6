"""One trial: a model trained in folds, and its score on the paths that its members left out."""

from __future__ import annotations

import contextlib
import io
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint, EarlyStopping, ProgressBar

import callbacks
import datamodules  # noqa: F401 (its classes are named in settings)
from callbacks import PredictionWriter, RunSummary, StoppingFigures
from lit_ios.checks import UserError
from lit_ios.cli import StoppingCLI
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.program.class_names import allow_imports
from lit_ios.program.quiet import be_quiet
from lit_ios.settings import Settings
from lit_ios.tune.space import SCHEDULED, Knob, as_options, schedule_epsilon
from lit_ios.tune.stacked import Outcome, Setting, check_stackable, stack

OFTEN = 5  # epochs between two looks at whether a trial does worse than most
WRITERS = (Checkpoint, ProgressBar, StoppingFigures, PredictionWriter, RunSummary)


class Pruned(Exception):  # noqa: N818 (it is caught, never shown)
    """A trial did worse than most did by then.

    Args:
        epochs: that it was trained.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs


# what a compiled step takes as it comes
SHARED = frozenset({"learning_rate", "learning_rate_decay", "epsilon", SCHEDULED, "max_epochs"})


class Judge(pl.Callback):
    """Says every few epochs how far a trial is, and ends it if it is told to.

    Args:
        should_end: takes epoch and score so far.
    """

    def __init__(self, should_end: Callable[[int, float], bool]) -> None:
        self._should_end = should_end

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look."""
        epoch = trainer.current_epoch + 1
        score = float(trainer.callback_metrics.get("val/cross_fitted_accuracy", math.nan))
        if epoch % OFTEN == 0 and self._should_end(epoch, score):
            raise Pruned(epoch)


class TrialCLI(StoppingCLI):
    """Trains without writing anything, and tests nothing."""

    judge: Judge | None = None
    model: Any
    datamodule: Any

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """Leave out what writes and shows."""
        config = self._get(self.config_init, "trainer")
        kept = [c for c in config.get("callbacks") or [] if not isinstance(c, WRITERS)]
        config["callbacks"] = [*kept, *([] if self.judge is None else [self.judge])]
        config["logger"] = config["enable_checkpointing"] = False
        config["enable_progress_bar"] = False
        trainer = super().instantiate_trainer(**kwargs)
        if trainer.world_size > 1:
            raise UserError("a trial trains in one process: leave --trainer.devices out")
        return trainer

    def after_fit(self) -> None:
        """Test nothing."""

    def go_on_with(self, last: Path) -> str:
        """Leave it to the study to say how to go on."""
        return ""


class ProbeCLI(TrialCLI):
    """Makes the objects, and leaves it at that."""

    reads = False  # whether the data are read, too

    def after_instantiate_classes(self) -> None:
        """Read the data if that is asked for."""
        if self.reads:
            super().after_instantiate_classes()
        else:
            self.model.trainer = None

    def _run_subcommand(self, subcommand: str) -> None:
        """Train nothing."""


class Trainee:
    """Settings that trials are laid over.

    Args:
        settings: of model, data and trainer.
        options: of the command line, which win over the settings.
        knobs: that are searched.
        allow: packages that classes may be imported from beside the trusted ones.
    """

    def __init__(
        self,
        settings: Settings,
        options: Sequence[str],
        knobs: Sequence[Knob] = (),
        allow: Sequence[str] = (),
    ) -> None:
        self.settings, self.options = settings, list(options)
        self.knobs, self.allow = list(knobs), list(allow)

    def run(self, kind: type[StoppingCLI], values: dict[str, Any]) -> Any:
        """Carry out `fit` with values of the knobs, by a command line of this kind."""
        be_quiet()
        kind.checkpoint = None
        allow_imports(self.allow)
        settings = schedule_epsilon(self.settings, values.get(SCHEDULED))
        words = ["--model.init_args.compile=build"] if self.share_a_step else []
        words += [*self.options, *as_options(self.knobs, values)]
        return kind.carry_out(settings, ["fit", *words])

    @property
    def share_a_step(self) -> bool:
        """Whether one compiled step does for all trials: none has other layers or losses."""
        own = {knob.key.rpartition(".")[2] for knob in self.knobs}
        return bool(own) and own <= SHARED

    def probe(self, values: dict[str, Any], *, reads: bool = False) -> Any:
        """Make the objects without training; what cannot be used is refused."""

        class Probe(ProbeCLI):
            pass

        Probe.reads = reads
        return self.run(Probe, values)

    def score(
        self, values: dict[str, Any], should_end: Callable[[int, float], bool] | None
    ) -> dict[str, Any]:
        """Train; return state, score and what else there is to say.

        Args:
            values: of the knobs.
            should_end: see Judge.
        """

        class Trial(TrialCLI):
            judge = None if should_end is None else Judge(should_end)

        start = time.perf_counter()
        known: dict[str, Any] = {"state": "complete", "score": None}
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                cli = self.run(Trial, values)
            known |= _scored(honest_score(cli.model.choices), cli.trainer.current_epoch)
        except Pruned as early:
            known |= {"state": "pruned", "epochs": early.epochs}
        except UserError as error:  # such as losses that are not finite
            known |= {"state": "failed", "reason": str(error)}
        return known | {"seconds": round(time.perf_counter() - start, 2)}

    def scores(
        self, many: Sequence[dict[str, Any]], notes: Sequence[Callable[[int, float], bool]]
    ) -> list[dict[str, Any]]:
        """Train settings side by side; return what `score` returns of each.

        If one of them diverges, all are trained one by one: who it was is not known.

        Args:
            many: values of the knobs, of each setting.
            notes: `should_end` of each; side by side, nobody is ended early.
        """
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                found = self._train_stacked(many, notes)
        except UserError:
            return [self.score(*one) for one in zip(many, notes, strict=True)]
        seconds = round((time.perf_counter() - start) / len(many), 2)
        return [_scored(*one) | {"seconds": seconds} for one in found]

    def _train_stacked(
        self, many: Sequence[dict[str, Any]], notes: Sequence[Callable[[int, float], bool]]
    ) -> list[Outcome]:
        """Train settings as members of one model."""
        settings = [self._setting(self.probe(values)) for values in many]

        class Stacked(TrialCLI):
            judge = Judge(lambda epoch, score: any(note(epoch, math.nan) for note in notes))

            def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
                config = self._get(self.config_init, "trainer")
                kept = config.get("callbacks") or []
                check_stackable(self.model, self.datamodule, kept)
                patience = next((c for c in kept if isinstance(c, EarlyStopping)), None)
                config["callbacks"] = [c for c in kept if not isinstance(c, EarlyStopping)]
                self.model = stack(self.model, settings, patience)
                return super().instantiate_trainer(**kwargs)

        found: list[Outcome] = self.run(Stacked, dict(many[0])).model.outcomes()
        return found

    @staticmethod
    def _setting(cli: Any) -> Setting:
        """Return what a command line says of a model's learning."""
        given, decay = cli.model.hparams, epsilon_decay(cli.trainer)
        rates = given["learning_rate"], given["learning_rate_decay"]
        return Setting(*rates, given["epsilon"], given["gamma"], 1.0 if decay is None else decay)


def _scored(score: float, epochs: int) -> dict[str, Any]:
    """Return what training came to."""
    if math.isnan(score):
        reason = "no two halves of the paths left out have stops: nothing can be measured"
        return {"state": "failed", "score": None, "epochs": epochs, "reason": reason}
    return {"state": "complete", "score": score, "epochs": epochs}


def epsilon_decay(trainer: pl.Trainer) -> float | None:
    """Return by how much ε falls each epoch; None where it has no schedule."""
    found = [c for c in trainer.callbacks if isinstance(c, callbacks.EpsilonDecay)]  # type: ignore[attr-defined]
    return found[0].decay if found else None
