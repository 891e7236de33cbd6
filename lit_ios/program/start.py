"""Where a command line begins: help at once, then the command."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from lit_ios import __version__
from lit_ios.checks import UserError, nearest
from lit_ios.program.short import as_options
from lit_ios.program.terminal import plain, plain_output
from lit_ios.program.usage import TRAINING, USES, help_of, usage

COMMANDS = (*TRAINING, *USES)


def main(args: list[str] | None = None, program: str = "lit-ios") -> int:
    """Carry out a command line; return 0, or 1 after a sentence that says why it cannot be."""
    warnings.showwarning = show_warning  # type: ignore[assignment]
    words = sys.argv[1:] if args is None else list(args)
    with plain_output():
        try:
            run(words, program)
        except UserError as error:
            print(error_line(error), file=sys.stderr)
            return 1
        except UnicodeEncodeError as error:
            if not _is_name(error):
                raise
            name = f"{plain(error.object):.200}"
            print(f"error: the name {name} is not valid UTF-8: rename it", file=sys.stderr)
            return 1
    return 0


def look_here_last(words: list[str]) -> None:
    """Look for the user's own packages in the current folder, after all others, if any is allowed.

    Python does so by itself for `python train.py`, but not for the command `lit-ios`.
    """
    here, allowed = os.getcwd(), any(word.startswith("--allow") for word in words)
    known = {os.path.abspath(folder) for folder in sys.path}
    if allowed and here not in known and not sys.flags.safe_path:
        sys.path.append(here)


def _is_name(error: UnicodeEncodeError) -> bool:
    """Say whether the text that cannot be written is the name of a file, as the system gave it."""
    return any("\udc80" <= letter <= "\udcff" for letter in error.object)


def error_line(error: UserError) -> str:
    """Return what the program says of an error."""
    return f"error: {_one_line(as_options(str(error)))}"


def _one_line(text: str) -> str:
    """Return a text in one line: a name with a line break cannot look like an error of ours."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def run(words: list[str], program: str = "lit-ios") -> Any:
    """Carry out a command line.

    Returns the LightningCLI where one was needed, else None.

    Args:
        words: of the command line, the command first.
        program: as the user calls it, for help and messages.
    """
    if not words or words[0] in ("-h", "--help"):
        print(usage(program), end="")
        return None
    if words[0] == "--version":
        print(f"lit-ios {__version__}")
        return None
    look_here_last(words)
    command = words[0]
    if command not in COMMANDS:
        raise UserError(_no_command(command, program))
    if {"-h", "--help"} & set(words[1:]):
        print(help_of(command, program), end="")
        return None
    if command in USES and not (command == "predict" and _own_test_paths(words)):
        _use(words)
        return None
    if command == "tune":
        from lit_ios.program.tuning import tune

        return tune(words, program)
    from lit_ios.program.training import train

    return train(words, program)


def _no_command(word: str, program: str) -> str:
    if word.startswith("-"):
        return f"the first word must be one of {', '.join(COMMANDS)}, got {word}"
    near = nearest(word, COMMANDS)
    advice = f"did you mean {near}?" if near else f"{program} --help lists them"
    return f"there is no command {word!r}; {advice}"


def _own_test_paths(words: list[str]) -> bool:
    """Say whether `predict` is to decide on its run's own paths, or on a file only they can read.

    A table needs the policy alone, which starts faster.
    """
    from lit_ios.program.words import is_table, predicted_file

    file, dotted = predicted_file(words)
    return dotted or file is None or not is_table(file)


def _use(words: list[str]) -> None:
    from lit_ios.program.uses import use

    try:
        use(words)
    except OSError as error:
        raise UserError(str(error)) from None


def show_warning(message: Warning | str, category: type[Warning], *args: Any) -> None:
    """Say what looks odd in one line, once, below a progress bar if there is one."""
    text = f"note: {_one_line(as_options(str(message)))}"
    if text not in _said and not issubclass(category, DeprecationWarning):  # nobody's but ours
        _said.add(text)
        print(text, file=sys.stderr)


_said: set[str] = set()
