"""From raw columns, as measured, to features: categories of text, operating conditions.

A row of raw columns is numbers: text columns are coded 0, 1, … in the order of their categories,
by whoever reads the text. What an encoder does not know becomes NaN, and is refused by whoever
asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.checks import UserError
from lit_ios.imports import Spec, class_path
from lit_ios.trajectories import FloatArray, TrajectorySet, row_blocks


class Encoder(nn.Module):
    """Turns raw columns into features.

    An encoder of your own subclasses this: it names its `feature_names`, computes them in
    `forward`, and returns the plain values that make it again as `arguments`.

    Args:
        columns: names of the raw columns, in the order in which rows hold them.
        categories: for each text column its categories, in the order of their codes.
    """

    feature_names: tuple[str, ...]
    carries: ClassVar[bool] = True  # whether a raw value stays right in a later row of its path

    def __init__(
        self, columns: Sequence[str], categories: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.categories = {name: tuple(known) for name, known in (categories or {}).items()}
        self.feature_names = self.columns

    @property
    def arguments(self) -> dict[str, Any]:
        """Plain values that make this encoder again."""
        return {
            "columns": list(self.columns),
            "categories": {name: list(known) for name, known in self.categories.items()},
        }

    @property
    def spec(self) -> Spec:
        """Class path and arguments, as settings and checkpoints keep them."""
        return {"class_path": class_path(type(self)), "init_args": self.arguments}

    @property
    def is_identity(self) -> bool:
        """Whether the features are the columns."""
        return False

    def forward(self, values: Tensor) -> Tensor:
        """Return the features of B rows; (B, C) → (B, D), NaN where something is unknown."""
        raise NotImplementedError

    def unknown(self, row: FloatArray) -> str | None:
        """Say what this encoder does not know about a row of finite numbers, if anything."""
        return None

    def paths(self, raw: TrajectorySet) -> TrajectorySet:
        """Return paths of raw columns as paths of features; what is unknown is refused."""
        self.check(raw)
        if self.is_identity:
            return raw
        features = np.empty((len(raw.states), len(self.feature_names)))
        for block in row_blocks(len(features)):
            values = torch.from_numpy(raw.states[block].astype(np.float64))
            features[block] = self(values).numpy()
        bad = ~np.isfinite(features).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            path = int(raw.path_of_row[row])
            reason = self.unknown(raw.states[row]) or "a feature is not finite"
            where = f"path {raw.names[path]!r}, row {row - raw.offsets[path] + 1}"
            raise UserError(f"{where}: {reason}")
        return raw.with_states(features, self.feature_names)

    def check(self, raw: TrajectorySet) -> None:
        """Refuse paths of other columns or categories."""
        if raw.feature_names != self.columns:
            raise UserError(
                f"the columns {', '.join(self.columns)} are needed, in this order; got "
                f"{', '.join(raw.feature_names)}"
            )
        for name in raw.feature_names:
            wanted, found = self.categories.get(name), raw.categories.get(name)
            if wanted != found:
                kinds = [
                    "numbers" if kind is None else f"text of {kind}" for kind in (wanted, found)
                ]
                raise UserError(f"column {name!r}: {kinds[0]} needed, the paths hold {kinds[1]}")


class ColumnEncoder(Encoder):
    """Numbers as they are, and one 0/1 feature per category of a text column: `colour=red`."""

    def __init__(
        self, columns: Sequence[str], categories: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(columns, categories)
        names: list[str] = []
        source: list[int] = []
        code: list[int] = []
        count: list[int] = []
        for position, column in enumerate(self.columns):
            known = self.categories.get(column)
            names += [column] if known is None else [f"{column}={value}" for value in known]
            width = 1 if known is None else len(known)
            source += [position] * width
            code += range(width)
            count += [0 if known is None else width] * width
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"two features of one name: {twice!r}")
        self.feature_names = tuple(names)
        self.register_buffer("source", torch.tensor(source), persistent=False)
        self.register_buffer("code", torch.tensor(code, dtype=torch.double), persistent=False)
        self.register_buffer("count", torch.tensor(count, dtype=torch.double), persistent=False)

    source: Tensor  # (D,) column a feature is made of
    code: Tensor  # (D,) of its category
    count: Tensor  # (D,) categories of its column; 0 for numbers

    @property
    def is_identity(self) -> bool:
        """Whether there are numbers only."""
        return not self.categories

    def forward(self, values: Tensor) -> Tensor:
        """Return numbers, and 1 where a text column has the feature's category."""
        if self.is_identity:
            return values
        encoded: Tensor = one_hot(torch, values, self.source, self.code, self.count)
        return encoded

    def unknown(self, row: FloatArray) -> str | None:
        """Name a category that is not a known one."""
        for name, known in self.categories.items():
            code = row[self.columns.index(name)]
            if code not in range(len(known)):
                listed = ", ".join(map(repr, known))
                return f"column {name!r}: {code:g} is not the code of a known category ({listed})"
        return None


