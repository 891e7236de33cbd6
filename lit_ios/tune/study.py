"""Trials in a journal that several processes or machines write to, each done once.

    <study>/journal.jsonl     what Optuna knows of the trials, a line for each event
    <study>/claims/N          locked by the process that works on trial N

A lock ends with its process: trials of processes that were killed are claimed again, with the
same values. Whoever claims a trial holds the lock of the folder of claims while it is chosen, so
that no trial is begun twice and none too many.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lit_ios.checks import UserError
from lit_ios.files import lock_of
from lit_ios.tune.space import Knob, label_of

JOURNAL = "journal.jsonl"
SILENT = 3600.0  # seconds without an epoch after which a trial of another machine is taken over
NUMBER, VALUES, KILLED = "number", "values", "killed"  # what Optuna keeps of a trial for us


class Claim(NamedTuple):
    """A trial that this process works on."""

    number: int
    values: dict[str, Any]  # of the knobs; those not among them stay as they are
    trial: Any  # of Optuna
    file: Path  # that says it is alive


class Done(NamedTuple):
    """A trial that has ended."""

    number: int
    state: str  # complete, pruned or failed
    score: float | None  # of a complete one
    values: dict[str, Any]  # labels of the choices
    known: dict[str, Any]  # epochs, seconds, reason, …


def import_optuna() -> Any:
    """Import Optuna, quietly."""
    try:
        import optuna
    except ImportError:
        raise UserError("Optuna is not installed: pip install 'lit-ios[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Study:
    """The trials of one folder.

    Args:
        folder: of the study.
        knobs: that are searched.
        defaults: values of trial 0.
        seed: of the search.
        prune: whether trials that do worse than most are ended early.
    """

    def __init__(
        self,
        folder: Path,
        knobs: Sequence[Knob],
        defaults: dict[str, Any],
        seed: int = 0,
        prune: bool = True,
    ) -> None:
        self.knobs, self.defaults, self.seed = list(knobs), defaults, seed
        self.optuna = import_optuna()
        self._claims = folder / "claims"
        self._claims.mkdir(parents=True, exist_ok=True)
        journal = self.optuna.storages.journal
        file = str(folder / JOURNAL)
        backend = journal.JournalFileBackend(file, _Lock(folder / JOURNAL))
        storage = self.optuna.storages.JournalStorage(backend)
        pruner = self.optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=20)
        self._turn = self._claims / ".lock"
        self._turn.touch()
        try:
            with lock_of(self._turn, wait=True):
                self._study = self.optuna.create_study(
                    study_name="lit-ios", storage=storage, direction="maximize",
                    pruner=pruner if prune else self.optuna.pruners.NopPruner(),
                    load_if_exists=True,
                )  # fmt: skip
                self.done()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise UserError(f"{file} is damaged: take another copy, or begin a new study") from None

    # What there is -------------------------------------------------------------------------------

    def done(self) -> list[Done]:
        """Return the trials that have ended, by their numbers."""
        return sorted(map(_done, filter(_has_ended, self._trials())), key=lambda one: one.number)

    def best(self) -> Done | None:
        """Return the complete trial of the highest score; of equals, the first."""
        complete = [one for one in self.done() if one.score is not None]
        return max(complete, key=lambda one: (one.score, -one.number), default=None)

    def _trials(self) -> list[Any]:
        return self._study.get_trials(deepcopy=False)  # type: ignore[no-any-return]

    # One trial -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def claim(self, trials: int) -> Iterator[Claim | None]:
        """Take a trial that nobody works on, as long as the context lasts; None if there is none.

        Args:
            trials: how many there are to be in all.
        """
        with contextlib.ExitStack() as stack:
            with lock_of(self._turn, wait=True):
                claim = self._choose(trials)
                if claim is not None:
                    claim.file.write_text(socket.gethostname())
                    stack.enter_context(lock_of(claim.file, wait=True))
            yield claim

    def has_work(self, trials: int) -> bool:
        """Say whether there is a trial that nobody works on."""
        with lock_of(self._turn, wait=True):
            return self._find(trials) is not None

    def _choose(self, trials: int) -> Claim | None:
        """Choose what to do next; only one process does at a time."""
        found = self._find(trials)
        if found is None:
            return None
        number, attempts = found
        nameless = [one for one in self._trials() if _number(one) < 0]  # killed while choosing
        for trial in (*nameless, *attempts):
            if not trial.state.is_finished():
                self._give_up(trial)
        known = [one.user_attrs[VALUES] for one in attempts if VALUES in one.user_attrs]
        return self._begin(number, known[0] if known else None)

    def _find(self, trials: int) -> tuple[int, list[Any]] | None:
        """Return the first trial that has not ended and nobody works on, with killed attempts."""
        attempts: dict[int, list[Any]] = {}
        for trial in self._trials():
            attempts.setdefault(_number(trial), []).append(trial)
        for number in range(trials):
            tried = attempts.get(number, [])
            running = [trial for trial in tried if not trial.state.is_finished()]
            if not any(map(_has_ended, tried)) and all(
                self._was_killed(number, trial) for trial in running
            ):
                return number, tried
        return None

    def _was_killed(self, number: int, trial: Any) -> bool:
        """Say whether a running trial's process has ended without a word.

        A trial ends before its lock does: where the lock is free, the journal is read once more.
        """
        if self._is_alive(number):
            return False
        return not self._trials()[trial.number].state.is_finished()

    def _is_alive(self, number: int) -> bool:
        """Say whether a process works on a trial."""
        file = self._claims / str(number)
        try:
            own = file.read_text() == socket.gethostname()
            silent = time.time() - file.stat().st_mtime
        except OSError:
            return False
        with lock_of(file) as free:
            return not free if own and free is not None else silent < SILENT

    def _give_up(self, trial: Any) -> None:
        """Note that a trial's process was killed."""
        self.optuna.trial.Trial(self._study, trial._trial_id).set_user_attr(KILLED, True)
        self._study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)

    def _begin(self, number: int, values: dict[str, Any] | None) -> Claim:
        """Begin a trial with values that are known, or that are chosen now."""
        if values is None and number == 0:
            own = [(knob, self.defaults.get(knob.name)) for knob in self.knobs]
            values = {knob.name: label_of(value) for knob, value in own if knob.holds(value)}
        trial = self._ask(number) if values is None else self._add(number, values)
        found = dict(trial.params)
        chosen = {
            knob.name: knob.labels[found[knob.name]] if knob.choices else found[knob.name]
            for knob in self.knobs
            if knob.name in found
        }
        return Claim(number, chosen, trial, self._claims / str(number))

    def _ask(self, number: int) -> Any:
        # a sampler for each trial: what is chosen depends on the trials that have ended, and not
        # on who asks, so that a study that was interrupted goes on as if it had not been
        self._study.sampler = self.optuna.samplers.TPESampler(
            seed=self.seed * 100_003 + number, constant_liar=True, n_startup_trials=10
        )
        trial = self._study.ask({knob.name: self._range(knob) for knob in self.knobs})
        trial.set_user_attr(NUMBER, number)
        trial.set_user_attr(VALUES, dict(trial.params))
        return trial

    def _add(self, number: int, values: dict[str, Any]) -> Any:
        """Add a running trial of these values."""
        self._study.add_trial(
            self.optuna.trial.create_trial(
                state=self.optuna.trial.TrialState.RUNNING,
                params=values,
                distributions={
                    knob.name: self._range(knob) for knob in self.knobs if knob.name in values
                },
                user_attrs={NUMBER: number, VALUES: values},
            )
        )
        return self.optuna.trial.Trial(self._study, self._trials()[-1]._trial_id)

    def _range(self, knob: Knob) -> Any:
        """Return a knob as Optuna takes it."""
        kinds = self.optuna.distributions
        if knob.choices:
            return kinds.CategoricalDistribution(list(knob.labels))
        if knob.whole:
            step = int(knob.step or 1)
            return kinds.IntDistribution(int(knob.low), int(knob.high), knob.log, step)
        return kinds.FloatDistribution(knob.low, knob.high, knob.log, knob.step)

    def should_end(self, claim: Claim, epoch: int, score: float) -> bool:
        """Note how far a trial is; say whether it does worse than most did by then."""
        os.utime(claim.file)
        if score != score:
            return False
        claim.trial.report(score, epoch)
        return bool(claim.trial.should_prune())

    def tell(self, claim: Claim, state: str, score: float | None, **known: Any) -> Done:
        """Note what a trial came to."""
        for name, value in known.items():
            claim.trial.set_user_attr(name, value)
        states = self.optuna.trial.TrialState
        ends = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
        value = score if state == "complete" else None
        self._study.tell(claim.trial.number, value, state=ends[state])
        return Done(claim.number, state, value, claim.trial.user_attrs[VALUES], known)

    def importance(self) -> dict[str, float]:
        """Return how much of the scores' variance each knob explains; nothing for few trials."""
        names = [knob.name for knob in self.knobs]
        whole = [
            trial
            for trial in self._trials()
            if trial.state.name == "COMPLETE" and set(trial.params) == set(names)
        ]
        if len(whole) < 4 or len({trial.value for trial in whole}) < 2:
            return {}
        study = self.optuna.create_study(direction="maximize")
        study.add_trials(whole)
        evaluator = self.optuna.importance.FanovaImportanceEvaluator(seed=self.seed)
        found = self.optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}


def _number(trial: Any) -> int:
    return int(trial.user_attrs.get(NUMBER, -1))


def _has_ended(trial: Any) -> bool:
    """Say whether a trial has ended by itself."""
    return trial.state.is_finished() and not trial.user_attrs.get(KILLED)


def _done(trial: Any) -> Done:
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    known = {
        name: value for name, value in trial.user_attrs.items() if name not in (NUMBER, VALUES)
    }
    return Done(_number(trial), state, trial.value if state == "complete" else None,
                trial.user_attrs[VALUES], known)  # fmt: skip


class _Lock:
    """The lock of a journal: it ends with its process, and leaves whole lines behind."""

    def __init__(self, file: Path) -> None:
        self._file, self._held = file, contextlib.ExitStack()

    def acquire(self) -> bool:
        self._held.enter_context(lock_of(self._file, wait=True))
        _drop_cut_line(self._file)
        return True

    def release(self) -> None:
        self._held.close()


def _drop_cut_line(file: Path) -> None:
    """Remove a last line whose writer was killed: nobody could read the journal after it."""
    with file.open("rb+") as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() == 0:
            return
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) == b"\n":
            return
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)


def values_text(values: dict[str, Any]) -> str:
    """Return values in one line."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )
