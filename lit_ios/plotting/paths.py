"""What happens along paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_ios.plotting.style import EXPERT, INK, POLICY, SOFT, styled, with_unit
from lit_ios.times import SECONDS, TimeUnit
from lit_ios.trajectories import FloatArray, TrajectorySet

MOST_KINDS = 8  # categories whose names stand beside an axis


class PathMargins(NamedTuple):
    """The margin along one path."""

    name: str
    time: FloatArray  # (T,)
    margin: FloatArray  # (T,)
    stopped: bool  # the expert stopped at the last row
    policy_stop: int | None  # row of the policy's first stop


class HiddenPath(NamedTuple):
    """One path with a quantity that the policy does not see; (T,) each."""

    name: str
    time: FloatArray
    seen: FloatArray
    hidden: FloatArray
    remembered: FloatArray  # what the policy knows of it
    stopped: bool  # the expert stopped at the last row
    policy_stop: int | None  # row of the policy's first stop


@styled
def margins_along_paths(
    paths: Sequence[PathMargins],
    threshold: float = 0.0,
    dates: TimeUnit | None = None,
    unit: str = "",
) -> Figure:
    """Draw the margin along sample paths with the expert's and the policy's stop.

    Args:
        paths: one panel each.
        threshold: margin at which the policy stops.
        dates: unit of times that are dates; None: they are numbers.
        unit: of times that are numbers.
    """
    columns = min(3, len(paths))
    rows = -(-len(paths) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.7 * rows + 0.6), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in all_axes[len(paths) :]:
        axes.set_visible(False)
    for axes, path in zip(all_axes, paths, strict=False):
        path = path._replace(time=time_axis(axes, path.time, dates))
        axes.plot(path.time, path.margin, color=INK, linewidth=1.4, marker=".", markersize=4)
        axes.set_title(f"path {path.name}{'' if path.stopped else ', censored'}")
        if len(path.time) == 1:
            axes.set_xlim(path.time[0] - 1, path.time[0] + 1)
        axes.axhline(threshold, color=SOFT, linewidth=1.2, linestyle=":")
        if path.stopped:
            axes.axvline(path.time[-1], color=EXPERT)
        if path.policy_stop is not None:
            row = path.policy_stop
            axes.plot(path.time[row], path.margin[row], "o", color=POLICY, markersize=8)
    for axes in all_axes[max(0, len(paths) - columns) : len(paths)]:
        axes.set_xlabel(with_unit("time", unit) if dates is None else "date")
    for axes in all_axes[::columns]:
        axes.set_ylabel("margin")
    handles = [
        Line2D([], [], color=EXPERT, label="expert stops"),
        Line2D([], [], color=POLICY, marker="o", linestyle="", label="rule stops"),
        Line2D([], [], color=SOFT, linestyle=":", label="threshold"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


@styled
def hidden_along_paths(paths: Sequence[HiddenPath], seen: str, hidden: str, title: str) -> Figure:
    """Draw what is seen above, and below what is not with what the policy remembers of it."""
    figure = Figure(figsize=(4.4 * len(paths), 5.8), layout="constrained")
    panels = figure.subplots(2, len(paths), sharex="col", sharey="row", squeeze=False)
    for path, (above, below) in zip(paths, panels.T, strict=True):
        above.plot(path.time, path.seen, color=INK, linewidth=1.2)
        above.set_title(f"path {path.name}")
        below.plot(path.time, path.hidden, color="black")
        below.plot(path.time, path.remembered, color=POLICY, linestyle="--")
        below.set_xlabel("time")
        for axes in (above, below):
            if path.stopped:
                axes.axvline(path.time[-1], color=EXPERT)
            if path.policy_stop is not None:
                axes.axvline(path.time[path.policy_stop], color=POLICY, alpha=0.6)
    panels[0, 0].set_ylabel(f"{seen}, seen")
    panels[1, 0].set_ylabel(f"{hidden}, not seen")
    handles = [
        Line2D([], [], color="black", label=f"{hidden}, not seen"),
        Line2D([], [], color=POLICY, linestyle="--", label="what the rule remembers"),
        Line2D([], [], color=EXPERT, label="expert stops"),
        Line2D([], [], color=POLICY, alpha=0.6, label="rule stops"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    figure.suptitle(title)
    return figure


@styled
def feature_paths(
    paths: TrajectorySet,
    features: Sequence[int],
    most_paths: int = 40,
    dates: TimeUnit | None = None,
    unit: str = "",
) -> Figure:
    """Draw features along time since each path began, with the rows where the expert stopped.

    Args:
        paths: of raw columns, those of text coded.
        features: numbers of those that are drawn.
        most_paths: that are drawn.
        dates: unit of times that are dates, which are then drawn as such; None: they are numbers.
        unit: of times that are numbers.
    """
    shown = len(features)
    columns = min(3, shown)
    rows = -(-shown // columns)
    figure = Figure(figsize=(4.4 * columns, 2.8 * rows + 0.8), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    elapsed = paths.times - np.repeat(paths.times[paths.offsets[:-1]], paths.lengths)
    shown_time = paths.times if dates else elapsed
    drawn = min(most_paths, len(paths))
    last = paths.last_rows[:drawn][paths.stopped[:drawn]]
    for axes in all_axes[shown:]:
        axes.set_visible(False)
    for feature, axes in zip(features, all_axes, strict=False):
        name = paths.feature_names[feature]
        values, time = paths.states[:, feature], time_axis(axes, shown_time, dates)
        for start, end in zip(paths.offsets[:drawn], paths.offsets[1 : drawn + 1], strict=True):
            axes.plot(time[start:end], values[start:end], color=SOFT, linewidth=0.8)
        axes.plot(time[last], values[last], "o", color=EXPERT, markersize=5)
        axes.set_title(name)
        if (kinds := paths.categories.get(name)) is not None and len(kinds) <= MOST_KINDS:
            axes.set_yticks(range(len(kinds)), kinds)
    for axes in all_axes[max(0, shown - columns) : shown]:
        axes.set_xlabel("date" if dates else with_unit("time since the path began", unit))
    handle = Line2D([], [], color=EXPERT, marker="o", linestyle="", label="expert stops")
    figure.legend(handles=[handle], loc="outside lower center")
    if shown < len(paths.feature_names):
        figure.suptitle(f"the {shown} of {len(paths.feature_names)} features that tell stops best")
    return figure


def time_axis(axes: Any, time: FloatArray, dates: TimeUnit | None) -> FloatArray:
    """Return times as an axis shows them; prepare it for dates, which matplotlib counts in days."""
    if dates is None:
        return time
    locator = AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    return np.asarray(time * (SECONDS[dates] / SECONDS["days"]))
