"""From raw columns, as measured, to features: categories of text, operating conditions.

A row of raw columns is numbers: text columns are coded 0, 1, … in the order of their categories,
by whoever reads the text, and what is missing is NaN. A feature that is missing is NaN too: it is
taken from the row before or filled in where the encoder says so, and else refused by whoever
asked. What an encoder does not know, such as a new category, is ∞ and always refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lit_ios.carry import Missing
from lit_ios.checks import UserError, check_choice
from lit_ios.imports import Spec, class_path
from lit_ios.trajectories import FloatArray, TrajectorySet, row_blocks


class Origin(NamedTuple):
    """What a feature is made of."""

    column: str
    told: str | None = None  # what is known of the column where the feature is 1; None: a number


class Encoder(nn.Module):
    """Turns raw columns into features.

    An encoder of your own subclasses this: it names its `feature_names`, computes them in
    `forward`, and returns the plain values that make it again as `arguments`.

    Args:
        columns: names of the raw columns, in the order in which rows hold them.
        categories: for each text column its categories, in the order of their codes.
    """

    feature_names: tuple[str, ...]
    missing: Missing = "error"  # what is done about values that are missing
    fill: Tensor | None  # (D,) what stands in for features that are missing; NaN for none

    def __init__(
        self, columns: Sequence[str], categories: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.categories = {name: tuple(known) for name, known in (categories or {}).items()}
        self.feature_names = self.columns
        self.register_buffer("fill", None, persistent=False)

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
    def origins(self) -> tuple[Origin, ...]:
        """What each feature is made of: those of one column are explained as one."""
        return tuple(Origin(name) for name in self.feature_names)

    @property
    def is_identity(self) -> bool:
        """Whether the features are the columns."""
        return False

    def forward(self, values: Tensor) -> Tensor:
        """Return the features of B rows; (B, C) → (B, D), NaN: missing, ∞: unknown."""
        raise NotImplementedError

    def unknown(self, row: FloatArray) -> str | None:
        """Say what this encoder does not know about a row of numbers, if anything."""
        return None

    def complete(
        self, features: Tensor, first_row: Tensor, missing: Missing | None = None
    ) -> Tensor:
        """Fill in what is missing in the features of whole paths; (N, D).

        Args:
            features: NaN where a feature is missing.
            first_row: (N,) where each row's path begins.
            missing: what to do about it; None for what the encoder was made for.
        """
        missing = missing or self.missing
        if missing == "error" or not features.isnan().any():
            return features
        if missing == "last":
            features = forward_filled(features, first_row)
        return features if self.fill is None else torch.where(
            features.isnan(), self.fill.to(features.dtype), features
        )  # fmt: skip

    def paths(self, raw: TrajectorySet) -> TrajectorySet:
        """Return paths of raw columns as paths of features; what is unknown is refused."""
        self.check(raw)
        if self.is_identity and not raw.gaps:
            return raw
        features = np.empty((len(raw.states), len(self.feature_names)))
        for block in row_blocks(len(features)):
            values = torch.from_numpy(raw.states[block].astype(np.float64))
            features[block] = self(values).numpy()
        if raw.gaps:
            first_row = torch.from_numpy(np.repeat(raw.offsets[:-1], raw.lengths))
            features = self.complete(torch.from_numpy(features), first_row).numpy()
        bad = ~np.isfinite(features).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            path = int(raw.path_of_row[row])
            reason = self.unknown(raw.states[row]) or self.gap(raw.states[row])
            where = f"path {raw.names[path]!r}, row {row - raw.offsets[path] + 1}"
            raise UserError(f"{where}: {reason}")
        return raw.with_states(features, self.feature_names)

    def gap(self, row: FloatArray) -> str:
        """Say which value of a row is missing."""
        bad = ~np.isfinite(row)
        if not bad.any():
            return "a feature is not finite"
        name = self.columns[int(np.argmax(bad))]
        return (
            f"column {name!r}: missing value, and the rule was trained without any: train it with "
            "missing: impute, or drop such rows"
        )

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
    """Numbers as they are, and one 0/1 feature per category of a text column: `colour=red`.

    Args:
        columns: names of the raw columns, in the order in which rows hold them.
        categories: for each text column its categories, in the order of their codes.
        missing: whether missing values are refused, filled in (`impute`), or taken from the row
            before and filled in where there is none (`last`).
        fill: what stands in for a missing value of each column: a number, or the code of a
            category. A column that is not named here is refused where nothing stands in.
        flagged: columns that get a 0/1 feature `… missing` beside.
    """

    def __init__(
        self,
        columns: Sequence[str],
        categories: Mapping[str, Sequence[str]] | None = None,
        missing: Missing = "error",
        fill: Mapping[str, float] | None = None,
        flagged: Sequence[str] = (),
    ) -> None:
        super().__init__(columns, categories)
        check_choice("missing", missing, Missing)
        self.missing, self.given_fill, self.flagged = missing, dict(fill or {}), tuple(flagged)
        strange = sorted({*self.given_fill, *self.flagged} - {*self.columns})
        if strange:
            raise UserError(f"fill and flagged name columns that are not there: {strange}")
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
        names += [f"{column} missing" for column in self.flagged]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"two features of one name: {twice!r}")
        self.feature_names = tuple(names)
        own = [self.given_fill.get(self.columns[position], np.nan) for position in source]
        stands_in = [
            value if not of or value != value else float(value == category)
            for value, category, of in zip(own, code, count, strict=True)
        ]
        flags = torch.tensor([self.columns.index(name) for name in self.flagged], dtype=torch.long)
        self.fill = torch.tensor([*stands_in, *[0.0] * len(flags)], dtype=torch.double)
        self.register_buffer("flags", flags, persistent=False)
        self.register_buffer("source", torch.tensor(source), persistent=False)
        self.register_buffer("code", torch.tensor(code, dtype=torch.double), persistent=False)
        self.register_buffer("count", torch.tensor(count, dtype=torch.double), persistent=False)

    source: Tensor  # (D,) column a feature is made of
    code: Tensor  # (D,) of its category
    count: Tensor  # (D,) categories of its column; 0 for numbers
    flags: Tensor  # (E,) columns whose gaps are features

    @property
    def sources(self) -> list[int]:
        """Which column each feature is made of; (D,)."""
        return [*self.source.tolist(), *self.flags.tolist()]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Columns, the category a feature stands for, and whether it is that of gaps."""
        made = [
            Origin(name, told)
            for name in self.columns
            for told in self.categories.get(name, (None,))
        ]
        return (*made, *(Origin(name, "missing") for name in self.flagged))

    @property
    def arguments(self) -> dict[str, Any]:
        """Columns and categories, and how gaps are filled where they may be."""
        if self.missing == "error":
            return super().arguments
        gaps = {"missing": self.missing, "fill": self.given_fill, "flagged": list(self.flagged)}
        return super().arguments | gaps

    @property
    def is_identity(self) -> bool:
        """Whether there are numbers only."""
        return not self.categories and not self.flagged

    def forward(self, values: Tensor) -> Tensor:
        """Return numbers, and 1 where a text column has the feature's category."""
        if self.is_identity:
            return values
        encoded: Tensor = one_hot(torch, values, self.source, self.code, self.count, self.flags)
        return encoded

    def unknown(self, row: FloatArray) -> str | None:
        """Name a category that is not a known one."""
        for name, known in self.categories.items():
            code = row[self.columns.index(name)]
            if code == code and code not in range(len(known)):
                listed = ", ".join(map(repr, known))
                return f"column {name!r}: {code:g} is not the code of a known category ({listed})"
        return None


