"""A learnt rule as live paths use it: in NumPy where its parts are known there, else in torch."""

from __future__ import annotations

import numpy as np
import torch

from lit_ios.carry import Advanced, Missing, advance
from lit_ios.live import Forecast, LiveRule, Observations
from lit_ios.rule import StoppingRule
from lit_ios.rule.numpy_parts import NumpyParts, OneRow, numpy_parts
from lit_ios.trajectories import FloatArray


class NumpyStep:
    """Judges rows by the rule's parts in NumPy."""

    def __init__(self, parts: NumpyParts) -> None:
        self.parts = parts

    def __call__(
        self, columns: FloatArray, time: FloatArray, carry: FloatArray, missing: Missing
    ) -> Advanced:
        """Judge the next row of B paths."""
        return advance(np, self.parts, columns, time, carry, missing)


class TorchStep:
    """Judges rows by the rule itself, for parts that are a user's own."""

    def __init__(self, rule: StoppingRule) -> None:
        self.rule = rule

    def __call__(
        self, columns: FloatArray, time: FloatArray, carry: FloatArray, missing: Missing
    ) -> Advanced:
        """Judge the next row of B paths."""
        with torch.inference_mode():
            given = [torch.from_numpy(np.ascontiguousarray(x)) for x in (columns, time, carry)]
            judged = self.rule.step(given[0], given[1], given[2], missing)
            return Advanced(*(values.numpy() for values in judged))


def live_rule(rule: StoppingRule, time_unit: str, forecast: Forecast | None = None) -> LiveRule:
    """Return a rule for live paths, with its threshold as it is now.

    Args:
        rule: in double precision, in evaluation.
        time_unit: of dates.
        forecast: that was learnt for the rule.
    """
    parts, encoder = numpy_parts(rule), rule.encoder
    return LiveRule(
        step=TorchStep(rule) if parts is None else NumpyStep(parts),
        start=rule.layout.start(float(rule.threshold)),
        observations=Observations(encoder.columns, encoder.categories),
        include_time=rule.window.include_time,
        time_step=float(rule.time_step),
        time_unit=time_unit,
        fingerprint=rule.fingerprint,
        unknown=encoder.unknown,
        one=None if parts is None else OneRow(parts),
        names=rule.current_names,
        missing=encoder.missing,
        forecast=forecast,
    )
