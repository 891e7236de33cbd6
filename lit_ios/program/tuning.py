"""`lit-ios tune`: its own options, and those of fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.program.packages import check_packages
from lit_ios.program.words import translate
from lit_ios.settings import gather_options, with_absolute_file
from lit_ios.variants import configs_folder, settings_by_name

VALUED = (
    "--space", "--trials", "--stacked", "--processes", "--on", "--address", "--resume", "--allow",
)  # fmt: skip
FLAGS = ("--no-pruning",)
TRIALS = 100


def tune(words: list[str], program: str) -> Any:
    """Carry out a study; return the CLI that tested the best.

    Args:
        words: of the command line, the command first.
        program: as the user calls it.
    """
    own, others = own_options(words[1:])
    resumed = own.get("--resume")
    if resumed is not None and others:
        raise UserError("tune --resume FOLDER goes on with its own settings: leave others out")
    for option in ("--space", "--stacked", "--no-pruning"):
        if resumed is not None and option in words:
            raise UserError(f"tune --resume FOLDER goes on with its own: leave {option} out")
    written_out = translate(["fit", *others], (*VALUED, *FLAGS))
    check_packages()
    import callbacks  # noqa: F401 (heavy imports; the packages make class names known)
    import datamodules  # noqa: F401
    from lit_ios.program.class_names import allow_imports
    from lit_ios.scale import Place
    from lit_ios.tune.plan import (
        Plan,
        default_space,
        look,
        open_study,
        read_plan,
        remember_trials,
        tuned_settings,
    )
    from lit_ios.tune.run import TuneRun
    from lit_ios.tune.study import import_optuna

    place = Place(own.get("--on", "processes"), _count(own, "--processes", 1), own.get("--address"))
    place.check()
    asked = None if "--trials" not in own else _count(own, "--trials", TRIALS)
    import_optuna()
    allow = own["allow"]
    allow_imports(allow)
    if resumed is not None:
        folder = Path(resumed)
        plan = read_plan(folder, allow, found=True)
        prepared = look(plan)
    else:
        files, options = _settings(written_out[1:])
        space = own.get("--space")
        plan = Plan(
            tuned_settings(configs_folder() / "default.yaml", files, options), options,
            default_space() if space is None else Path(space), space is None, allow,
            "--no-pruning" not in words, _count(own, "--stacked", 1),
        )  # fmt: skip
        prepared = look(plan)
        folder, there = open_study(plan, prepared)
        if there:
            print(f"tune: joins the study in {folder}")
    trials = remember_trials(folder, asked, TRIALS)
    return TuneRun(folder, plan, prepared, trials, place, resumed is not None, program).go()


def own_options(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Take the options of tune out of a command line: (values by name, others)."""
    own: dict[str, Any] = {}
    allow, others = gather_options(words, "--allow")
    for name in VALUED[:-1]:
        given, others = gather_options(others, name)
        if given and not given[-1]:
            raise UserError(f"{name} needs a value: {name} VALUE")
        own |= {name: given[-1]} if given else {}
    return own | {"allow": allow}, [word for word in others if word not in FLAGS]


def _settings(words: list[str]) -> tuple[list[Path], list[str]]:
    """Tell settings files and options apart."""
    models, _ = gather_options(words, "--model")
    if "auto" in models:
        raise UserError("auto chooses among candidates of its own: tune one --model, or leave it")
    files, words = gather_options(words, "--config", "-c")
    found: list[str] = []
    for role in ("data", "model"):
        named, words = settings_by_name(words, role)
        found += named
    for word in words:
        for option, why in (
            ("--ckpt_path", "trials begin anew"),
            ("--quick", "it goes with --model auto"),
            ("--data.init_args.seed", "it follows --seed_everything"),
            ("--trainer.logger", "trials keep no logs"),
            ("--print_config", "fit --print_config shows settings"),
        ):
            if word.partition("=")[0] == option:
                raise UserError(f"tune takes no {option}: {why}")
    return [Path(file) for file in [*found, *files]], [with_absolute_file(word) for word in words]


def _count(own: dict[str, Any], name: str, default: int) -> int:
    given = own.get(name, str(default))
    if not given.isdecimal() or int(given) < 1:
        raise UserError(f"{name} must be a positive integer, got {given}")
    return int(given)
