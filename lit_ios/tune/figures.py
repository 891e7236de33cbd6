"""Figures of a study: what matters, and where good trials lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from lit_ios.plotting import EXPERT, POLICY, styled
from lit_ios.plotting.style import ALONG, SMALL, SOFT
from lit_ios.tune.space import Knob, label_of
from lit_ios.tune.study import Done

LONG = 14  # characters of a choice that are shown


@styled
def importance_figure(shares: Mapping[str, float], trials: int) -> Figure:
    """Draw how much of the scores' variance each setting explains.

    Args:
        shares: by name, the largest first.
        trials: complete ones that they are from.
    """
    names = list(shares)
    figure = Figure(figsize=(7.5, 1.6 + 0.42 * len(names)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(names, [shares[name] for name in names], color=EXPERT)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1e-9, *shares.values()) * 1.15)
    axes.set_xlabel("share of the variance of held-out balanced accuracy")
    axes.set_title(f"importance of settings, from {trials} complete trials")
    axes.grid(visible=False, axis="y")
    return figure


@styled
def trials_figure(knobs: Sequence[Knob], done: Sequence[Done], best: Done) -> Figure:
    """Draw each complete trial as a line through its settings, coloured by its score.

    Args:
        knobs: one axis for each.
        done: trials.
        best: drawn on top.
    """
    complete = [one for one in done if one.score is not None and len(one.values) == len(knobs)]
    figure = Figure(figsize=(2.6 + 1.9 * (len(knobs) + 1), 5.4), layout="constrained")
    axes = figure.subplots()
    scores = [one.score for one in complete if one.score is not None] or [0.0, 1.0]
    # the worst trials would take all colours: the lower half of the scores shares the first ones
    norm = Normalize(float(np.quantile(scores, 0.25)), max(scores))
    colours = colormaps[f"{ALONG}_r"]
    score_axis = Knob("score", "score", (), min(scores), max(max(scores), min(scores) + 1e-9))
    shown = [*knobs, score_axis]
    for one in sorted(complete, key=lambda one: one.score or 0.0):
        heights = [height(knob, (one.values | {"score": one.score})[knob.name]) for knob in shown]
        own = one.number == best.number
        axes.plot(
            range(len(shown)), heights, color=POLICY if own else colours(norm(one.score or 0.0)),
            linewidth=2.6 if own else 0.9, alpha=1.0 if own else 0.75, zorder=3 if own else 2,
            label=f"the best, trial {best.number}" if own else None,
        )  # fmt: skip
    for place, knob in enumerate(shown):
        axes.axvline(place, color=SOFT, linewidth=0.8, zorder=1)
        for at, text in marks(knob):
            axes.annotate(
                text, (place, at), (-4, 0), textcoords="offset points", ha="right", va="center",
                fontsize=SMALL, zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
            )  # fmt: skip
    axes.set_xticks(range(len(shown)), [_title(knob) for knob in shown])
    axes.set_xlim(-0.7, len(shown) - 0.8)
    axes.set_ylim(-0.06, 1.06)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    axes.set_title(f"{len(complete)} complete of {len(done)} trials")
    if any(one.number == best.number for one in complete):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), frameon=False)
    figure.colorbar(
        ScalarMappable(norm, colours), ax=axes, label="held-out balanced accuracy", shrink=0.85,
        extend="min",
    )  # fmt: skip
    return figure


def height(knob: Knob, value: Any) -> float:
    """Return where a value lies on its axis, from 0 to 1."""
    if knob.choices:
        return list(knob.labels).index(label_of(value)) / (len(knob.choices) - 1)
    low, high = knob.low, knob.high
    if knob.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low))


def marks(knob: Knob) -> list[tuple[float, str]]:
    """Return what is written beside an axis, and where."""
    if knob.choices:
        return [(height(knob, choice), _short(label)) for label, choice in knob.labels.items()]
    middle = math.sqrt(knob.low * knob.high) if knob.log else (knob.low + knob.high) / 2
    return [(height(knob, value), f"{value:.3g}") for value in (knob.low, middle, knob.high)]


def _short(label: Any) -> str:
    text = str(label)
    text = text.rpartition(".")[2] if text.replace(".", "_").isidentifier() else text
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _title(knob: Knob) -> str:
    return knob.name.rpartition(".")[2].replace("_", "\n")
