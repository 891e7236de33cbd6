"""A threshold calibrated on a folder of tables that need not fit into memory.

Each file is judged by itself and leaves behind what a calibration must know of its paths
(`lit_ios.policy.evidence`). Added up, that gives what one table of all files gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from lit_ios.checks import UserError
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.evidence import Evidence, joined
from lit_ios.policy.known_paths import known_to, refuse_met, warn_of_twins, without_twins
from lit_ios.policy.thresholds import check_wanted, parts_to_avoid
from lit_ios.promises.base import Promise
from lit_ios.readers.files import table_files
from lit_ios.recognition import contents, same_contents
from lit_ios.scale.files import digest_of, pass_on_notes, policy_once, with_notes
from lit_ios.scale.tasks import Place, results


class CalibrationTask(NamedTuple):
    """One file to learn from."""

    checkpoint: str
    allow: tuple[str, ...]
    digest: str
    source: str
    roles: dict[str, Any]
    lead: float
    per: str | None
    avoided: dict[str, str] | None  # parts of the record whose paths must not be there; None: any


class FileEvidence(NamedTuple):
    """What came out of one file."""

    evidence: Evidence
    names: tuple[str, ...]
    digests: list[bytes | None]  # of the content of each path
    read: int  # paths that were in the file
    twins: list[tuple[str, str]]  # that were left out, each with the path that it is
    met: dict[str, list[str]]  # paths the rule knows, by what was done with them
    notes: tuple[str, ...] = ()


def calibrate_folder(
    checkpoint: str | Path,
    folder: str | Path,
    *promises: Promise,
    allow: Sequence[str] = (),
    place: Place | None = None,
    lead: float | None = None,
    per: str | None = None,
    allow_known_paths: bool = False,
    **roles: Any,
) -> StoppingPolicy:
    """Choose the threshold on every table of a folder, each of which holds whole paths.

    Args:
        checkpoint: of the policy; other machines must find it under the same name.
        folder: of CSV or Parquet files.
        *promises: to keep; none for the highest balanced accuracy.
        allow: packages that the checkpoint's classes may come from.
        place: where to work; None for this process.
        lead: as for `StoppingPolicy.calibrate`.
        per: column of groups.
        allow_known_paths: as for `StoppingPolicy.calibrate`.
        **roles: further arguments of TableRoles.

    Returns:
        the policy with its new threshold, not yet saved.
    """
    check_wanted(promises, per)
    policy = StoppingPolicy.load(checkpoint, allow)
    avoided = None if allow_known_paths else parts_to_avoid(promises)
    file = Path(checkpoint).absolute()
    lead = policy.lead if lead is None else lead
    about = (str(file), tuple(allow), digest_of(file))
    tasks = [
        CalibrationTask(*about, str(source), roles, lead, per, avoided)
        for source in table_files(Path(folder).absolute())
    ]
    found: dict[str, FileEvidence] = {}
    for task, one in tqdm(
        results(read_evidence, tasks, place), total=len(tasks), unit="file", disable=None
    ):
        found[task.source] = one
    parts = {task.source: found[task.source] for task in tasks}  # in the order of the files
    pass_on_notes({source: part.notes for source, part in parts.items()})
    _refuse_cut_paths(parts)
    policy.choose_threshold(_all_evidence(list(parts.values()), avoided), promises)
    return policy


def read_evidence(task: CalibrationTask) -> FileEvidence:
    """Judge the paths of one file, and keep what a calibration must know of them."""
    found, notes = with_notes(lambda: _evidence(task))
    return found._replace(notes=notes)


def _evidence(task: CalibrationTask) -> FileEvidence:
    policy = policy_once(task.checkpoint, task.allow, task.digest)
    paths, labels = policy.labelled_paths(task.source, per=task.per, **task.roles)
    read, names, again = len(paths), paths.names, {}
    met = known_to(paths, policy.about, task.avoided or {})
    if task.avoided is not None:
        again = same_contents(contents(paths))
        paths, labels = without_twins(paths, labels, again)
    evidence = policy.evidence(paths, labels, task.lead, task.roles.get("missing"), reduced=True)
    twins = [(names[later], names[first]) for later, first in again.items()]
    return FileEvidence(evidence, paths.names, contents(paths), read, twins, met)


def _all_evidence(parts: list[FileEvidence], avoided: dict[str, str] | None) -> Evidence:
    """Join the evidence of all files; refuse known paths, and count each path once."""
    counts = [len(part.names) for part in parts]
    again: dict[int, int] = {}
    if avoided is not None:
        for what in avoided.values():
            met = [name for part in parts for name in part.met[what]]
            refuse_met(met, sum(part.read for part in parts), what)
        again = same_contents(chain.from_iterable(part.digests for part in parts))
        names = [name for part in parts for name in part.names]
        twins = [twin for part in parts for twin in part.twins]
        twins += [(names[later], names[first]) for later, first in again.items()]
        warn_of_twins(twins, sum(part.read for part in parts))
    kept = np.ones(sum(counts), dtype=bool)
    kept[list(again)] = False
    own = [np.flatnonzero(part) for part in np.split(kept, np.cumsum(counts)[:-1])]
    return joined([part.evidence for part in parts], own)


def _refuse_cut_paths(parts: dict[str, FileEvidence]) -> None:
    """Refuse paths that lie in two files: each was judged with half of its past."""
    owner: dict[str, str] = {}
    for source, part in parts.items():
        own = {*part.names, *(later for later, _ in part.twins)}
        for name in sorted(own):
            if owner.setdefault(name, source) != source:
                raise UserError(
                    f"path {name!r} lies in {owner[name]} and {source}: put whole paths into each "
                    "file, or leave --on and --processes out to read the folder as one table"
                )
