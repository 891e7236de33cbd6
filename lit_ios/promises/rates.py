"""Shares of paths: events missed, and censored paths stopped."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lit_ios.checks import check_number
from lit_ios.promises.base import Promise
from lit_ios.promises.binomial import allowed, below, least_level, needed
from lit_ios.promises.sweep import Sweep


@dataclass(frozen=True)
class _Rate(Promise):
    """At most a share of the fresh paths of some kind goes wrong, whatever their law.

    Args:
        level: the share α in (0, 1).
        confidence: probability over calibrations with which it is kept; None for in the mean.
    """

    level: float
    confidence: float | None = None
    _kind: ClassVar[str]
    _name: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_number("level", self.level, above=0, at_most=0.999)
        self._check_confidence()

    @abstractmethod
    def _counts(self, sweep: Sweep) -> tuple[Tensor, int]:
        """Return how many paths go wrong at each threshold, and of how many."""

    @abstractmethod
    def _number(self, sweep: Sweep) -> int:
        """Return how many paths count."""

    def price(self, sweep: Sweep, error: float | None) -> Tensor:
        """Return 0 where few enough of the calibration paths go wrong, else ∞."""
        wrong, n = self._counts(sweep)
        return self.kept(wrong <= allowed(n, self.level, error))

    def shortage(self, sweep: Sweep, error: float | None) -> str | None:
        """Say how many paths are needed if even no mistake at all would not do."""
        n, least = self._number(sweep), needed(self.level, error)
        if n >= least:
            return None
        possible = math.ceil(1000 * least_level(n, error)) / 1000
        at_best = f" (which can promise {possible:g} at best)" if possible < 1 else ""
        return f"at least {least} {self._kind} paths are needed, not {n}{at_best}"

    def risk(self, sweep: Sweep) -> float | None:
        """Return the probability by which one calibration exceeds a level promised in the mean.

        It is exact where margins are continuous and nothing else moves the threshold, else at most
        this.
        """
        if self.confidence is not None:
            return None
        n = self._number(sweep)
        return below(allowed(n, self.level, None), n, self.level)

    @property
    def words(self) -> str:
        """What is promised."""
        return f"{self._name} at most {self.level:.6g}, {self._certainly()}"


@dataclass(frozen=True)
class MissRate(_Rate):
    """At most a share of the events of fresh paths is missed (M3, M8).

    >>> from lit_ios.promises import MissRate
    >>> MissRate(0.05, confidence=0.95).words
    'event-miss rate at most 0.05, with 0.95 confidence'
    """

    prefers = "high"
    _kind = "stopped"
    _name = "event-miss rate"

    def _counts(self, sweep: Sweep) -> tuple[Tensor, int]:
        return sweep.missed, sweep.events

    def _number(self, sweep: Sweep) -> int:
        return sweep.events


@dataclass(frozen=True)
class FalseAlarms(_Rate):
    """At most a share of fresh censored paths is stopped (M7).

    >>> from lit_ios.promises import FalseAlarms
    >>> FalseAlarms(0.1).words
    'false alarms at most 0.1, in the mean'
    """

    prefers = "low"
    _kind = "censored"
    _name = "false alarms"

    def _counts(self, sweep: Sweep) -> tuple[Tensor, int]:
        return sweep.false_alarms, sweep.censored

    def _number(self, sweep: Sweep) -> int:
        return sweep.censored
