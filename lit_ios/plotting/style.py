"""How every figure looks: colours, sizes of text and lines, units. Declared here and nowhere else.

The colours are those of Okabe and Ito, and a grey, which colour-blind readers tell apart; maps of
values that have a middle go from blue to red, others through viridis. Text is large enough to be
read at half the size, as on a slide or in two columns of print.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#BBBBBB")
EXPERT, POLICY, GOOD = COLOURS[:3]
INK, SOFT = "0.25", "0.6"  # of lines that are neither
AROUND_ZERO, ALONG = "RdBu_r", "viridis"  # maps of values
TEXT, SMALL = 13, 11.5  # points
STYLE: dict[Any, Any] = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "figure.titlesize": TEXT,
    "lines.linewidth": 1.8,
    "lines.markersize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.prop_cycle": cycler(color=COLOURS),
}
P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a function draw in this style, whatever the program around it draws in."""

    @functools.wraps(draw)
    def made(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            figure = draw(*args, **kwargs)
        for axes in figure.axes:  # ticks are made when a figure is shown, out of this style
            axes.tick_params(which="both", labelsize=SMALL)
        return figure

    return made


def with_unit(label: str, unit: str) -> str:
    """Return the label of an axis with its unit."""
    return f"{label} ({unit})" if unit else label
