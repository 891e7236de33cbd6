"""A policy as a model of MLflow, for its registry and its servers (extra `mlflow`).

    save_model("runs/my/auto/version_0", "model")
    mlflow.pyfunc.load_model("model").predict(table)  # what StoppingPolicy.predict returns

The model is the checkpoint with a note that this module reads it: nothing is pickled, and what is
refused of a stranger's checkpoint is refused here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lit_ios import __version__
from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy


def save_model(checkpoint: str | Path, folder: str | Path, allow: tuple[str, ...] = ()) -> Path:
    """Write a folder that MLflow takes for a model.

    Args:
        checkpoint: of the policy, or a run folder.
        folder: to write; it must not be there.
        allow: packages that the checkpoint may name classes of. A server must be told, too.
    """
    try:
        import mlflow.pyfunc
        from mlflow.models import ModelSignature
        from mlflow.types import ParamSchema, ParamSpec
    except ImportError:
        raise UserError("MLflow is not installed: pip install 'lit-ios[mlflow]'") from None
    place = Path(checkpoint)
    file = place / "checkpoints/best.ckpt" if place.is_dir() else place
    policy = StoppingPolicy.load(file, allow)
    if Path(folder).exists():
        raise UserError(f"{folder} is there already: give the name of a new folder")
    named = {"path": policy.table.path or "path", "time": policy.table.time or "time"}
    asked = ParamSchema([ParamSpec(name, "string", column) for name, column in named.items()])
    mlflow.pyfunc.save_model(
        str(folder), loader_module=__name__, data_path=str(file),
        signature=ModelSignature(params=asked), metadata={"columns": list(policy.columns)},
        pip_requirements=[f"lit-ios=={__version__}"],
    )  # fmt: skip
    return Path(folder)


class PolicyModel:
    """What MLflow calls.

    Args:
        policy: that decides.
    """

    def __init__(self, policy: StoppingPolicy) -> None:
        self.policy = policy

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Judge every row of a table of paths; see `StoppingPolicy.predict`.

        Args:
            model_input: a table.
            params: names of the columns of paths and times; by default as in training, or `path`
                and `time`.
        """
        return self.policy.predict(model_input, **(params or {}))


def _load_pyfunc(data_path: str) -> PolicyModel:
    """Read the checkpoint of a model; MLflow looks for this name."""
    return PolicyModel(StoppingPolicy.load(data_path))
