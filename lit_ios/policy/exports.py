"""The policy for other programs: one ONNX file, or a program of torch.export.

Both judge the next row of B paths. Inputs and outputs, in order:

    features   (B, D) double     raw units (of an engine: setting1 and sensors); what follows
                                 only where the policy has it
    history    (B, lags, D)      features of the rows before, newest first; the path's first row
                                 fills what there is not yet
    time       (B,) double       since the path began
    step       (B,) int64        t of the row
    y          (B, K) double     cumulative gains of the rows before, 0 at first
    → margin (B,), probability (B,) single, stop (B,) bool, and next_y (B, K) double
"""

from __future__ import annotations

import copy
import json
import logging
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lit_ios.checks import UserError
from lit_ios.functional import stop_probability, stops
from lit_ios.modules import DOIQS
from lit_ios.policy.inputs import EngineInputs

if TYPE_CHECKING:
    from lit_ios.policy.policy import StoppingPolicy

OPSET = 20


class NextRow(nn.Module):
    """Judges the next row of B paths; standardisation and threshold included.

    What is carried along is in double precision, the networks are in single: other programs know
    few functions in double.
    """

    def __init__(self, policy: StoppingPolicy) -> None:
        super().__init__()
        module, lags, include_time = policy.module, policy.lags, policy.include_time
        self.encode = Scaling(policy.inputs) if isinstance(policy.inputs, EngineInputs) else None
        self.width = len(policy.inputs.names)
        self.module = copy.deepcopy(module).float()
        for name in ("state_mean", "state_scale", "threshold"):
            getattr(self.module, name).data = getattr(module, name).double()
        self.lags, self.include_time = lags, include_time

    @property
    def inputs(self) -> list[str]:
        """Names of what `forward` takes."""
        wanted = {
            "features": True,
            "history": self.lags > 0,
            "time": self.include_time,
            "step": isinstance(self.module, DOIQS),
            "y": isinstance(self.module, DOIQS),
        }
        return [name for name, there in wanted.items() if there]

    @property
    def outputs(self) -> list[str]:
        """Names of what it returns."""
        known = ["margin", "probability", "stop"]
        return [*known, "next_y"] if isinstance(self.module, DOIQS) else known

    def example(self, rows: int = 2) -> tuple[Tensor, ...]:
        """Return inputs of the right shapes."""
        width, double = self.width, torch.double
        known = {
            "features": torch.zeros(rows, width, dtype=double),
            "history": torch.zeros(rows, self.lags, width, dtype=double),
            "time": torch.zeros(rows, dtype=double),
            "step": torch.zeros(rows, dtype=torch.long),
            "y": torch.zeros(rows, self.module.members, dtype=double),
        }
        return tuple(known[name] for name in self.inputs)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Judge rows given in the order of `inputs`."""
        given = dict(zip(self.inputs, values, strict=True))
        rows = [given["features"], *given["history"].unbind(1)] if self.lags else [values[0]]
        parts = rows if self.encode is None else [self.encode(row) for row in rows]
        if self.include_time:
            parts.append(given["time"][:, None])
        module, state = self.module, self.module.standardise(torch.cat(parts, dim=1))
        following: tuple[Tensor, ...] = ()
        if isinstance(module, DOIQS):
            y = given["y"][:, 0] if module.members == 1 else given["y"].T
            every = module.evaluate_rows(state, given["step"], y.float())
            assert every.gain is not None
            next_y = y + every.gain * torch.pow(module.gamma, given["step"].double())
            following = (next_y[:, None] if module.members == 1 else next_y.T,)
        else:
            every = module.evaluate(state, torch.zeros(()), torch.zeros(()))
        margin = _lower_median(every.margin)
        probability = stop_probability(margin, module.epsilon)
        return margin, probability, stops(margin, module.threshold), *following


class Scaling(nn.Module):
    """Scales the sensors of an engine in its operating condition; an unknown one gives NaN."""

    conditions: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: EngineInputs) -> None:
        super().__init__()
        scaler = inputs.scaler
        for name in ("mean", "scale"):
            values = getattr(scaler, name)[:, scaler.varying]
            self.register_buffer(name, torch.from_numpy(values).double())
        self.register_buffer("conditions", torch.from_numpy(scaler.conditions).double())

    def forward(self, row: Tensor) -> Tensor:
        """Turn setting1 and sensors (B, 1 + D) into features (B, D)."""
        which = (row[:, :1].round() == self.conditions).double()
        known = which.sum(1, keepdim=True)
        return (row[:, 1:] - which @ self.mean) / (which @ self.scale) * (known / known)


def _lower_median(margin: Tensor) -> Tensor:
    """Return the median over members as PathOutput.vote does; other formats know no median."""
    if margin.ndim == 1:
        return margin
    return margin.sort(dim=0).values[(len(margin) - 1) // 2]


def export(policy: StoppingPolicy, file: Path) -> Path:
    """Write the policy to `file`, whose ending says in which format."""
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}")
    program = NextRow(policy).eval()
    rows = torch.export.Dim("rows", min=1)
    shapes = (tuple({0: rows} for _ in program.inputs),)  # forward takes them as one tuple
    with torch.no_grad():
        if file.suffix == ".pt2":
            made = torch.export.export(program, program.example(), dynamic_shapes=shapes)
            extra = {"metadata.json": json.dumps(_metadata(policy, program))}
            torch.export.save(made, file, extra_files=extra)
        elif file.suffix == ".onnx":
            _export_onnx(policy, program, file, shapes)
        else:
            raise UserError(f"the file must end in .onnx or .pt2, got {file.name!r}")
    return file


def _export_onnx(policy: StoppingPolicy, program: NextRow, file: Path, shapes: Any) -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError(
            "export to ONNX needs a few packages: pip install 'lit-ios[onnx]'"
        ) from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it lists packages nobody needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own making
        made = torch.onnx.export(
            program, program.example(), dynamo=True, opset_version=OPSET, dynamic_shapes=shapes,
            input_names=program.inputs, output_names=program.outputs, verbose=False,
        )  # fmt: skip
    assert made is not None
    model = made.model_proto
    for key, value in _metadata(policy, program).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    onnx.save(model, file)


def _metadata(policy: StoppingPolicy, program: NextRow) -> dict[str, Any]:
    """What a program that runs the file must know."""
    return {
        "features": list(policy.inputs.names),
        "lags": policy.lags,
        "include_time": policy.include_time,
        "y": policy._engine.y_dim,
        "threshold": policy.threshold if math.isfinite(policy.threshold) else None,
        "inputs": program.inputs,
        "outputs": program.outputs,
    }
