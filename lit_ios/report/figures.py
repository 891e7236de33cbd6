"""The figures that only a report has: arrays in, matplotlib figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_ios.plotting import EXPERT, POLICY, PathMargins, styled, time_axis, with_unit
from lit_ios.plotting.style import COLOURS, INK, SOFT
from lit_ios.times import TimeUnit
from lit_ios.trajectories import FloatArray


class Along(NamedTuple):
    """One path: its margins, what memory adds to them, and how long is left; (T,) each."""

    path: PathMargins
    memory: FloatArray | None = None  # None: the rule remembers nothing
    median_left: FloatArray | None = None  # None: no forecast was learnt
    least_left: FloatArray | None = None


@styled
def stop_times(rule: FloatArray, expert: FloatArray, early: FloatArray, unit: str) -> Figure:
    """Draw when rule and expert stopped, and how much earlier the rule was.

    Args:
        rule: (P,) time from the start to the rule's stop, NaN for none.
        expert: (E,) the same of the expert.
        early: (E,) of stopped paths, NaN if missed.
        unit: of time.
    """
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    stopped = rule[np.isfinite(rule)]
    edges = np.histogram_bin_edges(
        np.concatenate([stopped, expert]), bins=min(24, max(6, len(rule) // 4))
    )
    left.hist(expert, bins=edges, color=EXPERT, alpha=0.75, label="expert")
    left.hist(
        stopped, bins=edges, histtype="step", color=POLICY, linewidth=2.2,
        label=f"rule (never: {len(rule) - len(stopped)} of {len(rule)})",
    )  # fmt: skip
    left.set(xlabel=with_unit("stops after", unit), ylabel="paths")
    left.legend()
    _early(right, early, unit)
    return figure


@styled
def early_stops(early: FloatArray, unit: str) -> Figure:
    """Draw how much earlier than the expert the rule stopped; arguments as for `stop_times`."""
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    _early(figure.subplots(), early, unit)
    return figure


def _early(axes: Any, early: FloatArray, unit: str) -> None:
    caught = early[np.isfinite(early)]
    if len(caught):
        axes.hist(caught, bins=min(24, max(5, len(caught) // 4)), color=POLICY, alpha=0.8)
        axes.axvline(float(np.median(caught)), color=INK, linestyle="--", label="median")
    axes.plot([], [], " ", label=f"{len(early) - len(caught)} of {len(early)} missed")
    axes.set(xlabel=with_unit("earlier than the expert by", unit), ylabel="paths")
    axes.legend()


@styled
def along_paths(
    shown: Sequence[Along], threshold: float, dates: TimeUnit | None, unit: str
) -> Figure:
    """Draw paths side by side: margins, below what memory adds to them, below how long is left.

    Args:
        shown: one column each.
        threshold: margin at which the rule stops.
        dates: unit of times that are dates; None: they are numbers.
        unit: of time.
    """
    remembers = any(one.memory is not None for one in shown)
    forecast = any(one.median_left is not None for one in shown)
    rows = 1 + remembers + forecast
    figure = Figure(figsize=(3.5 * len(shown), 2.6 * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, len(shown), sharex="col", sharey="row", squeeze=False)
    for one, column in zip(shown, panels.T, strict=True):
        path, below = one.path, list(column[1:])
        time = time_axis(column[-1], path.time, dates)
        column[0].plot(time, path.margin, color=INK, linewidth=1.4)
        column[0].axhline(threshold, color=SOFT, linewidth=1.2, linestyle=":")
        column[0].set_title(f"path {path.name}{'' if path.stopped else ', censored'}")
        if remembers:
            axes = below.pop(0)
            axes.axhline(0, color=SOFT, linewidth=1)
            axes.plot(time, one.memory, color=COLOURS[2])
        if forecast:
            _left(below[0], one, time)
        for axes in column:
            if path.stopped:
                axes.axvline(time[-1], color=EXPERT)
            if path.policy_stop is not None:
                axes.axvline(time[path.policy_stop], color=POLICY, linestyle="--")
        column[-1].set_xlabel(with_unit("time", unit) if dates is None else "date")
    labels = [
        "margin",
        *["what memory adds"] * remembers,
        *[with_unit("time left", unit)] * forecast,
    ]
    for axes, label in zip(panels[:, 0], labels, strict=True):
        axes.set_ylabel(label)
    figure.legend(handles=_legend(remembers, forecast), loc="outside lower center", ncols=7)
    return figure


def _left(axes: Any, one: Along, time: FloatArray) -> None:
    span = one.path.time[-1] - one.path.time
    if one.path.stopped:
        axes.plot(time, span, color=INK, linewidth=1.2)
    for values, colour in ((one.median_left, COLOURS[3]), (one.least_left, COLOURS[4])):
        if values is not None:
            axes.plot(time, np.minimum(values, 2 * max(float(span[0]), 1e-12)), color=colour)


def _legend(remembers: bool, forecast: bool) -> list[Line2D]:
    made = [
        Line2D([], [], color=EXPERT, label="expert stops"),
        Line2D([], [], color=POLICY, linestyle="--", label="rule stops"),
        Line2D([], [], color=SOFT, linestyle=":", label="threshold"),
    ]
    if remembers:
        made.append(Line2D([], [], color=COLOURS[2], label="what memory adds"))
    if forecast:
        made.append(Line2D([], [], color=INK, linewidth=1.2, label="time that was left"))
        made.append(Line2D([], [], color=COLOURS[3], label="its forecast"))
        made.append(Line2D([], [], color=COLOURS[4], label="its lower bound"))
    return made


@styled
def training_curves(
    curves: Mapping[str, tuple[FloatArray, FloatArray]], best: float | None
) -> Figure:
    """Draw values along the epochs of training.

    Args:
        curves: epochs and values by name.
        best: the epoch that was kept, where it is known.
    """
    columns = min(len(curves), 4)
    figure = Figure(figsize=(max(3.6 * columns, 4.4), 3.4), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    for axes, (name, (epochs, values)) in zip(panels, curves.items(), strict=False):
        axes.plot(epochs, values, color=EXPERT)
        if best is not None:
            axes.axvline(best, color=SOFT, linestyle="--", linewidth=1.2)
        axes.set(title=name, xlabel="epoch")
    return figure
