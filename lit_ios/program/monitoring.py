"""What the shell does with finished paths of a rule in use."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.files import write_figure, write_json
from lit_ios.policy import StoppingPolicy
from lit_ios.program.places import find_checkpoint
from lit_ios.program.uses import roles_of


def monitor(options: Namespace) -> None:
    """Add the finished paths of a table, in its order, and say whether they look as before."""
    if options.state is not None and not options.state.parent.is_dir():
        raise UserError(f"--state: there is no folder {options.state.parent}: make it first")
    checkpoint = _calibrated(options.run)
    policy = StoppingPolicy.load(checkpoint, options.allow)
    watch = policy.monitor(_read(options.state), alarm_probability=options.alarm_probability)
    before = len(watch)
    added = watch.add_paths(
        options.data, allow_known_paths=options.allow_known_paths, **roles_of(options)
    )
    print(f"rule    {checkpoint}")
    print(f"{added} paths of {options.data} added, in its order, to {before} before them")
    print(watch.report())
    if options.state is not None:
        write_json(options.state, watch.state())
        print(f"state   {options.state}")
    if options.output is not None:
        write_figure(options.output, watch.figure())
        print(f"figure  {options.output}")
    if options.fail_on_alarm and (watch.alarm or watch.broken):
        raise UserError("the monitor raises an alarm: see the report")


def _calibrated(run: str) -> Path:
    """Return the checkpoint given, or of a run folder what `calibrate` wrote there if it did."""
    checkpoint = find_checkpoint(run)
    beside = checkpoint.with_name("calibrated.ckpt")
    return beside if Path(run).is_dir() and beside.is_file() else checkpoint


def _read(file: Path | None) -> Any:
    if file is None or not file.exists():
        return None
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"--state: {file} cannot be read: {error}") from None