def one_hot(xp: Any, values: Any, source: Any, code: Any, count: Any) -> Any:
    """Encode rows of numbers and codes, of NumPy or torch alike; see `ColumnEncoder`."""
    value = values[:, source]
    known = (value >= 0) & (value < count) & (value == xp.floor(value))
    category = xp.where(known, xp.where(value == code, 1.0, 0.0), xp.nan)
    return xp.where(count > 0, category, value)


class ConditionEncoder(Encoder):
    """Standardises columns within the operating condition that the first column tells.

    The condition is the first column rounded to an integer; rows of a condition that was not seen
    in training become NaN.

    Args:
        columns: the column that tells the condition, then those to be scaled.
        conditions: C integers.
        mean: (C, D) of each condition and column.
        scale: (C, D).
    """

    carries = False  # a value of one condition is wrong in another

    def __init__(
        self,
        columns: Sequence[str],
        conditions: Sequence[float],
        mean: Sequence[Sequence[float]],
        scale: Sequence[Sequence[float]],
    ) -> None:
        super().__init__(columns)
        self.feature_names = self.columns[1:]
        for name, values in (("conditions", conditions), ("mean", mean), ("scale", scale)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.double), persistent=False)
        shape = (len(self.conditions), len(self.feature_names))
        if self.mean.shape != shape or self.scale.shape != shape:
            raise UserError(
                f"mean and scale must have shape {shape}, one row per condition and one column "
                f"per scaled column; got {tuple(self.mean.shape)} and {tuple(self.scale.shape)}"
            )

    conditions: Tensor
    mean: Tensor
    scale: Tensor

    @property
    def arguments(self) -> dict[str, Any]:
        """Columns, conditions, means and scales."""
        numbers = {name: getattr(self, name).tolist() for name in ("conditions", "mean", "scale")}
        return {"columns": list(self.columns), **numbers}

    def forward(self, values: Tensor) -> Tensor:
        """Scale the columns after the first; (B, 1 + D) → (B, D)."""
        scaled: Tensor = scale_within(torch, values, self.conditions, self.mean, self.scale)
        return scaled

    def unknown(self, row: FloatArray) -> str | None:
        """Name a condition that was not seen in training."""
        condition = np.rint(row[0])
        if condition in self.conditions.tolist():
            return None
        known = ", ".join(f"{c:g}" for c in self.conditions.tolist())
        return (
            f"column {self.columns[0]!r}: operating condition {condition:g} was not seen in "
            f"training (there were {known})"
        )


def scale_within(xp: Any, values: Any, conditions: Any, mean: Any, scale: Any) -> Any:
    """Standardise rows within their condition, of NumPy or torch alike; see `ConditionEncoder`."""
    which = (xp.round(values[:, :1]) == conditions) * xp.ones_like(conditions)  # (B, C) of 0 and 1
    known = which.sum(1)[:, None]
    return (values[:, 1:] - which @ mean) / (which @ scale) * (known / known)
