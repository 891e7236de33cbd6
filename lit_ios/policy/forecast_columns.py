"""How long is left, as columns of a table.

remaining_low           with the forecast's confidence at least this time is left
remaining_low_at_stop   the same at the first stop of a path, empty at other rows
remaining_median        half of such paths are stopped within this time
remaining_q10, …        other quantiles; ∞ where calibration paths were not followed for that long
stop_within_30, …       probability that the stop comes within this time
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np

from lit_ios.batches import PathBatch
from lit_ios.checks import UserError, quoted
from lit_ios.live import Forecast
from lit_ios.rule import Decisions
from lit_ios.trajectories import FloatArray


class ForecastColumns(NamedTuple):
    """What a table is to say of the time left."""

    horizons: tuple[float, ...] | None = None  # None: those the forecast was learnt with
    quantiles: tuple[float, ...] = (0.5,)


FORECAST_COLUMNS = ForecastColumns()


def numbers(name: str, given: Iterable[float]) -> tuple[float, ...]:
    """Return a list of numbers that an argument gives; refuse what is none."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(f"{name} must be a list of numbers, got {quoted(given)}: {name}=[…]")
    values = tuple(given)
    for value in values:
        if not isinstance(value, Real):
            raise UserError(f"{name} must be a list of numbers, got {quoted(value)} in it")
    return tuple(map(float, values))


def forecast_columns(
    forecast: Forecast | None,
    batch: PathBatch,
    decisions: Sequence[Decisions],
    threshold: float,
    wanted: ForecastColumns = FORECAST_COLUMNS,
) -> dict[str, FloatArray]:
    """Return the columns by name, none if nothing was learnt.

    Args:
        forecast: that was learnt.
        batch: the paths.
        decisions: on all of their rows, in this order.
        threshold: by which the rule stops.
        wanted: which columns.
    """
    if forecast is None or not decisions:
        return {}
    margin, first_stop = (
        np.concatenate([getattr(part, name).cpu().numpy() for part in decisions])
        for name in ("margin", "first_stop")
    )
    time = batch.time.double()
    elapsed = (time - time[batch.first_row]).cpu().numpy()
    left = forecast(margin.astype(np.float64), elapsed, first_stop, np.full(len(margin), threshold))
    columns = {"remaining_low": left.low, "remaining_low_at_stop": left.low_at_stop}
    for quantile in wanted.quantiles:
        name = "median" if quantile == 0.5 else f"q{100 * quantile:g}"
        columns[f"remaining_{name}"] = left.quantile(quantile)
    for horizon in forecast.horizons if wanted.horizons is None else wanted.horizons:
        columns[f"stop_within_{horizon:g}"] = left.within(horizon)
    return columns
