"""What looks odd about a run, a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lit_ios.leaks import find_leaks, static_names
from lit_ios.recognition import calibration_note
from lit_ios.report.facts import RunFacts

FEW = 20  # stopped paths below which figures mean little
NAMED = 8  # features


class Unfamiliar(NamedTuple):
    """Paths with rows unlike those of training."""

    paths: int
    features: Sequence[str]


def notes(facts: RunFacts) -> list[str]:
    """Return what looks odd."""
    return [*_of_threshold(facts), *_of_data(facts)]


def _of_threshold(facts: RunFacts) -> list[str]:
    found, note = [], calibration_note(facts.paths, facts.policy.about)
    if note is not None:
        found.append(f"{note[:1].upper()}{note[1:]}.")
    if (facts.stop_rows < 0).all():
        found.append("The rule stops none of these paths: its threshold is out of reach.")
    if (facts.stop_rows == 0).all():
        found.append("The rule stops every path at its first row: it says nothing.")
    elif (share := facts.measured["stopped_at_first_row"].value) >= 0.2:
        found.append(f"The rule stops {share:.0%} of the paths at their first row.")
    if (ahead := facts.ahead) is not None and ahead.high < 0:
        found.append("Gradient boosting does better on the same paths.")
    return found


def _of_data(facts: RunFacts) -> list[str]:
    found, events = [], int(facts.paths.stopped.sum())
    if events < FEW:
        found.append(
            f"Only {events} of the paths were stopped: figures mean little below some {FEW}."
        )
    found += [f"Possible leak: {leak.sentence}." for leak in find_leaks(facts.paths)]
    if static := static_names(facts.paths):
        found.append(
            f"The same on all rows of a path: {_some(static)}. Leave out what is not known when a "
            "path begins."
        )
    gaps = np.isnan(facts.paths.states).mean(axis=0)
    pairs = zip(facts.paths.feature_names, gaps, strict=True)
    if named := [f"{name} {share:.1%}" for name, share in pairs if share > 0]:
        found.append(f"Missing values: {_some(named)}.")
    if (odd := unfamiliar(facts)) is not None and odd.paths:
        found.append(
            f"{odd.paths} of {len(facts.paths)} paths have rows unlike those of training "
            f"({', '.join(odd.features)}): there the rule guesses."
        )
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def unfamiliar(facts: RunFacts) -> Unfamiliar | None:
    """Return paths with rows unlike those of training; None if the rule cannot tell."""
    decisions = facts.decisions
    if decisions.distance is None or decisions.responsible is None:
        return None
    odd = decisions.distance > 1
    names, counts = facts.policy.rule.current_names, Counter[str]()
    for row in decisions.responsible[odd].tolist():
        counts.update(names[i] for i in row if i >= 0)
    which = np.unique(facts.paths.path_of_row[odd.numpy()])
    return Unfamiliar(len(which), [name for name, _ in counts.most_common(4)])
