"""From an observation, in the units and words it was measured in, to a row of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lit_ios.checks import UserError, quoted
from lit_ios.trajectories import FloatArray


class Observations:
    """The raw columns a rule takes, and how their text is coded.

    Args:
        columns: names, in the order of a row.
        categories: of each text column, in the order of their codes.
    """

    def __init__(
        self, columns: Sequence[str], categories: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.columns = tuple(columns)
        self.codes = {
            name: {value: float(code) for code, value in enumerate(known)}
            for name, known in (categories or {}).items()
        }

    def row(self, observation: Any) -> FloatArray:
        """Return one observation as numbers; (C,), NaN where a value is missing.

        Args:
            observation: a mapping by column name, or values in the order of the columns, text as
                it is or by its codes.
        """
        if isinstance(observation, np.ndarray) and observation.dtype == np.float64:
            values = observation
        else:
            values = self._as_row(observation)
        if values.shape != (len(self.columns),):
            raise UserError(f"{self._wanted}, got an array of shape {values.shape}")
        return values

    def rows(self, observations: Any) -> FloatArray:
        """Return several observations as numbers; (B, C).

        Args:
            observations: a matrix, a DataFrame, or a list of what `row` takes.
        """
        if hasattr(observations, "columns"):  # a DataFrame: by name
            observations = [
                dict(zip(observations.columns, row, strict=True))
                for row in zip(*(observations[name] for name in observations.columns), strict=True)
            ]
        if isinstance(observations, Mapping):
            raise UserError("a row for each path is needed, got a single mapping")
        if not hasattr(observations, "__len__"):
            raise UserError(f"a row for each path is needed, got {observations!r}")
        if not isinstance(observations, np.ndarray):
            named = any(isinstance(one, Mapping) or hasattr(one, "to_dict") for one in observations)
            if named or self.codes:
                observations = [self.row(one) for one in observations]
        if len(observations) == 0:
            return np.empty((0, len(self.columns)))
        values = _as_numbers(observations)
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            raise UserError(f"{self._wanted}, got an array of shape {values.shape}")
        return values

    @property
    def _wanted(self) -> str:
        return f"{len(self.columns)} columns are needed ({', '.join(self.columns)})"

    def _as_row(self, observation: Any) -> FloatArray:
        if hasattr(observation, "to_dict"):  # a row of a DataFrame
            observation = observation.to_dict()
        if not isinstance(observation, Mapping):
            words = isinstance(observation, Sequence) and any(
                isinstance(x, str) for x in observation
            )
            if not (self.codes and words):
                return _as_numbers(observation)  # text by its codes
            if len(observation) != len(self.columns):
                raise UserError(f"{self._wanted}, got {len(observation)} values")
            observation = dict(zip(self.columns, observation, strict=True))
        return np.array([self._value(name, observation) for name in self.columns])

    def _value(self, name: str, observation: Mapping[str, Any]) -> float:
        if name not in observation:
            held = ", ".join(map(repr, observation))
            raise UserError(f"the observation has no column {name!r}: add it; it holds {held}")
        value = observation[name]
        if _is_missing(value):
            return math.nan
        codes = self.codes.get(name)
        if codes is not None and isinstance(value, str):
            if value not in codes:
                known = ", ".join(map(repr, codes))
                raise UserError(
                    f"column {name!r}: {value!r} is not one of the known categories {known}; give "
                    "one of them, or None to take it as missing"
                )
            return codes[value]
        if codes is not None:  # a category that was read as a number or a truth value
            return self._value(name, {name: str(value)})
        try:
            return float(value)
        except (OverflowError, TypeError, ValueError):
            raise UserError(f"column {name!r}: not a number: {quoted(value)}") from None


def _as_numbers(values: Any) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise UserError(f"an observation must be numbers: {error}") from None


def _is_missing(value: Any) -> bool:
    """Say whether a value is None, NaN or pandas' NA, which equals nothing and is not false."""
    return value is None or type(value).__name__ == "NAType" or value != value
