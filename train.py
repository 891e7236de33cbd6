"""Train, test and use models of when to stop: `python train.py --help`. The same as `lit-ios`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lit_ios.checks import UserError
from lit_ios.program import main as shell
from lit_ios.program import run
from lit_ios.program.start import error_line

if TYPE_CHECKING:
    from pytorch_lightning.cli import LightningCLI


def main(args: list[str] | None = None) -> LightningCLI | None:
    """Run the command line `args` (default: the program's).

    Returns the CLI that trained or measured; None for other commands.
    """
    words = sys.argv[1:] if args is None else list(args)
    try:
        cli: LightningCLI | None = run(words, "python train.py")
        return cli
    except UserError as error:
        raise SystemExit(error_line(error)) from None


if __name__ == "__main__":
    raise SystemExit(shell(program="python train.py"))
