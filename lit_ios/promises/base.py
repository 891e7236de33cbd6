"""What every promise has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from lit_ios.checks import check_number
from lit_ios.promises.sweep import Sweep


class Promise(ABC):
    """What a threshold keeps, or is best at; a frozen dataclass with one method, `price`.

    `prefers` says which of the thresholds that keep the promise is taken: the highest, which stops
    least, or the lowest, which misses least. None makes it a goal: the cheapest is taken. With
    promises of both kinds the highest threshold that keeps all is.

    `confidence` is the probability over calibrations with which it is kept; None where it is kept
    in the mean.
    """

    prefers: ClassVar[Literal["high", "low"] | None] = None
    confidence: float | None = None

    @abstractmethod
    def price(self, sweep: Sweep, error: float | None) -> Tensor:
        """Return what each threshold of the sweep costs, ∞ where it breaks the promise; (K,).

        Args:
            sweep: what each threshold does on the calibration paths.
            error: probability with which the promise may be broken; None without a confidence.
        """

    @property
    @abstractmethod
    def words(self) -> str:
        """What is promised, for people."""

    def shortage(self, sweep: Sweep, error: float | None) -> str | None:
        """Say what is missing if no threshold can keep it with so few paths; None if enough.

        It must not look at margins: which groups are large enough is decided by it.
        """
        return None

    def risk(self, sweep: Sweep) -> float | None:
        """Return the probability over calibrations that one of them breaks a promise in the mean.

        At most; None where it is not known, or where the promise has a confidence.
        """
        return None

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, as checkpoints and exported files keep it."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"promise": type(self).__name__} | values

    @staticmethod
    def kept(holds: Tensor) -> Tensor:
        """Return the price of a promise that holds at some thresholds: 0 there, ∞ elsewhere."""
        return torch.where(holds, 0.0, torch.inf).double()

    def _check_confidence(self) -> None:
        if self.confidence is not None:
            check_number("confidence", self.confidence, above=0, below=1)

    def _certainly(self) -> str:
        """Say how sure the promise is."""
        return (
            "in the mean" if self.confidence is None else f"with {self.confidence:.6g} confidence"
        )
