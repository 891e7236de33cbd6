"""A study from the command line: trials here, on several processes or on Ray, then the best one.

runs/<data>/tune/version_N/
config.yaml, checkpoints/best.ckpt, metrics.json, figures/   of the best settings, tested
candidates/defaults/                                         the same of the defaults
trials.csv, figures/importance.png, figures/trials.png       what was tried
tune.json, settings.yaml, space.yaml, journal.jsonl          how to go on
"""

from __future__ import annotations

import contextlib
import io
import json
import time
import warnings
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from lit_ios.checks import UserError
from lit_ios.cli import StoppingCLI
from lit_ios.files import lock_of, remove_leftovers, write_json
from lit_ios.scale import Place, results
from lit_ios.tune.plan import Plan, Prepared, look, read_plan, study_of
from lit_ios.tune.report import sentences, write_report
from lit_ios.tune.study import Claim, Done, Study
from lit_ios.tune.trials import Trainee

WAIT = 1.0  # seconds between two looks at trials that others work on


class TrialTask(NamedTuple):
    """The next trials of a study, whichever they are."""

    folder: str
    allow: tuple[str, ...]
    found: bool  # whether the folder may come from a stranger
    trials: int
    turn: int


def next_trials(task: TrialTask) -> list[Done]:
    """Claim a trial, or several to be trained side by side, and train; none if none is left."""
    plan, prepared = _prepared(task.folder, task.allow, task.found)
    study = study_of(Path(task.folder), plan, prepared)
    trainee = Trainee(plan.settings, plan.options, prepared.knobs, plan.allow)
    with contextlib.ExitStack() as stack:
        claims: list[Claim] = []
        while len(claims) < plan.stacked:
            claim = stack.enter_context(study.claim(task.trials))
            if claim is None:
                break
            claims.append(claim)
        many = [claim.values for claim in claims]
        notes = [partial(study.should_end, claim) for claim in claims]
        if len(claims) > 1:
            found = trainee.scores(many, notes)
        else:
            found = [trainee.score(*one) for one in zip(many, notes, strict=True)]
        return [study.tell(claim, **known) for claim, known in zip(claims, found, strict=True)]


