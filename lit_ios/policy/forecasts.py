"""The time left at a row, learnt from paths the rule was not trained on (M9)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.checks import UserError, check_number
from lit_ios.functional.remaining import TimeLeft, product_limit, time_left
from lit_ios.live.forecast import Forecast, first_times, promised
from lit_ios.rule import StoppingRule
from lit_ios.trajectories import BoolArray, FloatArray, row_blocks

MARGINS, ELAPSED, TIMES, SHORTEST = 25, 13, 64, 16  # knots
INTERVALS = 256  # of elapsed time at most, for each of which a bound is promised
END_SHARE = 0.5  # of the knots of the margin that go by the last rows of paths
MARGIN_WIDTH, ELAPSED_WIDTH = 0.053, 0.176  # of the kernels, in shares of the knots, at one path
LEVELS = np.append(0.0, np.geomspace(0.002, 0.95, 47))  # quantiles that bounds are made of
FEWEST = 10


def read_forecast(about: Mapping[str, Any], rule: StoppingRule) -> Forecast | None:
    """Return the forecast that a checkpoint's entry `lit_ios` keeps, if any.

    One that was learnt for other weights is refused: its margins are not this rule's.
    """
    kept = about.get("forecast")
    if kept is None:
        return None
    found = Forecast.of({name: _array(value) for name, value in kept.items()})
    if found.rule != rule.fingerprint:
        raise UserError("its forecast belongs to another rule, whose weights differ: learn it anew")
    return found


def kept_forecast(forecast: Forecast | None) -> dict[str, Any] | None:
    """Return a forecast as checkpoints keep it: tensors and plain values."""
    if forecast is None:
        return None
    return {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in forecast.plain().items()
    }


def _array(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise ValueError("a tensor that repeats what it stores, which may be without end")
    return value.numpy()


class Grid(NamedTuple):
    """Knots of margin and elapsed time."""

    margins: Tensor  # (U,)
    elapsed: Tensor  # (T,)


def learn(
    margin: Tensor,
    batch: PathBatch,
    fingerprint: str,
    confidence: float = 0.9,
    horizons: tuple[float, ...] = (),
    seed: int = 0,
) -> Forecast:
    """Learn the law of the time left and the bounds that go with it.

    Half of the paths, drawn at random, make the bounds and where the knots lie; the other half
    says which bounds can be promised. All of them make the law.

    Args:
        margin: (M,) of all rows.
        batch: their paths.
        fingerprint: of the rule the margins are of.
        confidence: with which bounds are to hold.
        horizons: times left that tables give a probability for.
        seed: of the halves.
    """
    rows, count = time_left(batch), len(batch.stopped)
    check_number("confidence", confidence, at_least=0.5, at_most=0.999)
    _check_paths(rows, count, confidence)
    margin, path = margin.double(), batch.path
    half = torch.from_numpy(np.random.default_rng(seed).permutation(count) < count // 2)
    first, last_row = half[path], torch.zeros_like(rows.seen)
    last_row[batch.last_row] = True
    grid = Grid(
        _knots(margin[first], MARGINS, last_row[first], END_SHARE),
        _knots(rows.elapsed[first], ELAPSED, last_row[first], 0.0),
    )
    times = time_knots(rows.left)
    survival = survival_on_grid(margin, rows, times, grid, count)
    bounds = _bounds(margin[first], _part(rows, first), grid, int(half.sum()))
    starts = _starts(rows.elapsed[first], path[first])
    plain = {
        "margins": grid.margins.numpy(),
        "elapsed": grid.elapsed.numpy(),
        "times": times.numpy(),
        "survival": survival.numpy().round(6),
        "bounds": bounds,
        "starts": starts,
        "positions": np.zeros(len(starts)),
        "record_path": np.zeros(0, dtype=np.int64),
        "record_margin": np.zeros(0),
        "record_position": np.zeros(0),
        "confidence": float(confidence),
        "paths": count,
        "events": int(rows.seen[batch.last_row].sum()),
        "rule": fingerprint,
        "horizons": (),
    }
    calm = Forecast.of(plain)
    for horizon in horizons:  # refuses those of which the paths say nothing
        calm(*(np.zeros(1),) * 2, np.zeros(1, bool), np.zeros(1)).within(float(horizon))
    held = held_positions(calm, margin[~first].numpy(), _part(rows, ~first))
    others = path[~first].numpy()
    plain["positions"] = _promises(calm, others, rows.elapsed[~first].numpy(), held)
    records = _records(margin[~first].numpy(), others)
    plain |= {
        "record_path": others[records],
        "record_margin": margin[~first].numpy()[records],
        "record_position": held[records],
    }
    return Forecast.of(plain | {"horizons": tuple(map(float, horizons))})


def paths_needed(confidence: float) -> int:
    """Return how many paths bounds need: half of them n with ⌊α(n + 1)⌋ ≥ 1."""
    return max(2 * math.ceil(1 / (1 - confidence) - 1 - 1e-9), FEWEST)


def _check_paths(rows: TimeLeft, count: int, confidence: float) -> None:
    needed = paths_needed(confidence)
    if count < needed:
        raise UserError(
            f"a bound that holds with confidence {confidence:g} needs at least {needed} "
            f"calibration paths, there are {count}: give more, or a lower confidence"
        )
    if not rows.seen.any():
        raise UserError("no calibration path was stopped: they do not say how long is left")


def _part(rows: TimeLeft, wanted: Tensor) -> TimeLeft:
    return TimeLeft(*(values[wanted] for values in rows))


# The law -----------------------------------------------------------------------------------------


def survival_on_grid(
    margin: Tensor, rows: TimeLeft, times: Tensor, grid: Grid, paths: int
) -> Tensor:
    """Return P(more than x is left) at the knots of margin and elapsed time; (U, T, X).

    Product-limit estimates over all rows, weighted by Gaussian kernels of where the rows lie among
    the knots, as wide as (number of paths)^(−1/6) makes them. Rows that are far away weigh as
    much as a tenth of one row between them, so that every knot has an estimate.
    """
    narrow = paths ** (-1 / 6)
    u = _distances(margin, grid.margins) / (MARGIN_WIDTH * narrow)  # (U, N)
    t = _distances(rows.elapsed, grid.elapsed) / (ELAPSED_WIDTH * narrow)  # (T, N)
    far = 0.1 / len(margin)
    return torch.stack([
        product_limit(rows.left, rows.seen, torch.exp(-(one**2 + t**2) / 2) + far, times)
        for one in u
    ])  # fmt: skip


def _distances(values: Tensor, knots: Tensor) -> Tensor:
    """Return how far values are from each knot, in shares of all knots; (N,) → (K, N)."""
    among = np.linspace(0, 1, len(knots))
    at = torch.from_numpy(np.interp(values.numpy(), knots.numpy(), among))
    return torch.from_numpy(among)[:, None] - at


def _knots(values: Tensor, count: int, last_row: Tensor, end_share: float) -> Tensor:
    """Return quantiles of values; a share of them goes by the last rows of paths alone."""
    weight = (1 - end_share) / len(values) + last_row.double() * (end_share / last_row.sum())
    order = values.argsort()
    reached = weight[order].cumsum(0) - weight[order] / 2
    share = np.linspace(0, 1, count)
    found = np.unique(np.interp(share, reached.numpy(), values[order].numpy()))
    return torch.from_numpy(found if len(found) > 1 else np.append(found, found + 1))


def time_knots(left: Tensor) -> Tensor:
    """Return times left, from 0: all there are, or the shortest ones and quantiles of the rest."""
    known = np.unique(np.append(0.0, left.numpy()))
    if len(known) <= TIMES:
        return torch.from_numpy(known if len(known) > 1 else np.array([0.0, 1.0]))
    share = np.linspace(0, 1, TIMES - SHORTEST)
    spread = np.quantile(left.numpy(), share, method="lower")
    return torch.from_numpy(np.unique(np.concatenate([known[:SHORTEST], spread])))


# Bounds ------------------------------------------------------------------------------------------


def _bounds(margin: Tensor, rows: TimeLeft, grid: Grid, paths: int) -> FloatArray:
    """Return quantiles of the time a path is still followed for; (U, T, K), rising in K.

    The end of observation counts as the event. It comes no later than that, so what bounds
    the one bounds the other, whatever the reason for which observation ended.
    """
    times = time_knots(rows.left)
    ended = rows._replace(seen=torch.ones_like(rows.seen))
    survival = survival_on_grid(margin, ended, times, grid, paths).numpy()
    within = np.maximum.accumulate(1 - survival.reshape(-1, len(times)), axis=1)
    columns = [first_times(within, times.numpy(), level) for level in LEVELS[1:]]
    found = np.stack([np.zeros(len(within)), *columns], 1).clip(max=float(times[-1]))
    digits = 6 - math.ceil(math.log10(float(times[-1])))
    found = np.maximum.accumulate(found.round(max(digits, 0)), axis=1)
    return found.reshape(*survival.shape[:2], len(LEVELS))


def held_positions(forecast: Forecast, margin: FloatArray, rows: TimeLeft) -> FloatArray:
    """Return the boldest position of the bounds that holds at each row; (N,)."""
    held = np.empty(len(margin))
    never = np.zeros(len(margin), dtype=bool)
    elapsed, left = rows.elapsed.numpy(), rows.left.numpy()
    for block in row_blocks(len(margin), 1 << 13):
        at = forecast(margin[block], elapsed[block], never[block], margin[block])
        bold = forecast.bold(at.corners, at.weights)  # (B, K), rising
        k = (bold <= left[block][:, None]).sum(1).clip(min=1) - 1
        above = np.minimum(k + 1, bold.shape[1] - 1)
        row = np.arange(len(k))
        rise = bold[row, above] - bold[row, k]
        share = np.divide(left[block] - bold[row, k], rise, out=np.zeros(len(k)), where=rise > 0)
        held[block] = k + share.clip(0, 1)
    return held


def _starts(elapsed: Tensor, path: Tensor) -> FloatArray:
    """Return where intervals of elapsed time begin, around multiples of the usual step.

    Rows that are regularly spaced have an interval each: what is promised there is promised of the
    paths that go on until then, whatever became of others on the way.
    """
    steps = elapsed.diff()[path.diff() == 0]
    longest = float(elapsed.max())
    if not len(steps):
        return np.zeros(1)
    width = max(float(steps.median()), longest / (INTERVALS - 2))
    return np.append(0.0, (np.arange(round(longest / width)) + 0.5) * width)


def _promises(
    forecast: Forecast, path: FloatArray, elapsed: FloatArray, held: FloatArray
) -> FloatArray:
    """Return the position that can be promised in each interval, for all rows there at once."""
    interval = np.searchsorted(forecast.starts, elapsed, side="right") - 1
    found = []
    for number in range(len(forecast.starts)):
        inside = np.flatnonzero(interval == number)
        _, which = np.unique(path[inside], return_inverse=True)
        least = np.full(which.max(initial=-1) + 1, np.inf)
        np.minimum.at(least, which, held[inside])
        found.append(promised(least, forecast.confidence))
    return np.array(found)


def _records(margin: FloatArray, path: FloatArray) -> BoolArray:
    """Say which rows have the largest margin of their path so far: the first stops there can be."""
    begins = np.flatnonzero(np.diff(path, prepend=-1))
    found = np.zeros(len(margin), dtype=bool)
    for begin, end in zip(begins, [*begins[1:], len(margin)], strict=True):
        so_far = np.maximum.accumulate(margin[begin:end])
        found[begin:end] = np.append(True, so_far[1:] > so_far[:-1])
    return found
