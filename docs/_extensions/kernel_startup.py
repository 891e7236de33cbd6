"""Runs in the kernel of every tutorial: `%%bash` prints what a terminal would show in the end."""

import atexit
import os
import re
import signal
import subprocess
import warnings

from IPython.core.magic import register_cell_magic

warnings.filterwarnings("ignore", message="IProgress not found")  # a bar in text will do
PROGRESS = re.compile(r"\d+%\|")


@register_cell_magic
def bash(line: str, cell: str) -> None:
    """Run commands; print what they say, progress bars left out; fail if one does."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", cell],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [shown.rsplit("\r", 1)[-1] for shown in done.stdout.split("\n")]
    print("\n".join(shown for shown in lines if not PROGRESS.search(shown)).strip("\n"))
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}")


@atexit.register
def end_what_was_started() -> None:
    """End programs that a tutorial left running in the background."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)
