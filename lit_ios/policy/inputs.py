"""From a live observation, in the units it was measured in, to the features a policy takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lit_ios.checks import UserError
from lit_ios.readers.cmapss import SENSORS, ConditionScaler, Series
from lit_ios.readers.features import column_of
from lit_ios.trajectories import FloatArray


class Inputs:
    """Features as they are; `colour=red` is 1 where the observation's colour is red.

    Args:
        feature_names: of the features the policy was trained on.
    """

    def __init__(self, feature_names: Sequence[str]) -> None:
        self.feature_names = tuple(feature_names)
        self.names = self.feature_names  # of the numbers an array holds

    def row(self, observation: Any) -> FloatArray:
        """Return the features of one observation: a mapping by name, or numbers in order."""
        if hasattr(observation, "to_dict"):  # a row of a DataFrame
            observation = observation.to_dict()
        if isinstance(observation, Mapping):
            return np.array(self._by_name(observation))
        values = as_numbers(observation)
        if values.shape != (len(self.names),):
            raise UserError(
                f"{len(self.names)} features are needed ({', '.join(self.names)}), got an array of "
                f"shape {values.shape}"
            )
        return np.asarray(self.matrix(values[None])[0])

    def matrix(self, values: FloatArray) -> FloatArray:
        """Return the features of many observations; (B, inputs) → (B, D)."""
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise UserError(
                f"{len(self.names)} features are needed ({', '.join(self.names)}), got an array of "
                f"shape {values.shape}"
            )
        return values

    def _by_name(self, observation: Mapping[str, Any]) -> list[float]:
        known = set(observation)
        return [self._value(name, observation, known) for name in self.feature_names]

    def _value(self, name: str, observation: Mapping[str, Any], known: set[str]) -> float:
        if name in known:
            return _number(name, observation[name])
        column = column_of(name, known)
        if column is None:
            raise UserError(
                f"the observation has no feature {name!r}; it holds {', '.join(map(repr, known))}"
            )
        value = observation[column]
        if _is_missing(value):
            return math.nan
        categories = [
            other[len(column) + 1 :]
            for other in self.feature_names
            if other not in known and column_of(other, known) == column
        ]
        if str(value) not in categories:
            raise UserError(
                f"feature {column!r}: {value!r} is none of the known categories "
                f"{', '.join(map(repr, categories))}"
            )
        return float(str(value) == name[len(column) + 1 :])


class EngineInputs(Inputs):
    """Settings and sensors of a C-MAPSS engine, scaled within its operating condition.

    Args:
        scaler: fitted on the training engines.
    """

    def __init__(self, scaler: ConditionScaler) -> None:
        super().__init__(scaler.feature_names)
        self.scaler = scaler
        self.names = ("setting1", *scaler.feature_names)

    def _by_name(self, observation: Mapping[str, Any]) -> list[float]:
        missing = [name for name in self.names if name not in observation]
        if missing:
            raise UserError(f"the observation has no {missing[0]!r}")
        values = [_number(name, observation[name]) for name in self.names]
        return [float(value) for value in self.matrix(np.array([values]))[0]]

    def matrix(self, values: FloatArray) -> FloatArray:
        """Scale the sensors; (B, 1 + D) → (B, D)."""
        values = super().matrix(values)
        unknown = ~np.isfinite(values[:, 0])
        if unknown.any():
            raise UserError("setting1 is missing: it tells the operating condition of an engine")
        sensors = np.zeros((len(values), len(SENSORS)))
        sensors[:, self.scaler.varying] = values[:, 1:]
        settings = np.zeros((len(values), 3))
        settings[:, 0] = values[:, 0]
        number = np.arange(len(values))
        return self.scaler.transform(Series(number, number, settings, sensors))


def inputs_of(checkpoint: Mapping[str, Any]) -> Inputs:
    """Return how a checkpoint's policy takes its observations."""
    scaling = checkpoint.get("TurbofanData")
    if scaling is not None:
        return EngineInputs(ConditionScaler.from_lists(scaling))
    return Inputs(checkpoint["hyper_parameters"]["feature_names"])


def as_numbers(values: Any) -> FloatArray:
    """Return an array of doubles; text in it is refused."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"an observation must be numbers: {error}") from None


def _is_missing(value: Any) -> bool:
    """Say whether a value is None, NaN or pandas' NA, which equals nothing and is not false."""
    return value is None or type(value).__name__ == "NAType" or value != value


def _number(name: str, value: Any) -> float:
    try:
        return math.nan if _is_missing(value) else float(value)
    except (TypeError, ValueError):
        raise UserError(f"feature {name!r}: not a number: {value!r}") from None
