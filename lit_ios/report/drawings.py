"""Which figures a report has, as SVG that stands in a page by itself."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from lit_ios.batches import path_batch
from lit_ios.carry import combine
from lit_ios.plotting import PathMargins, frontiers, margin_shares
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.forecast_columns import forecast_columns
from lit_ios.report.facts import RunFacts
from lit_ios.report.figures import Along, along_paths, early_stops, stop_times, training_curves
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet

PICTURES = {  # that training draws, where it can
    "memory": "What the rule remembers, beside what is hidden from it",
    "q_values": "Q at one time: stopping, continuing, and their difference",
    "boundaries": "Where the rule stops, along time",
}
LARGEST_PICTURE = 400_000  # bytes
SAMPLE_PATHS = 4


class Drawing(NamedTuple):
    """A figure with what it shows."""

    caption: str
    code: str  # SVG, or an image in place
    wide: bool = False  # needs the whole width of the page


def draw(facts: RunFacts) -> dict[str, list[Drawing]]:
    """Return the figures of one run by the section they belong to."""
    found = {
        "stops": _stops(facts),
        "paths": [_along(facts)],
        "pictures": _pictures(facts.folder / "figures"),
        "why": _explained(facts),
        "learning": _learning(facts),
    }
    return {name: drawings for name, drawings in found.items() if drawings}


def compare(runs: Mapping[str, RunFacts]) -> Drawing:
    """Draw the frontiers of several runs in one figure."""
    units = {facts.unit for facts in runs.values()}
    return _frontier(runs, units.pop() if len(units) == 1 else "")


def svg(figure: Figure) -> str:
    """Return a figure as SVG whose text is text and whose size follows the page."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lit-ios"}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    code = stream.getvalue()
    code = code[code.index("<svg") :]
    head, rest = code.split(">", 1)
    width = re.search(r' width="([\d.]+)pt"', head)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    head += "" if width is None else f' style="max-width: {1.1 * float(width[1]):.0f}pt"'
    return f"{head}>{re.sub(r'<metadata>.*?</metadata>', '', rest, flags=re.S)}"


def _stops(facts: RunFacts) -> list[Drawing]:
    stopped = facts.paths.stopped
    if stopped.all():
        caption = "Time from the rule's stop to the expert's"
        first = Drawing(caption, svg(early_stops(facts.early, facts.unit)))
    else:
        figure = stop_times(facts.elapsed, facts.lasted[stopped], facts.early, facts.unit)
        caption = "When rule and expert stop, and how much earlier the rule does"
        first = Drawing(caption, svg(figure), wide=True)
    return [first, _frontier({"rule": facts}, facts.unit)]


def _frontier(runs: Mapping[str, RunFacts], unit: str) -> Drawing:
    curves = {name: facts.frontier for name, facts in runs.items()}
    alarms = any(np.isfinite(curve.false_alarm_rate).any() for curve in curves.values())
    caption = "What every threshold would do: missed events against time to event"
    caption += ", and against false alarms" if alarms else ""
    made = [facts.policy.calibration for facts in runs.values()]
    kept = made[0] if len(made) == 1 else None
    levels = [None if kept is None else kept.level(name) for name in ("MissRate", "FalseAlarms")]
    figure = frontiers(curves, unit, misses=levels[0], alarms=levels[1])
    return Drawing(caption, svg(figure), wide=alarms)


def _along(facts: RunFacts) -> Drawing:
    chosen = _spread(facts)
    paths, policy = facts.paths.select(chosen), facts.policy
    memory = memory_added(policy, paths)
    left: dict[str, FloatArray] = {}
    if policy.learnt_forecast is not None:
        decided = list(policy.decide(paths))
        left = forecast_columns(
            policy.learnt_forecast, path_batch(paths), decided, policy.threshold
        )
    margin, shown = facts.decisions.margin.numpy(), []
    for i, number in enumerate(chosen):
        rows, stop = slice(paths.offsets[i], paths.offsets[i + 1]), int(facts.stop_rows[number])
        own = slice(facts.paths.offsets[number], facts.paths.offsets[number + 1])
        path = PathMargins(
            paths.names[i], paths.times[rows], margin[own], bool(paths.stopped[i]),
            None if stop < 0 else stop,
        )  # fmt: skip
        known = [left[name][rows] for name in ("remaining_median", "remaining_low") if left]
        shown.append(Along(path, None if memory is None else memory[rows], *known))
    table = policy.table
    figure = along_paths(
        shown, policy.threshold, table.time_unit if table.dates else None, facts.unit
    )
    caption = "Paths from the earliest stop to the latest"
    caption += "" if memory is None else ", with what the rule's memory adds to its margin"
    caption += ", and how long it expects them to go on" if left else ""
    return Drawing(caption, svg(figure), wide=True)


def memory_added(policy: StoppingPolicy, paths: TrajectorySet) -> FloatArray | None:
    """Return how far margins lie above those of a rule that has forgotten the rows before; (N,).

    None where the rule remembers nothing.
    """
    rule = policy.rule
    if not rule.layout.memory:
        return None
    batch = path_batch(paths)
    with torch.inference_mode():
        state, h = rule.remember(batch)
        forgotten = rule.memory.advance(torch.zeros_like(h), state, batch.step)
        with_it, without = (rule.values(state, known) for known in (h, forgotten))
        margins = [combine(torch, q[..., 0] - q[..., 1]) for q in (with_it, without)]
    return np.asarray((margins[0] - margins[1]).numpy())


def _spread(facts: RunFacts) -> IntArray:
    """Return paths from the earliest stop to those missed, and a censored one if there is any."""
    early = np.full(len(facts.paths), np.nan)
    early[facts.paths.stopped] = facts.early
    order = np.argsort(np.where(np.isnan(early), -np.inf, early), kind="stable")[::-1]
    stopped = order[facts.paths.stopped[order]]
    censored = np.flatnonzero(~facts.paths.stopped)[:1]
    places = np.linspace(0, len(stopped) - 1, min(SAMPLE_PATHS - len(censored), len(stopped)))
    return np.concatenate([stopped[places.round().astype(np.int64)], censored])


def _learning(facts: RunFacts) -> list[Drawing]:
    if not (curves := facts.curves()):
        return []
    best = facts.metrics.get("best_epoch")
    known = float(best) if isinstance(best, int | float) else None
    caption = "Along the epochs of training"
    caption += "" if known is None else "; the epoch that was kept is marked"
    return [Drawing(caption, svg(training_curves(curves, known)), wide=True)]


def _explained(facts: RunFacts) -> list[Drawing]:
    found = []
    for kind, number, row in facts.typical_stops():
        explanation = facts.policy.explain_row(facts.paths[number], row)
        caption = f"{kind}: path {facts.paths.names[number]}, row {row}"
        found.append(Drawing(caption, svg(margin_shares(explanation))))
    return found


def _pictures(folder: Path) -> list[Drawing]:
    found = []
    for name, caption in PICTURES.items():
        file = folder / f"{name}.png"
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST_PICTURE:
            data = base64.b64encode(file.read_bytes()).decode()
            found.append(
                Drawing(caption, f'<img alt="" src="data:image/png;base64,{data}">', wide=True)
            )
    return found
