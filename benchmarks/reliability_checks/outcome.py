"""What a check found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Outcome(NamedTuple):
    """How often something was tried, and how often what is promised did not hold."""

    trials: int
    bad: int
    note: str = ""


def count(name: str, seeds: Iterable[int], trial: Callable[[int], str | None]) -> Outcome:
    """Run a trial for each seed; print the seed of each that fails, and what was wrong.

    Args:
        name: of the check, for the command that repeats a failure.
        seeds: one for each trial.
        trial: returns what went wrong; None if nothing did.
    """
    trials, wrong = 0, []
    for seed in seeds:
        trials += 1
        found = trial(seed)
        if found is not None:
            wrong.append(found)
            repeat = f"python -m benchmarks.reliability {name} --trials 1 --seed {seed}"
            print(f"{name}: seed {seed}: {found}\n  repeat with  {repeat}", file=sys.stderr)
    return Outcome(trials, len(wrong), wrong[0] if wrong else "")
