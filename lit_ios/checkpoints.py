"""Files that training wrote: weights, the rule they belong to, and how it was trained.

Beside what Lightning keeps, a checkpoint has an entry `lit_ios` of plain values:

    format, version   what the file is
    rule              all that makes the rule, encoder included, but its weights
    data              name of the data set
    table             columns of the table it was trained on
    trained           class of the module
    training, validation   fingerprints of the paths
    paths, stops      how many paths it was trained on, and how many of them were stopped
    candidate, held_out    what training in this program took, and its cross-fitted accuracy
    calibration       how the threshold was chosen, if it was
    calibrated_on     fingerprints of the paths it was chosen on
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lit_ios.checks import UserError

if TYPE_CHECKING:
    from lit_ios.data_record import DataRecord
    from lit_ios.rule import StoppingRule

FORMAT, VERSION = "lit-ios checkpoint", 1
PREFIX = "rule."  # of the rule's weights among those of the module that learns it


def describe(rule: StoppingRule, record: DataRecord | None, trained: str) -> dict[str, Any]:
    """Return the entry that makes a checkpoint one of ours.

    Args:
        rule: whose weights the checkpoint holds.
        record: of the data it was trained on; None if these were no data module of ours.
        trained: class path of the module.
    """
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "rule": rule.spec,
        "trained": trained,
    }
    if record is not None:
        about |= {
            "data": record.name,
            "table": record.table._asdict(),
            "training": record.training,
            "validation": record.validation,
            "paths": record.paths,
            "stops": record.stops,
        }
    return about


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
        content = dict(torch.load(file, map_location="cpu", weights_only=True))
        about = dict(content.get("lit_ios", {}))
        known = about.get("format") == FORMAT and isinstance(content["state_dict"], dict)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    except Exception:  # what torch raises depends on what the file holds instead
        known = False
    if not known:
        raise UserError(f"{file} is not a lit-ios checkpoint")
    if about.get("version") != VERSION:
        raise UserError(
            f"{file} has version {about.get('version')!r} of the checkpoint format; this program "
            f"reads version {VERSION}"
        )
    return content


def rule_content(rule: StoppingRule, about: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of a rule alone, without what training would go on with."""
    weights = {f"{PREFIX}{name}": values for name, values in rule.state_dict().items()}
    return {"state_dict": weights, "lit_ios": describe(rule, None, "") | about}


def rule_weights(content: dict[str, Any]) -> dict[str, Any]:
    """Return the rule's state out of a checkpoint's."""
    return {
        name.removeprefix(PREFIX): values
        for name, values in content["state_dict"].items()
        if name.startswith(PREFIX)
    }
