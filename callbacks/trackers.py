"""What loggers beside TensorBoard get: settings, and at the end what the run has written.

Every logger gets curves and settings from Lightning. W&B and MLflow also take the run's files:
config.yaml, metrics.json, the best checkpoint, the figures, and the policy as ONNX where that is
installed; MLflow the policy as a model, too. A tracker that cannot be reached costs a note, not
the run.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger, MLFlowLogger, WandbLogger

from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.registry import save_model
from lit_ios.variants import variant_name

OF_DATA = (
    "oversampling", "ratio", "batch_size", "batch_by", "lags", "folds", "lead", "stop_lead",
    "validation_share", "seed",
)  # fmt: skip


def run_settings(trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
    """Return what Lightning does not know of a run's settings: its data and what both amount to."""
    data = getattr(trainer, "datamodule", None)
    if data is None:
        return {}
    named = {
        "data": getattr(data, "name", type(data).__name__),
        "method": variant_name(pl_module, data, trainer.callbacks),  # type: ignore[attr-defined]
        "max_epochs": trainer.max_epochs,
    }
    return named | {f"data/{name}": getattr(data, name) for name in OF_DATA if hasattr(data, name)}


def send_results(loggers: list[Logger], folder: Path, checkpoint: Path | None) -> None:
    """Give the run's files to the loggers that take files.

    Args:
        loggers: of the trainer.
        folder: of the run.
        checkpoint: the best one; None if there is none.
    """
    takers = [logger for logger in loggers if isinstance(logger, WandbLogger | MLFlowLogger)]
    if not takers:
        return
    with _results(folder, checkpoint) as files:
        for logger in takers:
            try:
                send = _to_wandb if isinstance(logger, WandbLogger) else _to_mlflow
                send(logger, files, folder, checkpoint)
            except Exception as error:  # of a network, a server, a full disk: the run is done
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                warnings.warn(
                    f"{type(logger).__name__} did not take the files of {folder}: {reason}",
                    stacklevel=2,
                )


@contextmanager
def _results(folder: Path, checkpoint: Path | None) -> Iterator[dict[str, Path]]:
    """Return the run's files by the name they are to have; the exported policy exists meanwhile."""
    named = {name: folder / name for name in ("config.yaml", "metrics.json", "report.html")}
    named |= {f"figures/{file.name}": file for file in sorted((folder / "figures").glob("*.png"))}
    if checkpoint is not None:
        named["checkpoints/best.ckpt"] = checkpoint
    with tempfile.TemporaryDirectory() as place:
        if checkpoint is not None and find_spec("onnx") and find_spec("onnxscript"):
            try:
                made = StoppingPolicy.load(checkpoint).export(Path(place, "policy.onnx"))
                named["policy.onnx"] = made
            except UserError as error:
                warnings.warn(f"no policy.onnx for the tracker: {error}", stacklevel=4)
        yield {name: file for name, file in named.items() if file.is_file()}


def _to_wandb(logger: Any, files: dict[str, Path], folder: Path, checkpoint: Path | None) -> None:
    import wandb

    name = "-".join(part for part in folder.absolute().parts[-3:] if part)
    artifact = wandb.Artifact(re.sub(r"[^\w.-]", "_", name), type="run")
    for name, file in files.items():
        artifact.add_file(str(file), name=name)
    logger.experiment.log_artifact(artifact)
    for name, file in files.items():
        if name.endswith(".png"):
            logger.log_image(f"figures/{file.stem}", [str(file)])


def _to_mlflow(logger: Any, files: dict[str, Path], folder: Path, checkpoint: Path | None) -> None:
    client, run = logger.experiment, logger.run_id
    for name, file in files.items():
        client.log_artifact(run, str(file), str(Path(name).parent).removeprefix("."))
    if checkpoint is not None and find_spec("mlflow.pyfunc") is not None:
        with tempfile.TemporaryDirectory() as place:
            made = save_model(checkpoint, Path(place, "policy"))
            client.log_artifacts(run, str(made), "policy")
