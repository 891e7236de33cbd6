"""What a rule does: its frontier, its reasons, the evidence against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lit_ios.plotting.style import (
    COLOURS,
    EXPERT,
    INK,
    POLICY,
    SMALL,
    SOFT,
    styled,
    with_unit,
)

if TYPE_CHECKING:
    from lit_ios.policy import Explanation, FrontierCurve


@styled
def frontiers(
    curves: Mapping[str, FrontierCurve],
    unit: str = "",
    *,
    misses: float | None = None,
    alarms: float | None = None,
) -> Figure:
    """Draw missed events against time to event for every threshold, with the chosen points.

    Where some paths are censored, a second panel has missed events against false alarms.

    Args:
        curves: by name.
        unit: of time.
        misses: event-miss rate that is promised, drawn as a line.
        alarms: false-alarm rate that is promised.
    """
    censored = any(np.isfinite(curve.false_alarm_rate).any() for curve in curves.values())
    figure = Figure(figsize=(12 if censored else 7, 4.8), layout="constrained")
    panels = figure.subplots(1, 2 if censored else 1, squeeze=False)[0]
    axes = panels[0]
    looks = zip(cycle(COLOURS), cycle("osD^vP*X"), strict=True)
    for (name, curve), (colour, marker) in zip(curves.items(), looks, strict=False):
        rate, chosen = curve.event_miss_rate, curve.chosen
        look = {"color": colour, "markersize": 9, "markeredgecolor": "white"}
        axes.step(rate, curve.time_to_event, where="pre", color=colour, label=name)
        axes.fill_between(
            curve.band_rate, curve.low, curve.high, step="post", color=colour, alpha=0.15, lw=0
        )
        if np.isfinite(chosen.time_to_event):
            axes.plot(chosen.event_miss_rate, chosen.time_to_event, marker, **look)
        if censored:
            panels[1].step(rate, curve.false_alarm_rate, where="pre", color=colour)
            panels[1].plot(chosen.event_miss_rate, chosen.false_alarm_rate, marker, **look)
    axes.set(ylim=(0, None), ylabel=with_unit("mean time from stop to event", unit))
    axes.plot([], [], "o", color=INK, label="threshold in use")
    axes.fill_between([], [], color=SOFT, alpha=0.4, label="90 % of bootstrap samples")
    if misses is not None or alarms is not None:
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.2, label="promised at most")
    axes.legend()
    if censored:
        if alarms is not None:
            panels[1].axhline(alarms, color=INK, linestyle="--", linewidth=1.2)
        panels[1].margins(y=0.1)
        panels[1].set(ylim=(0, None), ylabel="censored paths stopped (false alarms)")
    for panel in panels:
        panel.set(xlabel="events missed", xlim=(-0.02, 1.02))
        panel.xaxis.set_major_formatter(PercentFormatter(1))
        if misses is not None:
            panel.axvline(misses, color=INK, linestyle="--", linewidth=1.2)
    if censored:
        panels[1].yaxis.set_major_formatter(PercentFormatter(1))
    return figure


@styled
def margin_shares(explanation: Explanation, most: int = 9) -> Figure:
    """Draw how much each coordinate adds to the margin of one decision, the largest on top."""
    ranked = sorted(explanation.shares.items(), key=lambda item: -abs(item[1]))
    shown, rest = ranked[:most], ranked[most:]
    labels = [explanation.label(name) for name, _ in shown]
    shares = [share for _, share in shown]
    if rest:
        labels.append(f"{len(rest)} others")
        shares.append(sum(share for _, share in rest))
    figure = Figure(figsize=(6.6, 0.42 * len(shares) + 1.9), layout="constrained")
    axes = figure.subplots()
    colours = [POLICY if share > 0 else EXPERT for share in shares]
    axes.barh(range(len(shares)), shares, color=colours)
    axes.set_yticks(range(len(shares)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=INK, linewidth=1)
    verdict = "stop" if explanation.stop else "continue"
    gains = f"G = {explanation.stop_gain:.3g}"
    if explanation.continuation_gain is not None:
        gains += f", g = {explanation.continuation_gain:.3g}"
    axes.set_title(
        f"{verdict}: margin {explanation.margin:.3g}, threshold {explanation.threshold:.3g}\n"
        f"at the average state {explanation.average_margin:.3g}; {gains}",
        fontsize=SMALL, loc="left",
    )  # fmt: skip
    axes.set_xlabel("← continue · share in the margin · stop →")
    return figure


@styled
def evidence(curves: Mapping[str, tuple[Sequence[float], float]]) -> Figure:
    """Draw evidence along finished paths.

    Args:
        curves: by name the common logarithm after each path, and the one at which it suffices.
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color=INK, linewidth=1)
    for (name, (values, level)), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axes.plot(range(1, len(values) + 1), values, color=colour, label=name)
        axes.axhline(level, color=colour, linewidth=1, linestyle="--")
    axes.plot([], [], color=INK, linewidth=1, linestyle="--", label="alarm")
    axes.set(xlabel="paths since calibration", ylabel="evidence of a change, log₁₀")
    axes.legend()
    return figure
