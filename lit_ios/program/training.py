"""The commands that need Lightning: fit, validate, test, predict on a run's own paths."""

from __future__ import annotations

from typing import Any

from lit_ios.program.jobs import go_on
from lit_ios.program.packages import check_packages
from lit_ios.program.words import translate
from lit_ios.variants import configs_folder


def train(words: list[str], program: str) -> Any:
    """Carry out a command; return the LightningCLI that did it.

    Args:
        words: of the command line, the command first.
        program: as the user calls it.
    """
    written_out = translate(words)
    check_packages()
    # heavy imports; the packages make class names known
    import callbacks  # noqa: F401
    import datamodules  # noqa: F401
    from lit_ios.auto import auto_run
    from lit_ios.cli import StoppingCLI

    default = configs_folder() / "default.yaml"
    if "--help-all" in written_out:
        return StoppingCLI.run([words[0], "--help"], default)
    StoppingCLI.program = program
    written_out = go_on(written_out)
    recipe = auto_run(written_out, default, program)
    return StoppingCLI.run(written_out, default) if recipe is None else recipe.go()
