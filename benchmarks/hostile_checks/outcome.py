"""Trials of a check, each by a seed of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.reliability_checks.outcome import Outcome, count

Attempt = Callable[[random.Random, int], str | None]


def attempts(name: str, trials: int, seed: int, attempt: Attempt) -> Outcome:
    """Try something by the seeds from `seed` on; whatever is raised has gone wrong.

    Args:
        name: of the check.
        trials: how often.
        seed: of the first.
        attempt: returns what went wrong, or None.
    """

    def trial(number: int) -> str | None:
        try:
            return attempt(random.Random(number), number)
        except Exception as error:  # what is not answered in a sentence of ours
            reason = next(iter(str(error).splitlines()), "")
            return f"{type(error).__name__}: {reason[:100]}"

    return count(name, range(seed, seed + trials), trial)
