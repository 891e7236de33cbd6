"""The figures of a report, as SVG that stands in a page by itself."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from lit_ios.batches import path_batch
from lit_ios.plotting import (
    COLOURS,
    EXPERT,
    POLICY,
    PathMargins,
    frontiers,
    margin_shares,
    margins_along_paths,
)
from lit_ios.policy.forecast_columns import FORECAST_COLUMNS, forecast_columns
from lit_ios.report.facts import RunFacts
from lit_ios.trajectories import FloatArray, IntArray

if TYPE_CHECKING:
    from lit_ios.times import TimeUnit

PICTURES = {  # that training draws, where it can
    "memory": "What the rule remembers, beside what is hidden from it",
    "q_values": "Q at one time: stopping, continuing, and their difference",
    "boundaries": "Where the rule stops, at every time",
}
LARGEST_PICTURE = 400_000  # bytes
SAMPLE_PATHS = 6


class Drawing(NamedTuple):
    """A figure with what it shows."""

    caption: str
    code: str  # SVG, or an image in place
    wide: bool = False  # needs the whole width of the page


def draw(facts: RunFacts) -> dict[str, list[Drawing]]:
    """Return the figures of one run by the section they belong to."""
    unit = facts.policy.table.unit.strip(" []")
    found = {
        "stops": [
            Drawing("Time from the rule's stop to the expert's", svg(_early(facts, unit))),
            _frontier({"rule": facts}, unit),
        ],
        "paths": [_sample(facts)],
        "learning": _curves(facts.curves()),
        "why": _explained(facts),
        "pictures": _pictures(facts.folder / "figures"),
    }
    if (left := _time_left(facts, unit)) is not None:
        found["paths"].append(left)
    return {name: drawings for name, drawings in found.items() if drawings}


def compare(runs: Mapping[str, RunFacts]) -> Drawing:
    """Draw the frontiers of several runs in one figure."""
    units = {facts.policy.table.unit.strip(" []") for facts in runs.values()}
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


def _frontier(runs: Mapping[str, RunFacts], unit: str) -> Drawing:
    curves = {name: facts.policy.frontier(facts.paths, draws=100) for name, facts in runs.items()}
    alarms = any(np.isfinite(curve.false_alarm_rate).any() for curve in curves.values())
    caption = "What every threshold would do: missed events against time to event"
    caption += ", and against false alarms" if alarms else ""
    return Drawing(caption, svg(frontiers(curves, unit)), wide=alarms)


def _early(facts: RunFacts, unit: str) -> Figure:
    early = facts.early
    caught = early[np.isfinite(early)]
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    if len(caught):
        axes.hist(caught, bins=min(30, max(5, len(caught) // 4)), color=POLICY, alpha=0.8)
        axes.axvline(float(np.median(caught)), color="0.2", linestyle="--", label="median")
    missed = len(early) - len(caught)
    axes.plot([], [], " ", label=f"{missed} of {len(early)} missed")
    axes.set(xlabel=f"early by{f' ({unit})' if unit else ''}", ylabel="paths")
    axes.legend(frameon=False)
    axes.grid(alpha=0.25, linewidth=0.5)
    return figure


def _sample(facts: RunFacts) -> Drawing:
    margin, paths = facts.decisions.margin.numpy(), facts.paths
    shown = []
    for i in _spread(facts):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        stop = int(facts.stop_rows[i])
        shown.append(
            PathMargins(
                paths.names[i], paths.times[rows], margin[rows], bool(paths.stopped[i]),
                None if stop < 0 else stop,
            )
        )  # fmt: skip
    dates = _dates(facts)
    figure = margins_along_paths(shown, facts.policy.threshold, dates)
    return Drawing(
        "The margin along paths, from the earliest stop to the latest", svg(figure), wide=True
    )


def _dates(facts: RunFacts) -> TimeUnit | None:
    table = facts.policy.table
    return table.time_unit if table.dates else None


def _spread(facts: RunFacts) -> IntArray:
    """Return paths from the earliest stop to those missed, and a censored one if there is any."""
    early = np.full(len(facts.paths), np.nan)
    early[facts.paths.stopped] = facts.early
    order = np.argsort(np.where(np.isnan(early), -np.inf, early), kind="stable")[::-1]
    stopped = order[facts.paths.stopped[order]]
    censored = np.flatnonzero(~facts.paths.stopped)[:1]
    places = np.linspace(0, len(stopped) - 1, min(SAMPLE_PATHS - len(censored), len(stopped)))
    return np.concatenate([stopped[places.round().astype(np.int64)], censored])


def _time_left(facts: RunFacts, unit: str) -> Drawing | None:
    """Draw the forecast along three paths beside the time that was left; None if none is learnt."""
    learnt = facts.policy.learnt_forecast
    if learnt is None:
        return None
    chosen = [i for i in _spread(facts) if facts.paths.stopped[i]][:3]
    paths = facts.paths.select(chosen)
    decided = list(facts.policy.decide(paths))
    columns = forecast_columns(
        learnt, path_batch(paths), decided, facts.policy.threshold, FORECAST_COLUMNS
    )
    figure = Figure(figsize=(10.4, 3.2), layout="constrained")
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    for i, axes in enumerate(panels):
        rows = slice(paths.offsets[i], paths.offsets[i + 1])
        time = paths.times[rows]
        axes.plot(time, time[-1] - time, color="0.35", label="time that was left")
        for (name, values), colour in zip(sorted(columns.items()), COLOURS, strict=False):
            if name in ("remaining_low", "remaining_median"):
                axes.plot(time, values[rows], color=colour, label=name.removeprefix("remaining_"))
        most = 1.5 * float(time[-1] - time[0]) or 1.0  # bounds are high where little is known
        axes.set(title=f"path {paths.names[i]}", xlabel="time", ylim=(0, most))
    panels[0].set_ylabel(f"left{f' ({unit})' if unit else ''}")
    panels[0].legend(frameon=False, fontsize=8)
    caption = "How long is left: the median and the lower bound beside what was left"
    return Drawing(caption, svg(figure), wide=True)


def _curves(curves: Mapping[str, tuple[FloatArray, FloatArray]]) -> list[Drawing]:
    if not curves:
        return []
    figure = Figure(figsize=(3.6 * len(curves), 2.8), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (name, (epochs, values)) in zip(panels, curves.items(), strict=False):
        axes.plot(epochs, values, color=EXPERT, linewidth=1.2)
        axes.set(title=name, xlabel="epoch")
        axes.grid(alpha=0.25, linewidth=0.5)
    return [Drawing("Along the epochs of training", svg(figure), wide=True)]


def _explained(facts: RunFacts) -> list[Drawing]:
    found = []
    for number, row in facts.typical_stops():
        path = facts.paths[number]
        explanation = facts.policy.explain_row(path, row)
        caption = f"Path {facts.paths.names[number]}, row {row}, where the rule first stops"
        found.append(Drawing(caption, svg(margin_shares(explanation)), wide=True))
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
