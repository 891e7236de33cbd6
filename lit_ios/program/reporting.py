"""The page that `fit` ends with."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError


def report_run(folder: Path, checkpoint: Path, rule: Any, data: Any) -> Path | None:
    """Write report.html of a run that has ended; whatever goes wrong costs the page alone.

    Args:
        folder: of the run.
        checkpoint: that was tested.
        rule: of this checkpoint.
        data: the run's data module.
    """
    by_hand = f"lit-ios report {folder}  writes it"
    if data.shared_out:
        warnings.warn(
            f"no report.html, since each process has read a share of the paths; {by_hand}",
            stacklevel=2,
        )
        return None
    file = folder / "report.html"
    try:
        from lit_ios.checkpoints import read_checkpoint
        from lit_ios.policy import StoppingPolicy
        from lit_ios.report import RunFacts, write_report

        policy = StoppingPolicy(rule, read_checkpoint(checkpoint)["lit_ios"])
        write_report([RunFacts(checkpoint, policy, data.splits.test)], file)
    except UserError as error:
        warnings.warn(f"no report.html: {error}", stacklevel=2)
        return None
    except Exception as error:  # of a figure, a full disk: the run is done
        reason = (str(error).splitlines() or [""])[0]
        warnings.warn(
            f"report.html could not be written ({type(error).__name__}: {reason}); the run itself "
            f"is complete, and  {by_hand}",
            stacklevel=2,
        )
        return None
    return file
