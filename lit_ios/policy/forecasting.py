"""How long is left: learnt on fresh paths, then said of every row (M9)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lit_ios.batches import path_batch
from lit_ios.checks import UserError, quoted
from lit_ios.live import Forecast
from lit_ios.policy.forecast_columns import FORECAST_COLUMNS, ForecastColumns, numbers
from lit_ios.policy.forecasts import learn
from lit_ios.policy.judging import Judge
from lit_ios.policy.known_paths import CHOSE_EPOCH, TRAINED, each_once, refuse_chosen_on
from lit_ios.recognition import recognised
from lit_ios.trajectories import TrajectorySet

if TYPE_CHECKING:
    from lit_ios.policy.tables import Table


class Forecasting(Judge):
    """Learns how long is left at a row, and says it."""

    def learn_forecast(
        self,
        data: Table | TrajectorySet,
        path: str | None = None,
        time: str | None = None,
        *,
        confidence: float = 0.9,
        horizons: Sequence[float] = (),
        seed: int = 0,
        allow_known_paths: bool = False,
        **roles: Any,
    ) -> Forecast:
        """Learn how long is left at a row (M9), on paths the model was not trained on.

        From then on tables and live paths say it. It depends on the margins, whatever the
        threshold; `docs/forecast.md` says what is promised of its lower bounds.

        Args:
            data: a table (see `predict`), a file or a TrajectorySet, with stops.
            path: column that names the path; by default as in training.
            time: column of times; by default as in training.
            confidence: with which lower bounds of the time left hold.
            horizons: times left that `predict` gives probabilities for.
            seed: of the half of the paths that bounds are made of; the other half tests them.
            allow_known_paths: as for `calibrate`.
            **roles: further arguments of TableRoles: stop, censored, sort, missing.
        """
        wanted = numbers("horizons", horizons)
        if not isinstance(seed, int) or seed < 0:
            raise UserError(f"seed must be an integer of at least 0, got {quoted(seed)}")
        paths, _ = self.labelled_paths(data, path, time, **roles)
        if not allow_known_paths:
            refuse_chosen_on(paths, self._about, TRAINED | CHOSE_EPOCH)
            paths, _ = each_once(paths)
        if met := recognised(paths, self._about.get("calibrated_on") or {}):
            warnings.warn(
                f"the threshold was chosen on {len(met)} of these {len(paths)} paths: what is "
                "promised of first stops may not hold, other bounds do",
                stacklevel=2,
            )
        margins = self._margins(paths, roles.get("missing"))
        self.learnt_forecast = learn(
            margins, path_batch(paths), self.rule.fingerprint, confidence, wanted, seed
        )
        self._live = None
        return self.learnt_forecast

    def forecast(
        self,
        table: Table,
        path: str | None = None,
        time: str | None = None,
        *,
        horizons: Sequence[float] | None = None,
        quantiles: Sequence[float] = FORECAST_COLUMNS.quantiles,
        **roles: Any,
    ) -> Any:
        """Judge every row as `predict` does, and say how long is left there.

        The columns are `remaining_low`, `remaining_low_at_stop`, `remaining_median` and others of
        the quantiles, and `stop_within_…` of the horizons, in the data's unit of time.

        Args:
            table: as for `predict`.
            path: as for `predict`.
            time: as for `predict`.
            horizons: times left to give probabilities for; by default those of `learn_forecast`.
            quantiles: of the time left.
            **roles: as for `predict`.
        """
        if self.learnt_forecast is None:
            raise UserError("no forecast was learnt: learn_forecast(data), or lit-ios forecast RUN")
        wanted = ForecastColumns(
            None if horizons is None else numbers("horizons", horizons),
            numbers("quantiles", quantiles),
        )
        return self._decided(table, path, time, wanted, roles)
