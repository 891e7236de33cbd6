"""Arrays in, matplotlib figures out. Colours are legible in print and by colour-blind readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_ios.times import SECONDS, TimeUnit
from lit_ios.trajectories import FloatArray, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy import Explanation, FrontierCurve

EXPERT, POLICY = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


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


def q_heat_maps(
    x: FloatArray,
    y: FloatArray,
    q: FloatArray,
    *,
    truth: FloatArray | None = None,
    threshold: float = 0.0,
    time: float | None = None,
    names: Sequence[str] = ("x0", "x1"),
) -> Figure:
    """Draw Q(s,0), Q(s,1) and their difference, each scaled around 0.

    Args:
        x: (W,) grid.
        y: (H,) grid.
        q: (H, W, 2).
        truth: (H, W) at least 0 inside the true stopping region; drawn as a dashed line.
        threshold: margin at which the policy stops; drawn as a solid line.
        time: shown in the title.
        names: of the two features.
    """
    figure = Figure(figsize=(12, 4), layout="constrained")
    margin = q[..., 0] - q[..., 1]
    when = "" if time is None else f" at t = {time:g}"
    panels = {"Q(s, stop)": q[..., 0], "Q(s, continue)": q[..., 1], "difference": margin}
    for axes, (title, values) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        largest = max(float(np.abs(values).max()), 1e-12)
        image = axes.pcolormesh(
            x, y, values, cmap="RdBu_r", norm=TwoSlopeNorm(0, -largest, largest), rasterized=True
        )
        figure.colorbar(image, ax=axes, shrink=0.85)
        _contour(axes, x, y, margin, threshold, colors="black", linewidths=1.8)
        if truth is not None:
            _contour(
                axes, x, y, truth, 0.0,
                colors="black", linewidths=1.8, linestyles="--",
            )  # fmt: skip
        axes.set(title=title + when, xlabel=names[0], ylabel=names[1], aspect="equal")
    lines = [Line2D([], [], color="black", label="recovered boundary")]
    if truth is not None:
        lines.append(Line2D([], [], color="black", linestyle="--", label="true boundary"))
    figure.legend(handles=lines, loc="outside lower center", ncols=2, frameon=False)
    return figure


def boundaries(
    x: FloatArray,
    y: FloatArray,
    margin: FloatArray,
    times: FloatArray,
    *,
    truth: FloatArray | None = None,
    threshold: float = 0.0,
    names: Sequence[str] = ("x0", "x1"),
) -> Figure:
    """Draw the boundary of the stopping region at each time, the true one beside the recovered.

    Args:
        x: (W,) grid.
        y: (H,) grid.
        margin: (T, H, W).
        times: (T,).
        truth: (T, H, W) at least 0 inside the true stopping region.
        threshold: margin at which the policy stops.
        names: of the two features.
    """
    panels = {"recovered": (margin, threshold)}
    if truth is not None:
        panels = {"true": (truth, 0.0), **panels}
    figure = Figure(figsize=(5.2 * len(panels) + 1, 5), layout="constrained")
    norm = Normalize(float(times.min()), float(times.max()))
    colours = colormaps["viridis"]
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, (values, level)) in zip(all_axes, panels.items(), strict=True):
        for time, plane in zip(times, values, strict=True):
            _contour(axes, x, y, plane, level, colors=[colours(norm(time))], linewidths=1.0)
        axes.set(
            title=f"{title} boundary", xlabel=names[0], ylabel=names[1], aspect="equal",
            xlim=(x[0], x[-1]), ylim=(y[0], y[-1]),
        )  # fmt: skip
    figure.colorbar(ScalarMappable(norm, "viridis"), ax=all_axes, label="time", shrink=0.85)
    return figure


def margins_along_paths(
    paths: Sequence[PathMargins], threshold: float = 0.0, dates: TimeUnit | None = None
) -> Figure:
    """Draw the margin along sample paths with the expert's and the policy's stop.

    Args:
        paths: one panel each.
        threshold: margin at which the policy stops.
        dates: unit of times that are dates; None: they are numbers.
    """
    columns = min(3, len(paths))
    rows = -(-len(paths) // columns)
    figure = Figure(figsize=(4 * columns, 2.4 * rows + 0.5), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in all_axes[len(paths) :]:
        axes.set_visible(False)
    for axes, path in zip(all_axes, paths, strict=False):
        path = path._replace(time=_time_axis(axes, path.time, dates))
        axes.plot(path.time, path.margin, color="0.35", linewidth=1.2, marker=".", markersize=3)
        axes.set_title(f"path {path.name}{'' if path.stopped else ', censored'}", fontsize=9)
        if len(path.time) == 1:
            axes.set_xlim(path.time[0] - 1, path.time[0] + 1)
        axes.axhline(threshold, color="0.6", linewidth=0.8, linestyle=":")
        if path.stopped:
            axes.axvline(path.time[-1], color=EXPERT, linewidth=1.6)
        if path.policy_stop is not None:
            row = path.policy_stop
            axes.plot(path.time[row], path.margin[row], "o", color=POLICY, markersize=7)
    for axes in all_axes[-columns:]:
        axes.set_xlabel("time" if dates is None else "date")
    for axes in all_axes[::columns]:
        axes.set_ylabel("margin")
    handles = [
        Line2D([], [], color=EXPERT, linewidth=1.6, label="expert stops"),
        Line2D([], [], color=POLICY, marker="o", linestyle="", label="policy stops"),
        Line2D([], [], color="0.6", linestyle=":", label="threshold"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def hidden_along_paths(paths: Sequence[HiddenPath], seen: str, hidden: str, title: str) -> Figure:
    """Draw what is seen above, and below what is not with what the policy remembers of it."""
    figure = Figure(figsize=(4.4 * len(paths), 5.2), layout="constrained")
    panels = figure.subplots(2, len(paths), sharex="col", sharey="row", squeeze=False)
    for path, (above, below) in zip(paths, panels.T, strict=True):
        above.plot(path.time, path.seen, color="0.35", linewidth=1)
        above.set_title(f"path {path.name}", fontsize=9)
        below.plot(path.time, path.hidden, color="black")
        below.plot(path.time, path.remembered, color=POLICY, linestyle="--")
        below.set_xlabel("time")
        for axes in (above, below):
            axes.grid(alpha=0.25, linewidth=0.5)
            if path.stopped:
                axes.axvline(path.time[-1], color=EXPERT, linewidth=1.6)
            if path.policy_stop is not None:
                axes.axvline(path.time[path.policy_stop], color=POLICY, linewidth=1.6, alpha=0.6)
    panels[0, 0].set_ylabel(f"{seen}, seen")
    panels[1, 0].set_ylabel(f"{hidden}, not seen")
    handles = [
        Line2D([], [], color="black", label=f"{hidden}, not seen"),
        Line2D([], [], color=POLICY, linestyle="--", label="what the policy remembers"),
        Line2D([], [], color=EXPERT, linewidth=1.6, label="expert stops"),
        Line2D([], [], color=POLICY, linewidth=1.6, alpha=0.6, label="policy stops"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def feature_paths(
    paths: TrajectorySet,
    most_features: int = 9,
    most_paths: int = 40,
    dates: TimeUnit | None = None,
) -> Figure:
    """Draw features along time since each path began, with the rows where the expert stopped.

    Args:
        paths: of features.
        most_features: that are drawn.
        most_paths: that are drawn.
        dates: unit of times that are dates, which are then drawn as such; None: they are numbers.
    """
    shown = min(most_features, len(paths.feature_names))
    columns = min(3, shown)
    rows = -(-shown // columns)
    figure = Figure(figsize=(4.2 * columns, 2.6 * rows + 0.5), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    elapsed = paths.times - np.repeat(paths.times[paths.offsets[:-1]], paths.lengths)
    shown_time = paths.times if dates else elapsed
    drawn = min(most_paths, len(paths))
    last = paths.last_rows[:drawn][paths.stopped[:drawn]]
    for axes in all_axes[shown:]:
        axes.set_visible(False)
    for feature, axes in zip(range(shown), all_axes, strict=False):
        values, time = paths.states[:, feature], _time_axis(axes, shown_time, dates)
        for start, end in zip(paths.offsets[:drawn], paths.offsets[1 : drawn + 1], strict=True):
            axes.plot(time[start:end], values[start:end], color="0.6", linewidth=0.7)
        axes.plot(time[last], values[last], "o", color=EXPERT, markersize=3)
        axes.set_title(paths.feature_names[feature], fontsize=10)
    for axes in all_axes[max(0, shown - columns) : shown]:
        axes.set_xlabel("date" if dates else "time since the path began")
    handle = Line2D([], [], color=EXPERT, marker="o", linestyle="", label="expert stops")
    figure.legend(handles=[handle], loc="outside lower center", frameon=False)
    return figure


def frontiers(curves: Mapping[str, FrontierCurve], unit: str = "") -> Figure:
    """Draw missed events against time to event for every threshold, with the chosen points.

    Where some paths are censored, a second panel has missed events against false alarms.

    Args:
        curves: by name.
        unit: of time.
    """
    alarms = any(np.isfinite(curve.false_alarm_rate).any() for curve in curves.values())
    figure = Figure(figsize=(10.4 if alarms else 6.4, 4.4), layout="constrained")
    panels = figure.subplots(1, 2 if alarms else 1, squeeze=False)[0]
    axes = panels[0]
    looks = zip(cycle(COLOURS), cycle("osD^vP*X"), strict=True)
    for (name, curve), (colour, marker) in zip(curves.items(), looks, strict=False):
        rate, chosen = curve.event_miss_rate, curve.chosen
        look = {"color": colour, "markersize": 9, "markeredgecolor": "white"}
        axes.step(rate, curve.time_to_event, where="pre", color=colour, linewidth=1.4, label=name)
        axes.fill_between(
            curve.band_rate, curve.low, curve.high, step="post", color=colour, alpha=0.15, lw=0
        )
        if np.isfinite(chosen.time_to_event):
            axes.plot(chosen.event_miss_rate, chosen.time_to_event, marker, **look)
        if alarms:
            panels[1].step(rate, curve.false_alarm_rate, where="pre", color=colour, linewidth=1.4)
            panels[1].plot(chosen.event_miss_rate, chosen.false_alarm_rate, marker, **look)
    axes.set(ylim=(0, None), ylabel="mean time from stop to event" + (f" ({unit})" if unit else ""))
    axes.plot([], [], "o", color="0.4", label="threshold in use")
    axes.fill_between([], [], color="0.5", alpha=0.25, label="90 % of bootstrap samples")
    axes.legend(frameon=False, fontsize=8)
    if alarms:
        panels[1].set(ylim=(0, None), ylabel="false alarms: share of censored paths stopped")
        panels[1].margins(y=0.1)
    for panel in panels:
        panel.set(xlabel="event-miss rate", xlim=(-0.02, 1.02))
        panel.grid(alpha=0.25, linewidth=0.5)
    return figure


def margin_shares(explanation: Explanation, most: int = 12) -> Figure:
    """Draw how much each coordinate adds to the margin of one decision, the largest on top."""
    ranked = sorted(explanation.shares.items(), key=lambda item: -abs(item[1]))
    shown, rest = ranked[:most], ranked[most:]
    labels = [explanation.label(name) for name, _ in shown]
    shares = [share for _, share in shown]
    if rest:
        labels.append(f"{len(rest)} others")
        shares.append(sum(share for _, share in rest))
    figure = Figure(figsize=(7, 0.36 * len(shares) + 1.6), layout="constrained")
    axes = figure.subplots()
    colours = [POLICY if share > 0 else EXPERT for share in shares]
    axes.barh(range(len(shares)), shares, color=colours)
    axes.set_yticks(range(len(shares)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    verdict = "stop" if explanation.stop else "continue"
    gains = f"G = {explanation.stop_gain:.3g}"
    if explanation.continuation_gain is not None:
        gains += f", g = {explanation.continuation_gain:.3g}"
    axes.set_title(
        f"{verdict}: margin {explanation.margin:.3g} (threshold {explanation.threshold:.3g}), "
        f"average {explanation.average_margin:.3g}; {gains}", fontsize=9,
    )  # fmt: skip
    axes.set_xlabel("share in the margin: towards stopping (right), towards continuing (left)")
    return figure


def evidence(curves: Mapping[str, tuple[Sequence[float], float]]) -> Figure:
    """Draw evidence along finished paths.

    Args:
        curves: by name the common logarithm after each path, and the one at which it suffices.
    """
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color="0.3", linewidth=0.8)
    for (name, (values, level)), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=1.4, label=name)
        axes.axhline(level, color=colour, linewidth=1, linestyle="--")
    axes.plot([], [], color="0.4", linestyle="--", label="alarm")
    axes.set(xlabel="paths since calibration", ylabel="evidence of a change, log₁₀")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _time_axis(axes: Any, time: FloatArray, dates: TimeUnit | None) -> FloatArray:
    """Return times as an axis shows them; prepare it for dates, which matplotlib counts in days."""
    if dates is None:
        return time
    locator = AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    return np.asarray(time * (SECONDS[dates] / SECONDS["days"]))


def _contour(
    axes: Any, x: FloatArray, y: FloatArray, values: FloatArray, level: float, **style: Any
) -> None:
    """Draw one level line, if the values cross it."""
    values = np.clip(values, -1e9, 1e9)  # infinite where the rule has no choice
    if values.min() < level <= values.max():
        axes.contour(x, y, values, levels=[level], **style)
