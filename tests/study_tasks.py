"""Processes that claim trials, for tests of studies."""

import os
import signal
import sys
from pathlib import Path

from lit_ios.tune.space import Knob
from lit_ios.tune.study import Study

KNOBS = [
    Knob("x", "model.init_args.gamma", (), 0.1, 1.0),
    Knob("kind", "model.init_args.memory", ("none", "gru")),
]
DEFAULTS = {"x": 0.5, "kind": "none"}


def score(values):
    """Return something smooth."""
    return 1 - (values["x"] - 0.3) ** 2 - (values["kind"] == "gru") / 10


def study_in(folder):
    """Return the study of a folder."""
    return Study(Path(folder), KNOBS, DEFAULTS)


def work(folder, trials, end_at=None):
    """Do trials until there are none, or be killed in the middle of one."""
    study = study_in(folder)
    while True:
        with study.claim(trials) as claim:
            if claim is None:
                return
            if claim.number == end_at:
                os.kill(os.getpid(), signal.SIGKILL)
            study.tell(claim, "complete", score(claim.values), epochs=1)


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
