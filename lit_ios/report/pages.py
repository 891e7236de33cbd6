"""One HTML page of one or several runs."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from callbacks.words import Judged, verdict
from lit_ios import __version__
from lit_ios.files import write_text
from lit_ios.inspect import describe_paths
from lit_ios.policy.calibration import Estimate
from lit_ios.program.runs import describe
from lit_ios.report.drawings import Drawing, compare, draw
from lit_ios.report.facts import RunFacts
from lit_ios.report.notes import notes
from lit_ios.report.numbers import comparison, scores, tiles
from lit_ios.report.settings import told_settings

MOST_FEATURES = 40  # in the table
SECTIONS = {  # titles, and a sentence where one is needed
    "stops": ("When it stops", ""),
    "paths": ("Along paths", "The rule stops where the margin first reaches the threshold."),
    "pictures": ("What it learnt", ""),
    "why": (
        "Why it stops",
        "How much each column adds to the margin, from the average state to this one.",
    ),
    "learning": ("Training", ""),
}


class Section(NamedTuple):
    """Some figures."""

    title: str
    text: str
    drawings: Sequence[Drawing]


def write_report(runs: Sequence[RunFacts], file: Path) -> None:
    """Write the report of one run, or of several with a comparison on top."""
    from jinja2 import Environment, FileSystemLoader

    page = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
    ).get_template("page.html.j2")
    named = _names(runs)
    several = len(runs) > 1
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = page.render(
        title=f"{len(runs)} runs compared" if several else f"lit-ios: {_title(runs[0])}",
        made=f"lit-ios {__version__}, {today}",
        several=several,
        comparison=comparison(named) | {"figure": compare(named)} if several else None,
        runs=[_run(facts) for facts in runs],
    )
    write_text(file, text)


def _names(runs: Sequence[RunFacts]) -> dict[str, RunFacts]:
    short = [_title(facts) for facts in runs]
    return {
        name if short.count(name) == 1 else str(facts.checkpoint): facts
        for name, facts in zip(short, runs, strict=True)
    }


def _title(facts: RunFacts) -> str:
    row = describe(facts.folder)
    if row["data"] is None:
        return facts.checkpoint.stem
    own = "" if facts.checkpoint.stem == "best" else f", {facts.checkpoint.stem}"
    taken = f" ({row['candidate']})" if row["candidate"] else ""
    return f"{row['data']}: {row['variant']}{taken}{own}"


def _run(facts: RunFacts) -> dict[str, Any]:
    drawings = draw(facts)
    row = describe(facts.folder)
    known = [("seed", row["seed"]), ("trained", row["date"]), ("judged on", facts.of)]
    return {
        "title": _title(facts),
        "subtitle": " · ".join(f"{name} {value}" for name, value in known if value is not None),
        "verdict": _verdict(facts),
        "tiles": tiles(facts),
        "scores": scores(facts),
        "notes": notes(facts),
        "promises": _promises(facts),
        "sections": [
            Section(*SECTIONS[name], drawings[name]) for name in SECTIONS if name in drawings
        ],
        "paths": _paths(facts),
        "features": list(_features(facts)),
        "made": _made(facts),
    }


def _verdict(facts: RunFacts) -> str:
    found = facts.measured
    values = {
        "balanced_accuracy": found["balanced_accuracy"].value,
        "event_miss_rate": _value(found["event_miss_rate"]),
        "time_to_event_mean": _value(found["time_to_event"]),
        "false_alarm_rate": _value(found["false_alarm_rate"]),
    }
    judged = Judged(found["paths"], found["events"])
    return verdict(values, judged, facts.policy.table)


def _promises(facts: RunFacts) -> dict[str, Any] | None:
    made = facts.policy.calibration
    if made is None or not any(promise.get("level") is not None for promise in made.promises):
        return None
    on = f"{made.paths} paths, {made.events} of them stopped"
    return {"on": f"{on}, {made.date}" if made.date else on, "words": made.words}


def _paths(facts: RunFacts) -> str:
    table = facts.policy.table
    lines = describe_paths(facts.paths, table.time_unit if table.dates else None)
    words = [line.split("  ", 1) for line in lines if line[:1] != " " and line != "features"][1:]
    about, trained = facts.policy.about, ""
    if "paths" in about:
        trained = f"Trained on {about['paths']:,} paths, {about['stops']:,} of them stopped. "
    text = "; ".join(f"{name}: {text.strip()}" for name, text in words)
    return f"{trained}Judged on {facts.of} ({text})."


def _features(facts: RunFacts) -> list[list[str]]:
    rows = []
    for name, values in zip(facts.paths.feature_names, facts.paths.states.T, strict=True):
        known = values[np.isfinite(values)]
        gaps = f"{1 - len(known) / len(values):.1%}" if len(known) < len(values) else ""
        kinds = facts.paths.categories.get(name)
        if kinds is not None:
            rows.append([name, f"text of {len(kinds)} categories", "", "", "", gaps])
        elif len(known):
            figures = (known.mean(), known.std(), known.min(), known.max())
            rows.append([name, *(f"{value:.4g}" for value in figures), gaps])
    more = len(rows) - MOST_FEATURES
    return rows if more <= 0 else [*rows[:MOST_FEATURES], [f"… and {more} more", *[""] * 5]]


def _made(facts: RunFacts) -> list[tuple[str, str]]:
    rule = facts.policy.rule
    about = [
        ("checkpoint", facts.checkpoint.name),
        ("fingerprint of the rule", rule.fingerprint),
        ("threshold", f"{facts.policy.threshold:.6g}"),
        ("members", str(rule.members)),
        ("PyTorch", torch.__version__),
    ]
    return about + told_settings(facts.settings)


def _value(estimate: Estimate | None) -> float:
    return math.nan if estimate is None else estimate.value