def one_hot(xp: Any, values: Any, source: Any, code: Any, count: Any, flags: Any) -> Any:
    """Encode rows of numbers and codes, of NumPy or torch alike; see `ColumnEncoder`."""
    value = values[:, source]
    known = (value >= 0) & (value < count) & (value == xp.floor(value))
    unknown = xp.where(value == value, xp.inf, xp.nan)
    category = xp.where(known, xp.where(value == code, 1.0, 0.0), unknown)
    encoded = xp.where(count > 0, category, value)
    if not len(flags):
        return encoded
    gaps = values[:, flags]
    return xp.concatenate([encoded, (gaps != gaps) * xp.ones_like(gaps)], 1)


def forward_filled(features: Tensor, first_row: Tensor) -> Tensor:
    """Take features that are missing from the last row of the path that has them; (N, D).

    Args:
        features: NaN where a feature is missing, also afterwards where no earlier row has it.
        first_row: (N,) where each row's path begins.
    """
    row = torch.arange(len(features), device=features.device)[:, None]
    last = torch.where(features.isnan(), -1, row).cummax(0).values  # (N, D)
    found = features.gather(0, last.clamp(min=0))
    return torch.where(last >= first_row[:, None], found, torch.nan)


class ConditionEncoder(Encoder):
    """Standardises columns within the operating condition that the first column tells.

    The condition is the first column rounded to an integer; rows of a condition that was not seen
    in training are unknown.

    Args:
        columns: the column that tells the condition, then those to be scaled.
        conditions: C integers.
        mean: (C, D) of each condition and column.
        scale: (C, D).
    """

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
    unknown = xp.where(values[:, :1] == values[:, :1], xp.inf, xp.nan)
    scaled = (values[:, 1:] - which @ mean) / (which @ scale)
    return xp.where(which.sum(1)[:, None] > 0, scaled, unknown)
