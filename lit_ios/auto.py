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
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from lit_ios.checks import UserError
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.settings import Settings, gather_options, merge_settings, read_settings
from lit_ios.trajectories import BoolArray
from lit_ios.variants import configs_folder, settings_by_name


class Recipe(NamedTuple):
    """What configs/auto.yaml declares."""

    candidates: dict[str, Settings]  # settings of each, in the order they are trained
    quick: str  # the one that is trained alone where time is short


class Score(NamedTuple):
    """What a candidate came to on the paths its members left out."""

    cross_fitted: float  # balanced accuracy; epoch and threshold chosen on other paths
    best: float  # the same, chosen on the same paths
    epoch: int  # that was kept
    epochs: int  # that were trained
    seconds: float


def read_recipe() -> Recipe:
    """Read the candidates."""
    given = read_settings(configs_folder() / "auto.yaml")
    own = {
        name: merge_settings([given["common"], settings or {}])
        for name, settings in given["candidates"].items()
    }
    return Recipe(own, given["quick"])


def folds_for(stopped: BoolArray) -> int:
    """Return how many folds paths are dealt out into: at least two stopped paths in each."""
    stops = int(stopped.sum())
    if stops < 4:
        raise UserError(
            f"auto compares candidates on paths left out and needs at least 4 stopped paths, got "
            f"{stops}; give more, or choose a variant"
        )
    return 4 if stops >= 8 else 2


def best_of(scores: dict[str, Score]) -> str:
    """Return the candidate of the highest cross-fitted accuracy; of equals, the first."""
    return max(scores, key=lambda name: scores[name].cross_fitted)


def table(scores: dict[str, Score], taken: str) -> str:
    """Return what the candidates came to, as lines of text."""
    width = max(len(name) for name in scores)
    head = f"  {'candidate':<{width + 2}}  held-out balanced accuracy   best epoch   seconds"
    lines = [
        f"  {name:<{width + 2}}  {score.cross_fitted:26.4f}   "
        f"{score.epoch:>5} of {score.epochs:<4}{score.seconds:8.0f}"
        + ("   <- taken" if name == taken else "")
        for name, score in scores.items()
    ]
    return "\n".join(["", head, *lines, ""])


def auto_run(args: list[str], default_config: Path) -> AutoRun | None:
    """Return the run of the recipe that a command line asks for; None if it asks for another.

    One's own table is trained on by the recipe unless a model is given.

    Args:
        args: words of the command line.
        default_config: settings that everything starts from.
    """
    resumed, words = gather_options(args, "--resume")
    if resumed:
        if words != ["fit"]:
            raise UserError("--resume FOLDER goes with fit alone: the run's own settings are taken")
        return AutoRun.resumed(Path(resumed[0]), default_config)
    models, words = gather_options(args, "--model")
    files, words = gather_options(words, "--config", "-c")
    named, words = settings_by_name(words, "data")
    files += named
    if models != ["auto"] and not _own_table(args, files):
        if "--quick" in args:
            raise UserError("--quick goes with --model auto")
        return None
    if words[:1] != ["fit"]:
        raise UserError("--model auto goes with fit; other commands take --ckpt_path FILE")
    options = [word for word in words[1:] if word != "--quick"]
    return AutoRun(files, options, default_config, "--quick" in words)


def _own_table(args: list[str], files: list[str]) -> bool:
    """Say whether a user's own table is to be trained on without a word of how."""
    told = ("--model", "--ckpt_path", "--print_config", "--help", "-h")
    if args[:1] != ["fit"] or any(word.startswith(told) for word in args):
        return False
    settings = merge_settings(read_settings(file) for file in files)
    return "model" not in settings and (settings.get("data") or {}).get("class_path") == "TableData"


