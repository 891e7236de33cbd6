"""Files that training wrote."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from lit_ios.checks import UserError


def write_checkpoint(content: dict[str, Any], file: str | Path) -> None:
    """Write a checkpoint whole or not at all, also over one that is there."""
    target = Path(file)
    if not target.parent.is_dir():
        raise UserError(f"there is no folder {target.parent}")
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".tmp", delete=False) as stream:
        try:
            torch.save(content, stream)
            stream.close()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(stream.name, target.stat().st_mode if target.exists() else 0o666 & ~mask)
            os.replace(stream.name, target)
        except BaseException:
            os.unlink(stream.name)
            raise


def read_checkpoint(file: str | Path) -> dict[str, Any]:
    """Read a checkpoint, running no code of it; any other file is refused."""
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}")
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
        _ = content["hyper_parameters"]["feature_names"], content["state_dict"]
        _ = dict(content.get("lit_ios", {}))
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    except Exception:  # what torch raises depends on what the file holds instead
        raise UserError(f"{file} is no checkpoint of this program") from None
    return dict(content)
