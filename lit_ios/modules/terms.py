"""Means of the loss terms over an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lit_ios.batches import TrainBatch

FAR = 1000.0  # standard deviations


class Trouble(NamedTuple):
    """A term of a loss that is not finite."""

    number: int  # of the step, among those looked at
    name: str
    value: float


def names_of(records: dict[Any, Any]) -> list[str]:
    """Return what the terms of each part's record are logged under."""
    return [f"train/{part}/{term}" for part, record in records.items() for term in record._fields]


def values_of(records: dict[Any, Any]) -> Tensor:
    """Return the terms of each part's record, means over members; (T,)."""
    with torch.no_grad():
        values = torch.stack([term for record in records.values() for term in record])
        return values if values.ndim == 1 else values.mean(-1)


class TermMeans:
    """Adds up loss terms on their device, to be logged once an epoch."""

    def __init__(
        self, names: Sequence[str] = (), sums: Tensor | None = None, steps: int = 0
    ) -> None:
        self.names, self.sums, self.steps = list(names), sums, steps
        self._recent: list[Tensor] = []  # of each step since the last `find_trouble`

    def state(self) -> dict[str, Any]:
        """Return what makes a copy of it, for checkpoints in the middle of an epoch."""
        sums = None if self.sums is None else self.sums.clone()
        return {"names": self.names, "sums": sums, "steps": self.steps}

    def add(self, values: Tensor, names: Sequence[str] = ()) -> None:
        """Count the terms of one step.

        Args:
            values: of the terms; see `values_of`.
            names: of the terms, where `begins`.
        """
        if self.sums is None:
            self.names, self.sums = list(names), torch.zeros_like(values)
        self.sums += values
        self.steps += 1
        self._recent.append(values)

    @property
    def begins(self) -> bool:
        """Whether no step was counted since the last means."""
        return self.sums is None

    def find_trouble(self) -> Trouble | None:
        """Return the first term since the last call that was not finite, if any was.

        What is not finite stays so in the sums: only then is each step looked at.
        """
        recent, self._recent = self._recent, []
        if self.sums is None or math.isfinite(float(self.sums.sum())):
            return None
        for number, values in enumerate(recent):
            bad = ~values.isfinite()
            if bad.any():
                term = int(bad.int().argmax())
                return Trouble(number, self.names[term], float(values[term]))
        return None

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


def furthest_row(
    batches: Sequence[TrainBatch], path_of: Callable[[int, int], str | None] | None
) -> str:
    """Name the row that is the furthest from the mean, which may have spoilt a loss.

    Args:
        batches: of rows: of a step, and of the step before it, whose gradient may be to blame.
        path_of: returns the name of the path of a row of one of them; None where paths are not
            known by name.
    """
    sizes = [batch.state.abs().amax(-1).nan_to_num(math.inf) for batch in batches]
    number = max(range(len(batches)), key=lambda one: float(sizes[one].max()))
    batch, size = batches[number], sizes[number]
    row = int(size.argmax())
    name = "a row made by oversampling"
    if not batch.synthetic[row]:
        path = None if path_of is None else path_of(number, row)
        name = f"row {int(batch.step[row]) + 1} of {'a path' if path is None else f'path {path!r}'}"
    too_far = ", too far to learn from" if size[row] >= FAR else ""
    before = "" if len(batches) == 1 else " and the one before"
    return (
        f"of the rows of this step{before}, {name} has the feature furthest from its mean: "
        f"{float(size[row]):.3g} standard deviations{too_far}"
    )
