"""The rule for other programs: one ONNX file, or a program of torch.export.

Every exported rule judges the next row of B paths by one signature:

    columns  (B, C) double   raw; text coded as the metadata say, NaN for what is missing
    time     (B,) double     NaN for a usual step after the last row
    carry    (B, W) double   what each path remembers; the metadata hold that of a new path
    → margin (B,) double, probability (B,) double, stop (B,) bool, carry (B, W) double,
      then named outputs: distance (B,) from the rows of training, up to 1 familiar, and
      distance_shares (B, F) of the coordinates that the metadata name as distance_of; stop_gain,
      continuation_gain and margin_spread where the rule has them

A NaN margin means that the row cannot be judged: whoever runs the file must refuse it and keep
the old carry. `lit_ios.runtime` does. The file ends in a checksum (`lit_ios.seals`), which
`lit_ios.runtime` compares.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lit_ios.carry import CLOCK, Missing, combine
from lit_ios.checks import UserError
from lit_ios.files import write_bytes
from lit_ios.live.metadata import FORMAT, VERSION
from lit_ios.rule import StoppingRule
from lit_ios.seals import seal_archive, seal_model

if TYPE_CHECKING:
    from lit_ios.policy.policy import StoppingPolicy

OPSET = 20
INPUTS = ("columns", "time", "carry")


class ExportedStep(nn.Module):
    """The next row of B paths, as a function of tensors.

    Args:
        rule: to be exported.
        missing: how missing values are treated.
        single: whether networks are in single precision, as ONNX Runtime wants them; what is
            carried along is in double.
    """

    def __init__(self, rule: StoppingRule, missing: Missing, single: bool) -> None:
        super().__init__()
        self.rule, self.missing = copy.deepcopy(rule), missing
        if single:
            for part in (self.rule.head, self.rule.memory, self.rule.dynamics):
                if part is not None:
                    part.float()
            self.rule.epsilon.data = self.rule.epsilon.float()

    @property
    def outputs(self) -> list[str]:
        """Names of what `forward` returns."""
        known = ["margin", "probability", "stop", "next_carry"]
        known += ["distance", "distance_shares", "stop_gain"]
        known += ["continuation_gain"] if self._has_gain else []
        return [*known, "margin_spread"] if self.rule.members > 1 else known

    @property
    def _has_gain(self) -> bool:
        return self.rule.dynamics is not None or any(
            piece.part == "gain" for piece in self.rule.memory.pieces
        )

    def example(self, rows: int = 2) -> tuple[Tensor, ...]:
        """Return inputs of the right shapes."""
        columns = torch.zeros(rows, len(self.rule.encoder.columns), dtype=torch.double)
        return columns, torch.zeros(rows, dtype=torch.double), self.rule.init(rows)

    def forward(self, columns: Tensor, time: Tensor, carry: Tensor) -> tuple[Tensor, ...]:
        """Judge rows."""
        judged = self.rule.step(columns, time, carry, self.missing)
        outputs = [judged.margin, judged.probability, judged.stop, judged.carry]
        outputs += [judged.distance, judged.shares]
        outputs.append(combine(torch, judged.q[..., 0]))
        if self._has_gain:
            dtype = self.rule.epsilon.dtype
            state, h = judged.state.to(dtype), judged.h.to(dtype)
            gain = self.rule.continuation_gain(state, h, carry[:, 0])
            assert gain is not None
            outputs.append(gain.double())
        if self.rule.members > 1:
            margins = judged.q[..., 0] - judged.q[..., 1]
            spread = (margins - margins.mean(0)).square().sum(0) / (self.rule.members - 1)
            outputs.append(spread.sqrt())
        return tuple(outputs)


def export(policy: StoppingPolicy, file: Path, missing: Missing | None = None) -> Path:
    """Write the rule to `file`, whose ending says in which format."""
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}")
    if file.suffix not in (".onnx", ".pt2"):
        raise UserError(f"the file must end in .onnx or .pt2, got {file.name!r}")
    missing = missing or policy.rule.encoder.missing
    program = ExportedStep(policy.rule, missing, single=file.suffix == ".onnx").eval()
    about = json.dumps(describe_export(policy, program), allow_nan=False)
    rows = torch.export.Dim("rows", min=1)
    shapes = tuple({0: rows} for _ in INPUTS)
    with torch.no_grad():
        if file.suffix == ".pt2":
            made = torch.export.export(program, program.example(), dynamic_shapes=shapes)
            buffer = io.BytesIO()
            torch.export.save(made, buffer, extra_files={"metadata.json": about})
            write_bytes(file, seal_archive(buffer.getvalue()))
        else:
            write_bytes(file, seal_model(_onnx(program, about, shapes)))
    return file


def _onnx(program: ExportedStep, about: str, shapes: Any) -> bytes:
    """Return the content of the ONNX file."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError(
            "export to ONNX needs a few packages: pip install onnx onnxscript"
        ) from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it lists packages nobody needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own making
        try:
            made = torch.onnx.export(
                program, program.example(), dynamo=True, opset_version=OPSET,
                dynamic_shapes=shapes, input_names=list(INPUTS), output_names=program.outputs,
                verbose=False,
            )  # fmt: skip
        except ImportError:
            raise UserError(
                f"export to ONNX: onnxscript is too old for torch {torch.__version__}; "
                "pip install --upgrade onnx onnxscript"
            ) from None
    assert made is not None
    model = made.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = "lit_ios", about
    content: bytes = model.SerializeToString()
    return content


def describe_export(policy: StoppingPolicy, program: ExportedStep) -> dict[str, Any]:
    """Return everything a program that runs the file must know, as plain JSON."""
    rule = policy.rule
    start = rule.layout.start(policy.threshold)
    return {
        "format": FORMAT,
        "version": VERSION,
        "inputs": list(INPUTS),
        "outputs": program.outputs,
        "columns": list(rule.encoder.columns),
        "categories": {name: list(known) for name, known in rule.encoder.categories.items()},
        "start": start,  # carry of a new path
        "clock": list(CLOCK),  # what its first numbers are
        "threshold": start[CLOCK.index("threshold")],
        "missing": program.missing,
        "distance_of": list(rule.current_names),
        "include_time": rule.window.include_time,
        "time_step": float(rule.time_step),
        "time_unit": policy.time_unit,
        "fingerprint": rule.fingerprint,
        "calibration": None if policy.calibration is None else policy.calibration.plain(),
        "reference": policy.reference,  # largest margin and distance of the calibration paths
        "forecast": None if policy.learnt_forecast is None else policy.learnt_forecast.listed(),
    }
