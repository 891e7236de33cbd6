"""Runs, found by their folder."""

from __future__ import annotations

import warnings
from pathlib import Path

from lit_ios.checks import UserError

SHOWN = 12  # runs that an error lists


def find_checkpoint(place: str | Path, name: str = "best") -> Path:
    """Return the checkpoint of a run.

    Args:
        place: a checkpoint; a run folder; or a folder above exactly one run.
        name: which checkpoint of the run to take.
    """
    given = Path(place)
    if given.is_file():
        return given
    if not given.is_dir():
        raise UserError(f"there is no file {given}: give a run folder or a checkpoint")
    for own in (given / "checkpoints", given):
        if (own / f"{name}.ckpt").is_file():
            return own / f"{name}.ckpt"
    found = [folder for folder in run_folders(given) if (folder / _BEST).is_file()]
    if not found:
        raise UserError(
            f"there is no run with a checkpoint in {given}: give a folder such as "
            "runs/<data>/<variant>/version_0"
        )
    if len(found) > 1:
        named = ", ".join(str(folder.relative_to(given)) for folder in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise UserError(f"{given} holds {len(found)} runs: give one of {named}{more}")
    return find_checkpoint(found[0], name)


def to_decide_by(run: str) -> Path:
    """Return the checkpoint of a run; say so if a calibrated one lies beside it."""
    checkpoint = find_checkpoint(run)
    calibrated = checkpoint.with_name("calibrated.ckpt")
    if not Path(run).is_file() and calibrated.is_file():
        warnings.warn(
            f"the threshold is that of training: to use the calibrated one, give {calibrated}",
            stacklevel=2,
        )
    return checkpoint


_BEST = "checkpoints/best.ckpt"


def run_folders(place: Path, *, candidates: bool = False) -> list[Path]:
    """Return the folders of all runs below a folder, in the order of their names.

    Args:
        place: where to look.
        candidates: also those that an auto run compared, and the defaults of a study.
    """
    found = {file.parent for file in place.rglob("checkpoints") if file.is_dir()}
    found |= {file.parent for file in place.rglob("auto.json")}
    kept = [folder for folder in found if candidates or not _is_candidate(folder)]
    return sorted(kept, key=lambda folder: [_number(part) for part in folder.parts])


def _is_candidate(folder: Path) -> bool:
    above = folder.parent
    owners = (above.parent / name for name in ("auto.json", "tune.json"))
    return above.name == "candidates" and any(file.is_file() for file in owners)


def _number(part: str) -> tuple[str, int]:
    """Return a name so that version_10 comes after version_9."""
    head, _, tail = part.rpartition("_")
    return (head, int(tail)) if tail.isdecimal() else (part, -1)
