"""Runs inside jobs of SLURM: put back in line, a job goes on with the run it had begun.

SLURM starts the same command again, on any machine, and says by SLURM_RESTART_COUNT that it does.
Which run the job had begun is written to `<runs_dir>/.slurm/<job>.json`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lit_ios.checks import UserError
from lit_ios.files import write_json
from lit_ios.settings import gather_options
from lit_ios.small_files import read_small_json


def job() -> str | None:
    """Return the number of the job that this process is part of; None outside of SLURM."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    number = f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")
    return number if number.replace("_", "").isdecimal() else None


def remember_run(runs_dir: str | Path, folder: Path) -> None:
    """Write down which run this job has begun."""
    number = job()
    if number is not None:
        note = _note(runs_dir, number)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {"folder": str(folder.absolute())})


def go_on(words: list[str]) -> list[str]:
    """Return the command line that goes on with the job's run, if it was put back in line.

    Args:
        words: of the command line, written out.
    """
    number = job()
    chosen = any(word.startswith(("--ckpt_path", "--resume")) for word in words)
    if words[:1] != ["fit"] or chosen or number is None or not _restarted():
        return words
    runs_dir = [*gather_options(words, "--runs_dir")[0], "runs"][0]
    try:
        folder = Path(read_small_json(_note(runs_dir, number))["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return words  # it had not come so far
    if (folder / "auto.json").is_file():
        return ["fit", "--resume", str(folder)]
    last = folder / "checkpoints/last.ckpt"
    return [*words, f"--ckpt_path={last}"] if last.is_file() else words


def requeue() -> None:
    """Put the job back in line."""
    number, command = job(), shutil.which("scontrol")
    if number is None or command is None:
        raise UserError("the job cannot be put back in line: there is no scontrol; submit it again")
    done = subprocess.run([command, "requeue", number], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"scontrol requeue {number} failed: {done.stderr.strip()}; submit it again")


def _restarted() -> bool:
    count = os.environ.get("SLURM_RESTART_COUNT", "0")
    return count.isdecimal() and int(count) > 0


def _note(runs_dir: str | Path, number: str) -> Path:
    return Path(runs_dir) / ".slurm" / f"{number}.json"
