"""Means of the loss terms over an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class TermMeans:
    """Adds up loss terms on their device, to be logged once an epoch."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sums: Tensor | None = None
        self.steps = 0

    def add(self, records: dict[Any, Any]) -> None:
        """Count the terms of one step."""
        with torch.no_grad():
            terms = [term for record in records.values() for term in record]
            values = torch.stack(terms)
            values = values if values.ndim == 1 else values.mean(-1)  # over members
        if self.sums is None:
            self.names = [
                f"train/{part}/{term}"
                for part, record in records.items()
                for term in record._fields
            ]
            self.sums = torch.zeros_like(values)
        self.sums += values
        self.steps += 1

    def means(self, reduce: Callable[[Tensor], Any]) -> dict[str, float]:
        """Return the means since the last call, by the name they are logged under.

        Args:
            reduce: takes the mean over processes.
        """
        if self.sums is None:
            return {}
        means = dict(zip(self.names, reduce(self.sums / self.steps).tolist(), strict=True))
        self.sums, self.steps = None, 0
        return means
