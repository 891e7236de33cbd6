"""The commands that need no Lightning: what is done with a table, a policy, a folder of runs."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.program.parsers import parser_of
from lit_ios.program.short import SHORT

ENDINGS = {
    "frontier": (".png", ".pdf", ".svg"),
    "explain": (".png", ".pdf", ".svg"),
    "monitor": (".png", ".pdf", ".svg"),
    "predict": (".csv", ".parquet"),
    "report": (".html",),
}


def use(words: list[str]) -> None:
    """Carry out a command.

    Args:
        words: of the command line, the command first.
    """
    command = words[0]
    options = parser_of(command).read(words[1:])
    if command not in ("inspect", "runs", "frontier", "report"):
        _take_run(options, command)
    if command not in ("export", "runs", "serve"):
        _take_file(options, command)
    folder = command == "predict" and Path(options.data or "").is_dir() and options.data
    if not (folder and options.output.suffix == ""):  # decisions go to a folder of their own
        _check_output(getattr(options, "output", None), ENDINGS.get(command, ()))
    if command == "runs":
        from lit_ios.program.runs import list_runs

        list_runs(options)
    elif command == "serve":
        from lit_ios.program.serving import serve_run

        serve_run(options)
    elif command == "inspect":
        from lit_ios.inspect import inspect_table

        inspect_table(options.data, roles_of(options), options.figure)
    else:
        from lit_ios.program import policies

        policies.COMMANDS[command](options)


def roles_of(options: Namespace) -> dict[str, Any]:
    """Return what was said of the table, as arguments of TableRoles."""
    given = {short.argument: getattr(options, short.argument, None) for short in SHORT}
    return {name: value for name, value in given.items() if value is not None}


def _take_run(options: Namespace, command: str) -> None:
    """Let `--ckpt_path RUN` be another way to say RUN."""
    if options.ckpt_path is not None:
        after = "out" if command == "export" else "file"
        if getattr(options, after, "") is None:  # the first word is not the run
            setattr(options, after, options.run)
        elif options.run is not None:
            raise UserError("the run is given twice: leave --ckpt_path out")
        options.run = options.ckpt_path
    if options.run is None:
        raise UserError(f"{command} needs a run: {command} RUN, a run folder or a checkpoint")
    if command == "export" and options.out is None:
        raise UserError("export needs a file to write: export RUN policy.onnx, or .pt2")


def _take_file(options: Namespace, command: str) -> None:
    """Let the word FILE and `--data FILE` be the same."""
    file = getattr(options, "file", None)
    if file is not None and options.data is not None:
        raise UserError("the table is given twice: leave --data out")
    options.data = file if options.data is None else options.data
    if command == "inspect" and options.data is None:
        raise UserError("inspect needs a table: inspect FILE --path COLUMN --time COLUMN")
    if command == "monitor" and options.data is None:
        raise UserError("monitor needs a table of finished paths: monitor RUN FILE")
    if options.data is not None and not Path(options.data).exists():
        raise UserError(f"there is no file {options.data}: give the place of your table")


def _check_output(file: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if file is None:
        return
    if endings and file.suffix not in endings:
        raise UserError(f"--output must end in {' or '.join(endings)}, got {file}")
    if not file.parent.is_dir():
        raise UserError(f"--output: there is no folder {file.parent}: make it first")
