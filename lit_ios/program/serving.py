"""What the shell does to serve live paths."""

from __future__ import annotations

from argparse import Namespace

from lit_ios.program.places import to_decide_by
from lit_ios.serve import serve


def serve_run(options: Namespace) -> None:
    """Serve the policy of a run, a checkpoint or an exported file."""
    serve(
        lambda: to_decide_by(options.run), store=options.store, host=options.host,
        port=options.port, allow=options.allow, without_key=options.without_key,
        max_paths=options.max_paths, remember=options.remember,
    )  # fmt: skip
