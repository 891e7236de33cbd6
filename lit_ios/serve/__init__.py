"""Live paths over HTTP, kept through restarts; the extra `serve`.

    lit-ios serve runs/my/auto/version_0/checkpoints/calibrated.ckpt --store live.db

What must survive is written to a store before it is answered; docs/serve.md says what is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lit_ios.checks import UserError

__all__ = ["serve"]


def serve(
    find: Callable[[], Path],
    *,
    store: str = "live.db",
    host: str = "127.0.0.1",
    port: int = 8000,
    allow: Sequence[str] = (),
    without_key: bool = False,
    max_paths: int = 100_000,
    remember: int = 128,
) -> None:
    """Serve a policy until the process is told to end.

    Args:
        find: returns the checkpoint or exported file, now and whenever it is to be read again.
        store: an SQLite file, made if it is not there, or the URL of a PostgreSQL database.
        host: address to listen at; others than those of this machine need a key.
        port: to listen at; 0 takes a free one.
        allow: packages of the user's own that checkpoints may name classes of.
        without_key: answer to other machines without a key.
        max_paths: that are live at a time.
        remember: rows of each path whose answers are kept, so that they can be sent again.
    """
    try:
        from lit_ios.serve.server import run
    except ImportError as error:
        raise UserError(f"lit-ios serve needs {error.name}: pip install 'lit-ios[serve]'") from None
    run(find, store, host, port, tuple(allow), without_key, max_paths, remember)
