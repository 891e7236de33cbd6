"""The program: `lit-ios COMMAND …`, which `python train.py COMMAND …` and `-m lit_ios` are too."""

from lit_ios.program.start import main, run

__all__ = ["main", "run"]