class AutoRun:
    """One run of the recipe, from the command line.

    Args:
        files: settings files of the data and of the user.
        options: of the command line, without the command.
        default_config: settings that everything starts from.
        quick: train one candidate only.
        folder: of a run to go on with; None for a new one.
    """

    def __init__(
        self,
        files: list[str],
        options: list[str],
        default_config: Path,
        quick: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.files, self.options, self.default_config = files, options, default_config
        self.quick, self.folder = quick, folder

    @classmethod
    def resumed(cls, folder: Path, default_config: Path) -> AutoRun:
        """Go on with a run that was interrupted."""
        try:
            known = json.loads((folder / "auto.json").read_text())
            given = known["files"], known["options"], default_config, known["quick"], folder
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"--resume: {folder} is not the folder of an auto run") from None
        return cls(*given)

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
            except (SystemExit, KeyboardInterrupt):
                if self.folder is not None and (self.folder / "auto.json").is_file():
                    print(f"\nauto: go on with  python train.py fit --resume {self.folder}")
                raise
        taken = best_of(scores)
        print(table(scores, taken))
        return self._take(taken, scores)

    # One candidate -------------------------------------------------------------------------------

    def _finished(self, name: str) -> Score | None:
        file = None if self.folder is None else self._own(name) / "candidate.json"
        if file is None or not file.is_file():
            return None
        return Score(**json.loads(file.read_text()))

    def _train(self, name: str, settings: Settings, title: str) -> Score:
        from lit_ios.cli import StoppingCLI, be_quiet

        run, start = self, time.perf_counter()

        class CandidateCLI(StoppingCLI):
            def run_folder(self) -> Path:
                run._open(self)
                return run._own(name)

            def instantiate_trainer(self, **kwargs: Any) -> Any:
                config = self._get(self.config_init, "trainer")
                kept = [c for c in config["callbacks"] if type(c).__name__ != "RunSummary"]
                for callback in kept:
                    if hasattr(callback, "label"):
                        callback.label = title
                config["callbacks"] = kept
                trainer = super().instantiate_trainer(**kwargs)
                if trainer.world_size > 1:
                    raise UserError("auto trains in one process: set --trainer.devices 1")
                return trainer

            def after_fit(self) -> None:
                """Leave the test to the candidate that is taken."""

        last = None if self.folder is None else self._own(name) / "checkpoints/last.ckpt"
        if last is not None and last.is_file():
            cli = CandidateCLI.run(["fit", "--ckpt_path", str(last)], self.default_config)
        else:
            be_quiet()
            CandidateCLI.checkpoint = None
            layers = [read_settings(file) for file in (str(self.default_config), *self.files)]
            cli = CandidateCLI.carry_out(
                merge_settings([*layers, settings]), ["fit", *self.options]
            )
        score = _score(cli, time.perf_counter() - start)
        text = json.dumps(score._asdict(), indent=2)
        (self._own(name) / "candidate.json").write_text(text + "\n")
        return score

    def _own(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / "candidates" / name

    def _open(self, cli: Any) -> None:
        """Choose the run's folder, once it is known what the data are called; say how to go on."""
        if self.folder is None:
            place = Path(cli._get(cli.config, "runs_dir")) / cli.datamodule.name / "auto"
            taken = [int(f.name[8:]) for f in place.glob("version_*") if f.name[8:].isdigit()]
            self.folder = place / f"version_{max(taken, default=-1) + 1}"
        self.folder.mkdir(parents=True, exist_ok=True)
        known = {"files": self.files, "options": self.options, "quick": self.quick}
        (self.folder / "auto.json").write_text(json.dumps(known, indent=2) + "\n")

    # The one that is taken -----------------------------------------------------------------------

    def _take(self, name: str, scores: dict[str, Score]) -> Any:
        """Put the candidate's settings and checkpoint on top, and test it."""
        from lit_ios.cli import StoppingCLI

        folder = self.folder
        assert folder is not None
        (folder / "checkpoints").mkdir(exist_ok=True)
        for file in ("config.yaml", "checkpoints/best.ckpt"):
            shutil.copyfile(self._own(name) / file, folder / file)

        class TestCLI(StoppingCLI):
            def run_folder(self) -> Path | None:
                self.save_config_callback = None  # the candidate's stays
                return folder

        words = ["test", "--ckpt_path", str(folder / "checkpoints/best.ckpt")]
        cli = TestCLI.run(words, self.default_config)
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
        written.write_text(json.dumps(metrics, indent=2) + "\n")
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
        epochs=len(cli.model.choices),
        seconds=round(seconds, 2),
    )
