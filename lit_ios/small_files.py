"""Small files that lie in a folder, which may be a stranger's: read if they are files, and small.

A pipe in the place of a file never ends, a device may not either, and a sparse file of a terabyte
takes no room on the disk.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 64 << 20  # of JSON that this program writes about a run


def read_small(file: str | Path, most: int = MOST_BYTES) -> bytes:
    """Read a file.

    Raises OSError if it is not there or no file, ValueError if it is too large.

    Args:
        file: to be read; a link is followed.
        most: bytes.
    """
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # waits for no pipe
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{file} is not a file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{file} has more than {most:,} bytes")
    return content


def read_small_json(file: str | Path) -> Any:
    """Read JSON; raises as `read_small` does, ValueError also if it is none or nested too deep."""
    try:
        return json.loads(read_small(file))
    except RecursionError:
        raise ValueError(f"{file} is nested too deep") from None
