"""Q and the stopping region in the plane of two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_ios.plotting.style import ALONG, AROUND_ZERO, styled, with_unit
from lit_ios.trajectories import FloatArray

MOST_LINES = 12  # boundaries that are drawn: more cannot be told apart


@styled
def q_heat_maps(
    x: FloatArray,
    y: FloatArray,
    q: FloatArray,
    *,
    truth: FloatArray | None = None,
    threshold: float = 0.0,
    time: float | None = None,
    names: Sequence[str] = ("x0", "x1"),
    unit: str = "",
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
        unit: of time.
    """
    figure = Figure(figsize=(13, 4.9), layout="constrained")
    margin = q[..., 0] - q[..., 1]
    panels = {"Q(s, stop)": q[..., 0], "Q(s, continue)": q[..., 1], "their difference": margin}
    for axes, (title, values) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        largest = max(float(np.abs(values).max()), 1e-12)
        image = axes.pcolormesh(
            x, y, values, cmap=AROUND_ZERO, norm=TwoSlopeNorm(0, -largest, largest), rasterized=True
        )
        figure.colorbar(image, ax=axes, shrink=0.85)
        _contour(axes, x, y, margin, threshold, colors="black", linewidths=1.8)
        if truth is not None:
            _contour(
                axes, x, y, truth, 0.0,
                colors="black", linewidths=1.8, linestyles="--",
            )  # fmt: skip
        axes.set(title=title, xlabel=names[0], ylabel=names[1], box_aspect=1)
        axes.grid(visible=False)
    lines = [Line2D([], [], color="black", label="recovered boundary")]
    if truth is not None:
        lines.append(Line2D([], [], color="black", linestyle="--", label="true boundary"))
    figure.legend(handles=lines, loc="outside lower center", ncols=2)
    if time is not None:
        figure.suptitle(f"at time {time:g}{f' {unit}' if unit else ''}")
    return figure


@styled
def boundaries(
    x: FloatArray,
    y: FloatArray,
    margin: FloatArray,
    times: FloatArray,
    *,
    truth: FloatArray | None = None,
    threshold: float = 0.0,
    names: Sequence[str] = ("x0", "x1"),
    unit: str = "",
) -> Figure:
    """Draw the boundary of the stopping region along time, the true one beside the recovered.

    Args:
        x: (W,) grid.
        y: (H,) grid.
        margin: (T, H, W).
        times: (T,).
        truth: (T, H, W) at least 0 inside the true stopping region.
        threshold: margin at which the policy stops.
        names: of the two features.
        unit: of time.
    """
    shown = np.unique(np.linspace(0, len(times) - 1, min(MOST_LINES, len(times))).round())
    margin, times = margin[shown.astype(np.int64)], times[shown.astype(np.int64)]
    truth = None if truth is None else truth[shown.astype(np.int64)]
    panels = {"recovered": (margin, threshold)}
    if truth is not None:
        panels = {"true": (truth, 0.0), **panels}
    figure = Figure(figsize=(5.2 * len(panels) + 1, 5), layout="constrained")
    norm = Normalize(float(times.min()), float(times.max()))
    colours = colormaps[ALONG]
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, (values, level)) in zip(all_axes, panels.items(), strict=True):
        for time, plane in zip(times, values, strict=True):
            _contour(axes, x, y, plane, level, colors=[colours(norm(time))], linewidths=1.6)
        axes.set(
            title=f"{title} boundary", xlabel=names[0], ylabel=names[1], box_aspect=1,
            xlim=(x[0], x[-1]), ylim=(y[0], y[-1]),
        )  # fmt: skip
        axes.grid(visible=False)
    figure.colorbar(
        ScalarMappable(norm, ALONG), ax=all_axes, label=with_unit("time", unit), shrink=0.85
    )
    return figure


def _contour(
    axes: Any, x: FloatArray, y: FloatArray, values: FloatArray, level: float, **style: Any
) -> None:
    """Draw one level line, if the values cross it."""
    values = np.clip(values, -1e9, 1e9)  # infinite where the rule has no choice
    if values.min() < level <= values.max():
        axes.contour(x, y, values, levels=[level], **style)