@cache
def _prepared(folder: str, allow: tuple[str, ...], found: bool) -> tuple[Plan, Prepared]:
    """Read what a study is of once in each process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = read_plan(Path(folder), allow, found=found)
        return plan, look(plan, checks=False)


class TuneRun:
    """Takes part in a study, and ends it.

    Args:
        folder: of the study.
        plan: what it is of.
        prepared: what is searched.
        trials: how many there are to be in all.
        place: where to train.
        found: whether the folder may come from a stranger.
        program: as the user calls it.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        prepared: Prepared,
        trials: int,
        place: Place,
        found: bool = False,
        program: str = "lit-ios",
    ) -> None:
        self.folder, self.plan, self.prepared = folder, plan, prepared
        self.trials, self.place, self.found, self.program = trials, place, found, program
        self.study: Study = study_of(folder, plan, prepared)

    def go(self) -> Any:
        """Train what is missing, say what came out, train and test the best; return its CLI."""
        print(f"tune: {self.trials} trials in {self.folder}")
        for knob in self.prepared.knobs:
            if not knob.holds(value := self.prepared.defaults[knob.name]):
                warnings.warn(
                    f"the default of {knob.name}, {value}, lies outside of the space: trial 0 has "
                    "it, no other will",
                    stacklevel=2,
                )
        try:
            self._train()
            turn = self.folder / "claims/.end"
            turn.touch()
            with lock_of(turn, wait=True):  # of several commands, one ends it
                return self._end()
        except (SystemExit, KeyboardInterrupt):
            print(f"\ntune: go on with  {self.program} tune --resume {self.folder}")
            raise

    # The trials ----------------------------------------------------------------------------------

    def _train(self) -> None:
        """Train until all trials have ended, also those that other commands had begun."""
        with tqdm(total=self.trials, unit="trial", dynamic_ncols=True, disable=None) as bar:
            self._show(bar)
            while missing := self.trials - len(self.study.done()):
                tasks = [
                    TrialTask(str(self.folder), tuple(self.plan.allow), self.found, self.trials, n)
                    for n in range(-(-missing // self.plan.stacked))
                ]
                for _ in results(next_trials, tasks, self.place):
                    self._show(bar)
                self._wait_for_others(bar)

    def _wait_for_others(self, bar: Any) -> None:
        """Wait while other commands work on all that is left."""
        while len(self.study.done()) < self.trials and not self.study.has_work(self.trials):
            time.sleep(WAIT)
            self._show(bar)

    def _show(self, bar: Any) -> None:
        best = self.study.best()
        if best is not None:
            bar.set_postfix_str(f"best {best.score:.4f}, trial {best.number}", refresh=False)
        bar.update(min(len(self.study.done()), self.trials) - bar.n)

    # The best ------------------------------------------------------------------------------------

    def _end(self) -> Any:
        best, written = self.study.best(), self.folder / "metrics.json"
        if best is None:
            first = next((one.known["reason"] for one in self.study.done()), "")
            raise UserError(f"none of {self.trials} trials could be scored: {first}")
        known = _json(written)
        if known.get("trials") == self.trials:
            print("\n".join(sentences(known, self.folder, self.program)))
            return None
        write_report(self.folder, self.study, best)
        defaults = self._final({}, self.folder / "candidates/defaults", shown=False)
        cli = self._final(self._values(best), self.folder, shown=True)
        metrics = _json(written) | self._metrics(best, cli, defaults)
        write_json(written, metrics)
        print("\n".join(sentences(metrics, self.folder, self.program)))
        return cli

    def _values(self, done: Done) -> dict[str, Any]:
        """Return the values of a trial's knobs."""
        knobs = {knob.name: knob for knob in self.prepared.knobs}
        return {
            name: knobs[name].labels[value] if knobs[name].choices else value
            for name, value in done.values.items()
        }

    def _final(self, values: dict[str, Any], folder: Path, *, shown: bool) -> Any:
        """Train settings once more, keep the best epoch in a run folder, and test it."""
        run = self

        class FinalCLI(StoppingCLI):
            def run_folder(self) -> Path:
                return folder

            def go_on_with(self, last: Path) -> str:
                return ""  # the study says it

            @staticmethod
            def began(runs_dir: str, folder: Path) -> None:
                """Leave it to the study."""

            def instantiate_trainer(self, **kwargs: Any) -> Any:
                for callback in self._get(self.config_init, "trainer").get("callbacks") or []:
                    if hasattr(callback, "label"):
                        callback.label = "the best" if shown else "the defaults"
                return super().instantiate_trainer(**kwargs)

        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        plan = run.plan
        options = [*plan.options, *([] if shown else ["--baseline=false", "--report=false"])]
        trainee = Trainee(plan.settings, options, run.prepared.knobs, plan.allow)
        with contextlib.nullcontext() if shown else contextlib.redirect_stdout(io.StringIO()):
            return trainee.run(FinalCLI, values)

    def _metrics(self, best: Done, cli: Any, defaults: Any) -> dict[str, Any]:
        """Return what metrics.json says of the study."""
        from lit_ios.functional.cross_fitting import honest_score

        done = self.study.done()
        own = _json(self.folder / "candidates/defaults/metrics.json")
        first = done[0]
        return {
            "trials": self.trials,
            "pruned": sum(one.state == "pruned" for one in done),
            "failed": sum(one.state == "failed" for one in done),
            "trial": best.number,
            "values": best.values,
            "best_of_trials/cross_fitted_accuracy": best.score,
            "val/cross_fitted_accuracy": honest_score(cli.model.choices),
            "defaults/cross_fitted_accuracy": first.score,
            "defaults/test/balanced_accuracy": own.get("test/balanced_accuracy"),
            "importance": self.study.importance(),
            "seconds": sum(one.known.get("seconds", 0.0) for one in done),
        }


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
