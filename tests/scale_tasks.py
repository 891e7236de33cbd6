"""Tasks that other processes import."""

import os
import signal
from pathlib import Path

from lit_ios.checks import UserError
from lit_ios.scale import folders


def square(number):
    return number * number


def killed_once(task):
    """Add a line to a file, but be killed at the first attempt of one task."""
    number, folder = task
    marker = Path(folder, "killed")
    if number == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, f"done{number}").touch()
    return number


def always_killed(number):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number):
    raise UserError(f"task {number} cannot be done: give another")


def killed_while_writing(task):
    """Decide on a file of a folder, but be killed in the middle of the first writing of one."""
    marker = Path(task.output, "killed")
    if "second" in task.source and not marker.exists():
        marker.touch()
        folders.pa_parquet.write_table = _write_half
    return folders.decide_file(task)


def _write_half(table, stream):
    stream.write(b"PAR1" + bytes(100))
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
