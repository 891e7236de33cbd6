"""Tasks that other processes import."""

import os
import signal
from pathlib import Path

from lit_ios.checks import UserError


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
