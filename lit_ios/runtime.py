"""An exported rule, run live with NumPy and onnxruntime alone.

    rule = lit_ios.runtime.load("policy.onnx")
    stream = rule.stream()
    decision = stream.step({"heat": 71.3, "colour": "red"}, time=12)

Decisions, saved states and errors are those of `StoppingPolicy.stream`; torch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lit_ios.carry import Missing
from lit_ios.checks import UserError
from lit_ios.live import Forecast, LiveRule, Observations, Stream, Streams
from lit_ios.live.metadata import read_metadata
from lit_ios.live.watched import Claims, Watched
from lit_ios.seals import read_sealed
from lit_ios.trajectories import BoolArray, FloatArray

_OUTPUTS = ("margin", "probability", "stop", "next_carry", "distance", "distance_shares")


class Outputs(NamedTuple):
    """What an exported rule says of the next rows of B paths."""

    margin: FloatArray
    probability: FloatArray
    stop: BoolArray
    carry: FloatArray
    distance: FloatArray
    shares: FloatArray


class ExportedRule(Watched):
    """A rule in a file that `StoppingPolicy.export` wrote.

    Args:
        file: ….onnx.
        threads: of onnxruntime; one is best for small networks.
    """

    def __init__(self, file: str | Path, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise UserError(
                "running an exported rule needs onnxruntime: pip install onnxruntime"
            ) from None
        content = verify(file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            found = self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # onnxruntime's exceptions have no common base
            lines = str(error).splitlines() or [type(error).__name__]
            reason = lines[0].rpartition(":")[2].strip()
            raise UserError(
                f"{file} cannot be run ({reason}): give a file that policy.export('….onnx') wrote"
            ) from None
        self.about = read_metadata(found.get("lit_ios", "{}"), file)
        self._check_signature(file)

    def _check_signature(self, file: str | Path) -> None:
        """Refuse a graph that does not take and give what the metadata say."""
        widths = {"columns": len(self.about["columns"]), "carry": len(self.about["start"])}
        taken = {one.name: one for one in self._session.get_inputs()}
        given = {one.name for one in self._session.get_outputs()}
        fits = set(taken) == {"columns", "time", "carry"} and given >= set(_OUTPUTS)
        fits = fits and all(one.type == "tensor(double)" for one in taken.values())
        for name, width in widths.items():
            fits = fits and taken[name].shape[1:] == [width]
        if not fits:
            raise UserError(f"{file} is damaged: graph and metadata differ; export it again")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns it takes, in the order of an array."""
        return tuple(self.about["columns"])

    def step(
        self, columns: FloatArray, time: FloatArray, carry: FloatArray, missing: Missing
    ) -> Outputs:
        """Judge the next row of B paths."""
        given = {"columns": columns, "time": time, "carry": carry}
        if not len(columns):
            nothing = np.empty(0)
            return Outputs(nothing, nothing, nothing.astype(bool), carry, nothing, nothing)
        return Outputs(*self._session.run(list(_OUTPUTS), given))

    @property
    def live(self) -> LiveRule:
        """The rule as live paths use it."""
        about = self.about
        return LiveRule(
            step=self.step,
            start=about["start"],
            observations=Observations(about["columns"], about["categories"]),
            include_time=about["include_time"],
            time_step=about["time_step"],
            time_unit=about["time_unit"],
            fingerprint=about["fingerprint"],
            unknown=_nothing_more,
            names=about["distance_of"],
            missing=about["missing"],
            forecast=None if about["forecast"] is None else Forecast.of(about["forecast"]),
        )

    def stream(self, saved: Mapping[str, Any] | None = None) -> Stream:
        """Follow one live path, from its beginning or from a saved state."""
        return Stream(self.live, saved)

    def stream_many(self, saved: Mapping[str, Any] | None = None) -> Streams:
        """Follow many live paths at once."""
        return Streams(self.live, saved)

    @property
    def claims(self) -> Claims:
        """What a monitor holds paths against."""
        about = self.about
        return Claims(
            about["reference"], about["calibration"], about["threshold"], about["fingerprint"]
        )


def load(file: str | Path, threads: int = 1) -> ExportedRule:
    """Open an exported rule."""
    return ExportedRule(file, threads)


def verify(file: str | Path) -> bytes:
    """Return the content of an exported file, ….onnx or ….pt2; refuse one that has changed.

    For programs that load it by themselves, such as `torch.export.load(io.BytesIO(verify(file)))`.
    """
    return read_sealed(file, "a file that policy.export wrote", "export the policy again")


def _nothing_more(row: FloatArray) -> str | None:
    return "the encoder does not know these values: see the columns' categories and conditions"
