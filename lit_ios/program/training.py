"""The commands that need Lightning: fit, validate, test, predict on a run's own paths."""

from __future__ import annotations

from typing import Any

from lit_ios.checks import UserError
from lit_ios.program.jobs import go_on
from lit_ios.program.on_ray import fit_on_ray, take_place
from lit_ios.program.packages import check_packages
from lit_ios.program.words import translate
from lit_ios.variants import configs_folder


def train(words: list[str], program: str) -> Any:
    """Carry out a command; return the LightningCLI that did it.

    Args:
        words: of the command line, the command first.
        program: as the user calls it.
    """
    place, words = take_place(words)
    written_out = translate(words)
    if place is not None:
        from lit_ios.auto import auto_run

        written_out = go_on(written_out)
        if auto_run(written_out, configs_folder() / "default.yaml", program) is not None:
            raise UserError("auto trains in one process: name a --model, or leave --on ray out")
        fit_on_ray(written_out, place, program)
        return None
    return carry_out(written_out, program)


def carry_out(words: list[str], program: str) -> Any:
    """Carry out a command in this process; return the LightningCLI that did it.

    Args:
        words: of the command line, written out.
        program: as the user calls it.
    """
    check_packages()
    # heavy imports; the packages make class names known
    import callbacks  # noqa: F401
    import datamodules  # noqa: F401
    from lit_ios.auto import auto_run
    from lit_ios.cli import StoppingCLI

    default = configs_folder() / "default.yaml"
    if "--help-all" in words:
        return StoppingCLI.run([words[0], "--help"], default)
    StoppingCLI.program = program
    words = go_on(words)
    recipe = auto_run(words, default, program)
    return StoppingCLI.run(words, default) if recipe is None else recipe.go()
