"""What a study is of: kept in its folder, so that any process can take part.

<study>/settings.yaml   what trials are laid over
<study>/space.yaml      what is searched
<study>/tune.json       the command line's options, and what the data were
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lit_ios.checks import UserError
from lit_ios.files import claim_version, lock_of, write_json, write_text
from lit_ios.found import (
    files_read,
    found_options,
    found_settings,
    refuse_links,
    refuse_packages,
)
from lit_ios.program.mistakes import arguments_of
from lit_ios.recipe import check_folds, check_stops, read_recipe
from lit_ios.settings import Settings, file_of, merge_settings, read_settings
from lit_ios.small_files import read_small, read_small_json
from lit_ios.tune.space import SCHEDULED, Knob, read_space
from lit_ios.tune.stacked import check_knobs, check_stackable
from lit_ios.tune.study import Study
from lit_ios.tune.trials import Trainee, epsilon_decay
from lit_ios.variants import configs_folder

OWN_FILE, SETTINGS, SPACE = "tune.json", "settings.yaml", "space.yaml"


class Plan(NamedTuple):
    """What a study is of."""

    settings: Settings
    options: list[str]  # of the command line; they win over the settings
    space: Path
    shipped: bool  # whether the space is the one that comes with the program
    allow: list[str]
    prune: bool
    stacked: int  # settings that are trained side by side

    @property
    def trainee(self) -> Trainee:
        """The settings, before it is known what is searched."""
        return Trainee(self.settings, self.options, (), self.allow)

    def identity(self) -> dict[str, Any]:
        """Return what tells studies apart."""
        own = [self.settings, self.options, self.prune, self.stacked]
        text = json.dumps(own, sort_keys=True, default=str)
        return {
            "digest": _digest(text),
            "space": _digest(self.space.read_text(encoding="utf-8")),
            "data": _stamps(self.settings, self.options),
        }


class Prepared(NamedTuple):
    """What is searched, for data that were looked at."""

    knobs: list[Knob]
    defaults: dict[str, Any]
    seed: int
    data_name: str
    runs_dir: Path


def tuned_settings(default: Path, files: Sequence[Path], options: Sequence[str]) -> Settings:
    """Lay settings over one another, and add what trials need: folds, and an end.

    Without a model, it is the candidate that `--model auto --quick` trains.
    """
    recipe = read_recipe()
    own = recipe.candidates[recipe.quick]
    trainer = dict(own["trainer"])
    added = trainer.pop("callbacks+", [])
    given = [read_settings(file) for file in files]
    merged = merge_settings(given)
    layers: list[Settings] = [read_settings(default), {"trainer": trainer}]
    if "class_path" not in (merged.get("model") or {}):
        layers.append({name: own[name] for name in ("model", "data")})
    merged = merge_settings([*layers, *given])
    model, data = (_arguments(merged, role) for role in ("model", "data"))
    _refuse_synthetic(str(data.get("oversampling", "none")), options)
    model.setdefault("margin", "validated")
    data["folds"] = data.get("folds") or own["data"]["init_args"]["folds"]
    if model.get("members", 1) < 2:
        model["members"] = own["model"]["init_args"]["members"]
    there = {callback["class_path"] for callback in merged["trainer"].get("callbacks") or []}
    missing = [callback for callback in added if callback["class_path"] not in there]
    return merge_settings([merged, {"trainer": {"callbacks+": missing}}])


def _arguments(settings: Settings, role: str) -> Settings:
    settings[role] = dict(settings[role])
    settings[role]["init_args"] = dict(settings[role].get("init_args") or {})
    arguments: Settings = settings[role]["init_args"]
    return arguments


def _refuse_synthetic(oversampling: str, options: Sequence[str]) -> None:
    """Refuse rows made of the stops of all folds."""
    given = [word.partition("=")[2] for word in options if ".oversampling=" in word]
    chosen = given[-1] if given else oversampling
    if chosen not in ("none", "bootstrap"):
        raise UserError(
            f"oversampling: {chosen} makes rows of the stops of all folds, so that a trial would "
            "be scored on what it was trained on: tune a method without it (iqs, do_iqs_lb, "
            "model_based_iqs, …), or set --data.init_args.oversampling bootstrap"
        )


def look(plan: Plan, *, checks: bool = True) -> Prepared:
    """Read the space; with checks, also the data, and refuse what trials cannot honour."""
    cli = plan.trainee.probe({}, reads=checks)
    if checks:
        check_folds(cli.model, cli.datamodule, "tune", "score trials")
        cli.datamodule.held_out(cli.model.members)  # refuses members that folds do not divide
        check_stops(cli.datamodule, "tune")
    kinds = arguments_of(type(cli.model)), arguments_of(type(cli.datamodule))
    knobs = read_space(plan.space, *kinds, plan.shipped)
    if plan.stacked > 1 and checks:
        check_knobs(knobs)
        check_stackable(cli.model, cli.datamodule, cli.trainer.callbacks)
    trainee = Trainee(plan.settings, plan.options, knobs, plan.allow)
    for knob in knobs if checks else ():
        for value in knob.edges:
            _try(trainee, knob, value)
    defaults = {knob.name: _default(cli, knob) for knob in knobs}
    seed = int(cli._get(cli.config, "seed_everything") or 0)
    runs_dir = Path(cli._get(cli.config, "runs_dir"))
    return Prepared(knobs, defaults, seed, cli.datamodule.name, runs_dir)


def _try(trainee: Trainee, knob: Knob, value: Any) -> None:
    """Refuse a value that model or data refuse."""
    if knob.key == SCHEDULED and not 0 < value <= 1:
        raise UserError(f"--space: {knob.name} must lie in (0, 1], got {value}")
    try:
        cli = trainee.probe({knob.name: value})
        if cli.model.members % cli.datamodule.folds:
            raise UserError(f"the {cli.datamodule.folds} folds must divide the members")
    except UserError as error:
        raise UserError(f"--space: {knob.name} {value}: {error}") from None


def _default(cli: Any, knob: Knob) -> Any:
    """Return the value of a setting where nothing is searched."""
    if knob.key == SCHEDULED:
        return epsilon_decay(cli.trainer)
    found = cli.config[cli.subcommand]
    for word in knob.key.split("."):
        found = found[word]
    return found.as_dict() if hasattr(found, "as_dict") else found


def open_study(plan: Plan, prepared: Prepared) -> tuple[Path, bool]:
    """Return the folder of this study, and whether it was there: one command is one study."""
    place = prepared.runs_dir / prepared.data_name / "tune"
    place.mkdir(parents=True, exist_ok=True)
    turn = place / ".lock"
    turn.touch()
    own = plan.identity()
    with lock_of(turn, wait=True):
        for file in sorted(place.glob(f"version_*/{OWN_FILE}")):
            known = json.loads(file.read_text())
            if {name: known.get(name) for name in own} == own:
                return file.parent, True
        folder = claim_version(place)
        write_text(folder / SETTINGS, yaml.safe_dump(plan.settings, sort_keys=False))
        write_text(folder / SPACE, plan.space.read_text(encoding="utf-8"))
        about = {"options": plan.options, "shipped": plan.shipped, "allow": plan.allow}
        how = {"prune": plan.prune, "stacked": plan.stacked}
        write_json(folder / OWN_FILE, own | about | how)
    return folder, False


def read_plan(folder: Path, allow: Sequence[str], *, found: bool) -> Plan:
    """Return what the study in a folder is of.

    Args:
        folder: of the study.
        allow: packages that it may import classes from.
        found: whether the folder may come from a stranger.
    """
    try:
        known = read_small_json(folder / OWN_FILE)
        options, asked = known["options"], known["allow"]
        texts = [*options, *asked]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        shipped, prune, data = bool(known["shipped"]), bool(known["prune"]), known["data"]
        stacked, space = int(known["stacked"]), known["space"]
        text = read_small(folder / SPACE).decode()
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"--resume: {folder} is not the folder of a study: give one") from None
    refuse_packages(f"the study in {folder}", asked, allow)
    if found:
        refuse_links(folder)
        options = found_options(options)
    file = folder / SETTINGS
    settings = found_settings(file, allow) if found else read_settings(file)
    if _digest(text) != space:
        raise UserError(f"--resume: {folder / SPACE} has changed: begin a new study with it")
    if _stamps(settings, options) != data:
        raise UserError(f"--resume: the data of {folder} have changed since: begin a new study")
    return Plan(settings, list(options), folder / SPACE, shipped, list(allow), prune, stacked)


def study_of(folder: Path, plan: Plan, prepared: Prepared) -> Study:
    """Open the trials of a study."""
    return Study(folder, prepared.knobs, prepared.defaults, prepared.seed, plan.prune)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _stamps(settings: Settings, options: Iterable[str]) -> list[Any]:
    """Return names, sizes and times of the files that data are read from."""
    files = files_read(settings)
    files += [named for word in options if (named := file_of(word)) is not None]
    stamps = []
    for file in map(Path, files):
        for one in sorted(file.rglob("*")) if file.is_dir() else [file]:
            if one.is_file():
                about = one.stat()
                stamps.append([str(one), about.st_size, about.st_mtime_ns])
    return stamps


def default_space() -> Path:
    """Return what is searched where no space is given."""
    return configs_folder() / "space.yaml"


def remember_trials(folder: Path, asked: int | None, otherwise: int) -> int:
    """Return how many trials a study is to have: as asked for now, or else before.

    Args:
        folder: of the study.
        asked: now; None where that is not said.
        otherwise: where it never was.
    """
    known = read_small_json(folder / OWN_FILE)
    before = known.get("trials")
    trials = asked or (before if isinstance(before, int) and before > 0 else otherwise)
    if trials != before:
        write_json(folder / OWN_FILE, known | {"trials": trials})
    return trials
