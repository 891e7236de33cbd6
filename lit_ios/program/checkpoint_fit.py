"""Whether a checkpoint, a model and data belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lit_ios.checkpoints import PREFIX, read_checkpoint
from lit_ios.checks import UserError
from lit_ios.found import CONFIG
from lit_ios.modules import StoppingModule
from lit_ios.rule.weights import impossible, other_kind


def given_checkpoint(args: list[str]) -> Path | None:
    """Return the file given as --ckpt_path, if any."""
    words = [part for word in args for part in word.split("=", 1)]
    if "--ckpt_path" not in words[:-1]:
        return None
    checkpoint = Path(words[words.index("--ckpt_path") + 1])
    try:
        read_checkpoint(checkpoint)
    except UserError as error:
        raise UserError(f"--ckpt_path: {error}") from None
    return checkpoint.absolute()  # its run folder is two levels up, wherever it is named from


def run_config(checkpoint: Path | None) -> list[Path]:
    """Return the settings of the run a checkpoint belongs to, if they lie beside it."""
    config = None if checkpoint is None else checkpoint.parent.parent / CONFIG
    return [config] if config is not None and config.is_file() else []


def check_fit(checkpoint: Path, model: StoppingModule) -> None:
    """Compare a checkpoint with the model it is to be loaded into."""
    saved = read_checkpoint(checkpoint)["state_dict"]
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    different = sorted(set(wanted) ^ set(saved)) or [
        name for name, shape in wanted.items() if saved[name].shape != shape
    ]
    if different:
        raise UserError(
            f"--ckpt_path: {checkpoint} does not fit the model {type(model).__name__} of these "
            f"settings: {different[0]} differs"
        )
    wrong = other_kind(model.state_dict(), saved)
    reason = f"{wrong} is of another kind" if wrong else impossible(saved, PREFIX)
    if reason:
        raise UserError(f"--ckpt_path: {checkpoint} is damaged: {reason}; take another copy of it")


def check_columns(checkpoint: Path, model: StoppingModule, data: Any) -> None:
    """Refuse data that do not have the columns a checkpoint was trained on."""
    splits = getattr(data, "splits", ())
    had = model.rule.encoder.columns
    for paths in splits:
        if paths is not None and paths.feature_names != had:
            raise UserError(
                f"--ckpt_path: {checkpoint} was trained on the columns {', '.join(had)}, and these "
                f"data have {', '.join(paths.feature_names)}: give data of the same columns"
            )
