"""Alarms per unit of observed time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lit_ios.checks import check_number
from lit_ios.promises.base import Promise
from lit_ios.promises.sweep import Sweep

MOST_TIMES = 1e6
BETS = 20  # sizes of bets against the rate being exceeded, whose mean capital is taken


@dataclass(frozen=True)
class AlarmsPerTime(Promise):
    """At most so many first stops per unit of observed time where the expert went on (M7).

    With A = 1 for a path with an alarm, T its observed time and ρ the rate, E[A − ρT] ≤ 0 is kept
    in the mean by Σ A + 1 ≤ ρ Σ T (conformal risk control of a loss of at most 1). With a
    confidence 1 − δ: the capital Π (1 − ν (A − ρT)), averaged over bets ν in (0, 1), is positive
    and has a mean of at most 1 if the rate is exceeded, so that it reaches 1/δ with probability δ
    at most.

    Args:
        rate: alarms per unit of time, ρ.
        window: stops of stopped paths within this time of the expert's are no alarms, nor does
            that time count; at least the required lead.
        confidence: probability over calibrations with which it is kept; None for in the mean.
    """

    rate: float
    window: float = 0.0
    confidence: float | None = None
    prefers = "low"

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_number("rate", self.rate, above=0)
        check_number("window", self.window, at_least=0)
        self._check_confidence()

    def price(self, sweep: Sweep, error: float | None) -> Tensor:
        """Return 0 where there are few enough alarms, else ∞."""
        latest, observed = self.observed(sweep)
        could_be = sweep.paths.time.double() < latest[sweep.paths.path]
        could_be |= ~sweep.paths.stopped[sweep.paths.path]
        highest = sweep.highest(could_be)
        if error is None:
            alarms = sweep.reached(highest, sweep.weight)
            return self.kept(alarms + 1 <= self.rate * (observed * sweep.weight).sum())
        quiet, alarm = self._growth(observed)
        capital = (quiet * sweep.weight).sum(-1, keepdim=True)
        capital = capital + sweep.reached(highest, (alarm - quiet) * sweep.weight)  # (ν, K)
        return self.kept(_mean(capital) >= -math.log(error))

    def _growth(self, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logarithm by which a path without and with an alarm lets bets grow; (ν, P)."""
        due = self.rate * observed  # ρT
        bets = torch.arange(1, BETS + 1, dtype=torch.double)[:, None] / (BETS + 1)  # (ν, 1)
        return torch.log1p(bets * due), torch.log1p(-bets * (1 - due))

    def observed(self, sweep: Sweep) -> tuple[Tensor, Tensor]:
        """Return until when, and for how long, alarms of each path count; (P,) each."""
        paths = sweep.paths
        begin = paths.time[paths.first_row[paths.last_row]].double()
        end = paths.time[paths.last_row].double()
        latest = torch.where(paths.stopped, end - max(self.window, paths.lead), end)
        return latest, (latest - begin).clamp(min=0)

    def shortage(self, sweep: Sweep, error: float | None) -> str | None:
        """Say how much time must be observed if even no alarm at all would not do."""
        _, observed = self.observed(sweep)
        time = float((observed * sweep.weight).sum())
        least = 1 / self.rate
        if error is not None:
            quiet, _ = self._growth(observed)
            capital = (quiet * sweep.weight).sum(-1)
            enough = 1.0  # times as much as there is
            while float(_mean(enough * capital)) < -math.log(error) and enough < MOST_TIMES:
                enough *= 1.01
            least = time * enough if enough > 1 else 0.0
        if time >= least and time > 0:
            return None
        return f"at least {least:.3g} units of time must be observed, not {time:.3g}"

    @property
    def words(self) -> str:
        """What is promised."""
        window = f" more than {self.window:g} before the event" if self.window else ""
        return f"alarms{window} per unit of time at most {self.rate:.6g}, {self._certainly()}"


def _mean(capital: Tensor) -> Tensor:
    """Return the logarithm of the mean of capitals given by their logarithms; (ν, …) → (…)."""
    return capital.logsumexp(0) - math.log(len(capital))
