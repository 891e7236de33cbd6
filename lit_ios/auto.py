"""The recipe of a user who chooses nothing: train candidates, take the best on paths left out.

    runs/<data>/auto/version_N/
        config.yaml, checkpoints/best.ckpt, metrics.json, figures/   of the candidate taken
        candidates/<name>/                                           a run folder each
        auto.json                                                    how to go on

Candidates are declared in configs/auto.yaml. Each is trained with folds, so that every path that is
not tested is judged by members that have not seen it; they are compared by the cross-fitted
balanced accuracy on these paths, and the test paths are looked at once, by the one that was taken.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.files import claim_version, write_bytes, write_json
from lit_ios.found import found_options, found_settings, refuse_links, refuse_packages
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.program.jobs import remember_run
from lit_ios.recipe import Score, best_of, check_folds, check_stops, read_recipe, table
from lit_ios.settings import (
    Settings,
    gather_options,
    merge_settings,
    read_settings,
    with_absolute_file,
)
from lit_ios.small_files import read_small_json
from lit_ios.variants import settings_by_name

OWN_FILE = "auto.json"


def auto_run(args: list[str], default_config: Path, program: str = "lit-ios") -> AutoRun | None:
    """Return the run of the recipe that a command line asks for; None if it asks for another.

    One's own table is trained on by the recipe unless a model is given.

    Args:
        args: words of the command line.
        default_config: settings that everything starts from.
        program: as the user calls it.
    """
    resumed, words = gather_options(args, "--resume")
    if resumed:
        allow, words = gather_options(words, "--allow")
        if words != ["fit"]:
            raise UserError("--resume FOLDER goes with fit alone: the run's own settings are taken")
        return AutoRun.resumed(Path(resumed[0]), default_config, program, allow)
    models, words = gather_options(args, "--model")
    files, words = gather_options(words, "--config", "-c")
    allow, words = gather_options(words, "--allow")
    named, words = settings_by_name(words, "data")
    files = [*named, *files]
    if models != ["auto"] and not _own_table(args, files):
        if "--quick" in args:
            raise UserError("--quick goes with --model auto")
        return None
    if words[:1] != ["fit"]:
        raise UserError("--model auto goes with fit; other commands take RUN")
    if any(word.startswith("--ckpt_path") for word in words):
        raise UserError("auto trains from the beginning, or goes on with --resume FOLDER")
    if any(word.startswith("--data.init_args.seed") for word in words):
        raise UserError("data.init_args.seed follows --seed_everything: give that instead")
    options = [with_absolute_file(word) for word in words[1:] if word != "--quick"]
    found = [str(Path(file).absolute()) for file in files]
    return AutoRun(found, options, default_config, "--quick" in words, allow=allow, program=program)


def _own_table(args: list[str], files: list[str]) -> bool:
    """Say whether a user's own table is to be trained on without a word of how."""
    told = ("--model", "--ckpt_path", "--print_config", "--help", "-h")
    if args[:1] != ["fit"] or any(word.startswith(told) for word in args):
        return False
    settings = merge_settings(read_settings(file) for file in files)
    data = settings.get("data")
    named = data.get("class_path") if isinstance(data, dict) else None
    model = settings.get("model") or {}
    chosen = not isinstance(model, dict) or "class_path" in model
    return not chosen and named == "TableData"


