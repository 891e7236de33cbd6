"""What is printed: names in files and data cannot steer the terminal.

A path, a column or a folder may be called anything, also what clears a screen, writes its title, or
is no text at all. Nor does a reader who leaves early end the work.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

# control characters but \t \n \r, marks of direction, bytes that are no text
_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Return a text with what would steer a terminal written out as Python does."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PlainStream:
    """A stream that nothing printed to it can steer.

    Args:
        stream: that it prints to, and is in all else.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text."""
        with _unless_nobody_reads(self._stream):
            self._stream.write(plain(text))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        with _unless_nobody_reads(self._stream):
            self._stream.flush()

    def writelines(self, lines: Any) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Be the stream itself in all else."""
        return getattr(self._stream, name)


@contextlib.contextmanager
def _unless_nobody_reads(stream: TextIO) -> Iterator[None]:
    """Go on with the work if the other end of a pipe has left, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Let nothing that is printed steer the terminal."""
    out, error = (cast(TextIO, PlainStream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            yield
        finally:
            out.flush()
