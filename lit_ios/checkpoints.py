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
    lead              time by which stops had to come before events in validation
    calibration       how the threshold was chosen, if it was
    calibrated_on     fingerprints of the paths it was chosen on
    reference         largest margin and distance of each of them, for a monitor
    forecast          how long is left at a row, if that was learnt
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lit_ios.checks import UserError
from lit_ios.files import replacing
from lit_ios.records import check_record, check_weights
from lit_ios.seals import read_sealed, seal_archive

if TYPE_CHECKING:
    from lit_ios.data_record import DataRecord
    from lit_ios.rule import StoppingRule

FORMAT, VERSION = "lit-ios checkpoint", 1
PREFIX = "rule."  # of the rule's weights among those of the module that learns it
INSTEAD = "give a run folder or a checkpoint"
NO_CHECKPOINT = f"is not a lit-ios checkpoint: {INSTEAD}"


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
            "lead": record.lead,
        }
    return about


def sealed(content: dict[str, Any]) -> bytes:
    """Return a checkpoint as bytes that end in a checksum of all before it.

    The checksum is the comment of the zip archive that `torch.save` makes, so that `torch.load` and
    any other program still read the file.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return seal_archive(buffer.getvalue())


def write_checkpoint(content: dict[str, Any], file: str | Path, *, durable: bool = True) -> None:
    """Write a checkpoint with its checksum, whole or not at all, also over one that is there."""
    with replacing(file, durable=durable) as stream:
        stream.write(sealed(content))


def load_sealed(file: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Load a checkpoint, running no code of it; refuse one that is not as it was written."""
    data = read_sealed(file, "a lit-ios checkpoint", INSTEAD)
    _refuse_packed(data, file)
    try:
        return dict(torch.load(io.BytesIO(data), map_location=map_location, weights_only=True))
    except Exception:  # what torch raises depends on what the file holds instead
        raise UserError(f"{file} {NO_CHECKPOINT}") from None


def _refuse_packed(data: bytes, file: str | Path) -> None:
    """Refuse an archive that unpacks to more than it is: torch.save packs nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise UserError(f"{file} {NO_CHECKPOINT}") from None
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or sum(entry.file_size for entry in entries) > len(data):
        raise UserError(f"{file} is not read: it unpacks to more than it is; {INSTEAD}")


def read_checkpoint(file: str | Path) -> dict[str, Any]:
    """Read a checkpoint, or the best one of a run folder, running no code of it."""
    if Path(file).is_dir():
        file = Path(file) / "checkpoints/best.ckpt"
    content = load_sealed(file)
    try:
        about = dict(content.get("lit_ios", {}))
        known = about.get("format") == FORMAT and isinstance(content["state_dict"], dict)
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        raise UserError(f"{file} {NO_CHECKPOINT}")
    if about.get("version") != VERSION:
        raise UserError(
            f"{file} has version {about.get('version')!r} of the checkpoint format; this program "
            f"reads version {VERSION}"
        )
    check_record(about, file)
    check_weights(content["state_dict"], file)
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