class AutoRun:
    """One run of the recipe, from the command line.

    Args:
        files: settings files of the data and of the user.
        options: of the command line, without the command.
        default_config: settings that everything starts from.
        quick: train one candidate only.
        folder: of a run to go on with; None for a new one.
        allow: packages that classes may be imported from beside the trusted ones.
        program: as the user calls it.
    """

    def __init__(
        self,
        files: list[str],
        options: list[str],
        default_config: Path,
        quick: bool = False,
        folder: Path | None = None,
        allow: Sequence[str] = (),
        program: str = "lit-ios",
    ) -> None:
        self.files, self.options, self.default_config = files, options, default_config
        self.quick, self.folder, self.allow = quick, folder, list(allow)
        self.program, self._is_resumed = program, folder is not None
        self._made: list[Path] = []  # folders above the run's, the nearest first

    @classmethod
    def resumed(
        cls, folder: Path, default_config: Path, program: str, allow: Sequence[str] = ()
    ) -> AutoRun:
        """Go on with a run that was interrupted; the packages it may import are given again."""
        try:
            known = read_small_json(folder / OWN_FILE)
            files, options, asked = (_texts(known[name]) for name in ("files", "options", "allow"))
            quick = bool(known["quick"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"--resume: {folder} is not the folder of an auto run: give one"
            ) from None
        refuse_packages(f"the run in {folder}", asked, allow)
        refuse_links(folder)
        return cls(files, found_options(options), default_config, quick, folder, allow, program)

    def go(self) -> Any:
        """Train what is missing, take the best candidate and test it; return the test's CLI."""
        recipe = read_recipe()
        names = [recipe.quick] if self.quick else list(recipe.candidates)
        scores: dict[str, Score] = {}
        for number, name in enumerate(names, start=1):
            title = f"{number}/{len(names)} {name}"
            try:
                scores[name] = self._finished(name) or self._train(
                    name, recipe.candidates[name], title
                )
            except UserError:
                self._leave_nothing()
                raise
            except (SystemExit, KeyboardInterrupt):
                if self.folder is not None and (self.folder / OWN_FILE).is_file():
                    print(f"\nauto: go on with  {self.program} fit --resume {self.folder}")
                raise
        taken = best_of(scores)
        print(table(scores, taken))
        return self._take(taken, scores)

    def _leave_nothing(self) -> None:
        """Remove a folder in which nothing has happened but that the run was refused."""
        if self.folder is not None and [file.name for file in self.folder.iterdir()] == [OWN_FILE]:
            shutil.rmtree(self.folder)
            for folder in self._made:
                if not any(folder.iterdir()):
                    folder.rmdir()

    # One candidate -------------------------------------------------------------------------------

    def _finished(self, name: str) -> Score | None:
        if self.folder is None:
            return None
        try:
            known = read_small_json(self._own(name) / "candidate.json")
            found = (math.nan if known[field] is None else known[field] for field in Score._fields)
            return Score(*map(_number, found))
        except (OSError, ValueError, TypeError, LookupError):  # not there, not ours
            return _stopped_early(self._own(name) / "checkpoints")

    def _train(self, name: str, settings: Settings, title: str) -> Score:
        from lit_ios.cli import StoppingCLI
        from lit_ios.program.class_names import allow_imports
        from lit_ios.program.quiet import be_quiet

        run, start = self, time.perf_counter()

        class CandidateCLI(StoppingCLI):
            def run_folder(self) -> Path:
                run._open(self)
                return run._own(name)

            def instantiate_trainer(self, **kwargs: Any) -> Any:
                config = self._get(self.config_init, "trainer")
                callbacks = config.get("callbacks") or []
                run._check(self, name, settings, config, callbacks)
                kept = [c for c in callbacks if type(c).__name__ != "RunSummary"]
                for callback in kept:
                    if hasattr(callback, "label"):
                        callback.label = title
                config["callbacks"] = kept
                trainer = super().instantiate_trainer(**kwargs)
                if trainer.world_size > 1:
                    raise UserError(
                        "auto trains in one process: set --trainer.devices 1, or name a --model"
                    )
                return trainer

            def after_fit(self) -> None:
                """Leave the test to the candidate that is taken."""

            def go_on_with(self, last: Path) -> str:
                return ""  # the run as a whole says it

            @staticmethod
            def began(runs_dir: str, folder: Path) -> None:
                """Leave it to the run as a whole."""

        last = None if self.folder is None else self._own(name) / "checkpoints/last.ckpt"
        if last is not None and last.is_file():
            words = ["fit", "--ckpt_path", str(last), *self._allowed]
            cli = CandidateCLI.run(words, self.default_config)
        else:
            be_quiet()
            CandidateCLI.checkpoint = None
            allow_imports(self.allow)
            cli = CandidateCLI.carry_out(self._settings(settings), ["fit", *self.options])
        score = _score(cli, time.perf_counter() - start)
        write_json(self._own(name) / "candidate.json", score._asdict())
        return score

    def _settings(self, recipe: Settings) -> Settings:
        """Lay the user's files over the recipe, and add its callbacks that they do not bring."""
        trainer = dict(recipe["trainer"])
        added = trainer.pop("callbacks+", [])
        given = [self._read(Path(file)) for file in self.files]
        merged = merge_settings(
            [read_settings(self.default_config), recipe | {"trainer": trainer}, *given]
        )
        there = {callback["class_path"] for callback in merged["trainer"].get("callbacks") or []}
        missing = [callback for callback in added if callback["class_path"] not in there]
        return merge_settings([merged, {"trainer": {"callbacks+": missing}}])

    def _read(self, file: Path) -> Settings:
        """Read a file that the user gave, or that the folder of a run to go on with names."""
        return found_settings(file, self.allow) if self._is_resumed else read_settings(file)

    @property
    def _allowed(self) -> list[str]:
        return [f"--allow={package}" for package in self.allow]

    @staticmethod
    def _check(cli: Any, name: str, settings: Settings, trainer: Any, callbacks: list[Any]) -> None:
        """Refuse what the comparison of candidates cannot honour, before anything is trained."""
        model, data = cli.model, cli.datamodule
        if trainer.get("max_epochs") == 0:
            raise UserError("auto needs an epoch at least: set --trainer.max_epochs to 1 or more")
        own, rows = settings["model"]["init_args"], settings["data"]["init_args"]
        for what, given, chosen in (
            ("the model's class", type(model).__name__, settings["model"]["class_path"]),
            ("memory", model.hparams["memory"], own.get("memory", "none")),
            ("lags", data.lags, rows.get("lags", 0)),
        ):
            if given != chosen:
                raise UserError(
                    f"auto chooses {what} ({chosen} for the candidate {name}), got {given}: leave "
                    "it out, or name a --model"
                )
        check_folds(model, data, "auto", "compare candidates")
        if trainer.get("logger") not in (None, True):
            raise UserError("auto keeps its candidates in run folders: leave trainer.logger out")
        if not any(
            getattr(c, "monitor", None) and hasattr(c, "best_model_path") for c in callbacks
        ):
            raise UserError("auto needs the checkpoint of the best epoch: leave RunCheckpoint in")
        check_stops(data, "auto", ", or name a --model")

    def _own(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / "candidates" / name

    def _open(self, cli: Any) -> None:
        """Choose the run's folder, once it is known what the data are called; say how to go on."""
        if self.folder is None:
            place = Path(cli._get(cli.config, "runs_dir")) / cli.datamodule.name / "auto"
            self._made = [above for above in (place, *place.parents) if not above.exists()]
            self.folder = claim_version(place)
        known = {"files": self.files, "options": self.options, "quick": self.quick}
        write_json(self.folder / OWN_FILE, known | {"allow": self.allow})
        remember_run(cli._get(cli.config, "runs_dir"), self.folder)

    # The one that is taken -----------------------------------------------------------------------

    def _take(self, name: str, scores: dict[str, Score]) -> Any:
        """Put the candidate's settings and checkpoint on top, and test it."""
        from lit_ios.cli import StoppingCLI

        folder = self.folder
        assert folder is not None
        (folder / "checkpoints").mkdir(exist_ok=True)
        for file in ("config.yaml", "checkpoints/best.ckpt"):
            write_bytes(folder / file, (self._own(name) / file).read_bytes())

        class TestCLI(StoppingCLI):
            def run_folder(self) -> Path | None:
                self.save_config_callback = None  # the candidate's stays
                return folder

        words = ["test", "--ckpt_path", str(folder / "checkpoints/best.ckpt"), *self._allowed]
        cli = TestCLI.run(words, self.default_config)
        cli.compare_with_baseline()
        written = folder / "metrics.json"
        metrics = json.loads(written.read_text()) if written.is_file() else {}
        own = scores[name]
        metrics |= {
            "candidate": name,
            "val/balanced_accuracy": own.best,
            "val/cross_fitted_accuracy": own.cross_fitted,
            "best_epoch": own.epoch,
            "epochs": own.epochs,
            "candidates": {each: score._asdict() for each, score in scores.items()},
        }
        write_json(written, metrics)
        cli.write_report(folder / "checkpoints/best.ckpt")
        return cli


def _score(cli: Any, seconds: float) -> Score:
    """Return what the candidate that a command line trained came to."""
    from lit_ios.checkpoints import read_checkpoint

    best = cli.trainer.checkpoint_callback
    if best is None or best.best_model_score is None:
        raise UserError("auto needs the checkpoint of the best epoch: leave RunCheckpoint in place")
    kept = read_checkpoint(best.best_model_path)["epoch"]
    return Score(
        cross_fitted=honest_score(cli.model.choices),
        best=float(best.best_model_score),
        epoch=int(kept),
        epochs=cli.trainer.current_epoch,
        seconds=round(seconds, 2),
    )


def _stopped_early(checkpoints: Path) -> Score | None:
    """Return the score of a candidate whose training had ended by itself, but not its bookkeeping.

    To resume it would be to train an epoch too many.
    """
    from lit_ios.checkpoints import read_checkpoint

    if not (checkpoints / "last.ckpt").is_file():
        return None
    last = read_checkpoint(checkpoints / "last.ckpt")
    try:
        states = last["callbacks"].values()
        ended = any(s.get("wait_count", 0) >= s.get("patience", math.inf) for s in states)
        best = next((s["best_model_score"] for s in states if s.get("monitor")), None)
        if not ended or best is None:
            return None
        return Score(
            cross_fitted=honest_score(last["lit_ios"]["choices"]),
            best=float(best),
            epoch=int(read_checkpoint(checkpoints / "best.ckpt")["epoch"]),
            epochs=int(last["epoch"]) + 1,
            seconds=0.0,  # not known
        )
    except UserError:
        raise
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
        raise UserError(
            f"{checkpoints / 'last.ckpt'} is damaged: remove the folder {checkpoints.parent} to "
            "train this candidate again"
        ) from None


def _texts(found: Any) -> list[str]:
    """Return a list of texts out of a file; anything else is an error."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise TypeError
    return found


def _number(found: Any) -> Any:
    """Return a number out of a file; anything else is an error."""
    if isinstance(found, bool) or not isinstance(found, int | float) or abs(found) > 1e15:
        raise TypeError
    return found
