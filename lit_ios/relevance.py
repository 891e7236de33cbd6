"""Which features tell the rows where paths were stopped from others: those worth looking at."""

from __future__ import annotations

import numpy as np

from lit_ios.trajectories import STOP, FloatArray, IntArray, TrajectorySet

MOST_NUMBERS = 10_000_000  # that are sorted; of more, rows without a stop are drawn at random
FEWEST_ROWS = 2_000


def telling_features(paths: TrajectorySet) -> IntArray:
    """Return the features in the order in which they are worth looking at; (C,).

    The first tells best where paths were stopped, whatever the features: by the area under its ROC
    curve, in either direction, where the categories of a text column are in the order of how often
    they are stopped at. Features that tell the same stay in their own order.

    Args:
        paths: of raw columns, those of text coded; missing values are NaN.
    """
    rows, stop = _rows(paths)
    found = np.zeros(len(paths.feature_names))
    if stop.any() and not stop.all():
        for i, name in enumerate(paths.feature_names):
            values = paths.states[rows, i]
            if name in paths.categories:
                values = _stop_rates(values, stop, len(paths.categories[name]))
            found[i] = abs(area(values, stop) - 0.5)
    return np.argsort(-found.round(9), kind="stable")


def area(values: FloatArray, stop: FloatArray) -> float:
    """Return the share of pairs of a stop and another row in which the stop's value is larger.

    Equal values count one half. Rows without a value are left out.
    """
    known = np.isfinite(values)
    values, stop = values[known], stop[known]
    stops = int(stop.sum())
    if not 0 < stops < len(stop):
        return 0.5
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]  # from 1, the mean of equal values'
    above = rank[stop].sum() - stops * (stops + 1) / 2
    return float(above / (stops * (len(stop) - stops)))


def _rows(paths: TrajectorySet) -> tuple[IntArray, FloatArray]:
    """Return rows whose action is known, and which of them were stopped at."""
    rows = np.delete(np.arange(len(paths.states)), paths.last_rows[~paths.stopped])
    stop = paths.actions[rows] == STOP
    most = max(MOST_NUMBERS // max(len(paths.feature_names), 1), FEWEST_ROWS)
    if len(rows) > most:
        drawn = np.random.default_rng(0).permutation(len(rows))[:most]
        keep = np.zeros(len(rows), dtype=bool)
        keep[drawn] = keep[stop] = True
        rows, stop = rows[keep], stop[keep]
    return rows, stop


def _stop_rates(codes: FloatArray, stop: FloatArray, categories: int) -> FloatArray:
    """Return how often each row's category is stopped at; NaN stays."""
    known = np.isfinite(codes)
    code = codes[known].astype(np.int64)
    seen = np.bincount(code, minlength=categories)
    rate = np.bincount(code, stop[known], categories) / np.maximum(seen, 1)
    found = np.full(len(codes), np.nan)
    found[known] = rate[code]
    return found
