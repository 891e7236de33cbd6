"""Decisions on a folder of tables that need not fit into memory: one task per file.

    output/rows/<name>.parquet    the rows of one file with what was decided on each
    output/paths/<name>.parquet   one row per path: how many rows, when the first stop

Both folders are data sets to whatever reads Parquet. Each file is written whole or not at all, and
keeps what it was made of, so that a second call does only what is missing or has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from tqdm import tqdm

from lit_ios.checks import UserError
from lit_ios.files import replacing
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.decision_tables import path_table
from lit_ios.readers.files import table_files
from lit_ios.scale.files import digest_of, pass_on_notes, policy_once, with_notes
from lit_ios.scale.tasks import Place, results

_MADE_OF = b"lit_ios"  # key of a Parquet file's metadata


class FileTask(NamedTuple):
    """One file to decide on."""

    checkpoint: str
    allow: tuple[str, ...]
    source: str
    output: str
    roles: dict[str, Any]
    made_of: str

    @property
    def targets(self) -> tuple[Path, Path]:
        """The files of rows and of paths."""
        name = Path(self.source).name.split(".")[0] + ".parquet"
        return Path(self.output, "rows", name), Path(self.output, "paths", name)


class FileDecided(NamedTuple):
    """What came out of one file."""

    rows: int
    paths: int
    stopped: int  # of the paths
    notes: tuple[str, ...] = ()


class FolderDecided(NamedTuple):
    """What came out of a folder."""

    rows: int
    paths: int
    stopped: int  # of the paths
    files: int
    kept: int  # of the files, that an earlier call had written


def predict_folder(
    checkpoint: str | Path,
    folder: str | Path,
    output: str | Path,
    *,
    allow: Sequence[str] = (),
    place: Place | None = None,
    overwrite: bool = False,
    **roles: Any,
) -> FolderDecided:
    """Decide on every row of every table of a folder, each of which holds whole paths.

    Args:
        checkpoint: of the policy; other machines must find it under the same name.
        folder: of CSV or Parquet files.
        output: folder to write to.
        allow: packages that the checkpoint's classes may come from.
        place: where to work; None for this process.
        overwrite: replace what another policy or other settings wrote there.
        **roles: as for `StoppingPolicy.predict`.
    """
    tasks = _tasks(Path(checkpoint), Path(folder), Path(output), allow, roles)
    StoppingPolicy.load(checkpoint, allow)  # refused before anything is begun
    done = {} if overwrite else _done(tasks, Path(output))
    for part in ("rows", "paths"):
        Path(output, part).mkdir(parents=True, exist_ok=True)
    ahead = [task for task in tasks if task.source not in done]
    found = dict(done)
    for task, decided in tqdm(
        results(decide_file, ahead, place), total=len(ahead), unit="file", disable=None
    ):
        found[task.source] = decided
    pass_on_notes({source: decided.notes for source, decided in found.items()})
    _refuse_cut_paths(tasks)
    rows, paths, stopped = (sum(part[i] for part in found.values()) for i in range(3))  # type: ignore[misc]
    return FolderDecided(rows, paths, stopped, len(tasks), len(done))


def decide_file(task: FileTask) -> FileDecided:
    """Decide on the rows of one file and write both tables."""
    policy = policy_once(task.checkpoint, task.allow, json.loads(task.made_of)[0])
    decided, notes = with_notes(lambda: policy.predict(task.source, **task.roles))
    paths = path_table(decided)
    stopped = paths["first_stop_time"].length() - paths["first_stop_time"].null_count
    known = FileDecided(decided.num_rows, paths.num_rows, stopped, notes)
    made = {_MADE_OF: json.dumps({"of": task.made_of, "decided": known})}
    with contextlib.ExitStack() as stack:  # the table of paths last: it says that both are there
        for table, target in reversed(list(zip((decided, paths), task.targets, strict=True))):
            stream = stack.enter_context(replacing(target))
            pa_parquet.write_table(table.replace_schema_metadata(made), stream)
    return known


def _tasks(
    checkpoint: Path, folder: Path, output: Path, allow: Sequence[str], roles: dict[str, Any]
) -> list[FileTask]:
    """Return a task for each file, with what its decisions will be made of."""
    if output.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"output: {output} is in the folder of the data: give another one")
    tasks, policy = [], digest_of(checkpoint)
    for file in table_files(folder):
        about = file.stat()
        made_of = json.dumps(
            [policy, str(file.absolute()), about.st_size, about.st_mtime_ns, roles],
            sort_keys=True, default=str,
        )  # fmt: skip
        names = tuple(str(Path(name).absolute()) for name in (checkpoint, file, output))
        tasks.append(FileTask(names[0], tuple(allow), names[1], names[2], roles, made_of))
    counts = Counter(task.targets[0].name for task in tasks)
    for name, count in counts.items():
        if count > 1:
            raise UserError(
                f"{folder} holds {count} files whose decisions would all be {name}: rename them"
            )
    return tasks


def _done(tasks: list[FileTask], output: Path) -> dict[str, FileDecided]:
    """Return what earlier calls came to; refuse decisions that are not of this one."""
    names = {task.targets[1].name for task in tasks}
    strange = sorted(
        file.name for file in output.glob("*/*.parquet") if file.parent.name in ("rows", "paths")
    )
    for name in strange:
        if name not in names:
            raise UserError(
                f"{output} holds decisions on {name.removesuffix('.parquet')}, which is not among "
                "the data: give another --output"
            )
    done = {}
    for task in tasks:
        rows, paths = task.targets
        if not (rows.is_file() and paths.is_file()):
            continue
        known = _read_made_of(paths)
        if known is None or json.loads(known["of"])[0::4] != json.loads(task.made_of)[0::4]:
            raise UserError(
                f"{paths} is of another policy or other settings: give another --output, or "
                "--overwrite"
            )
        whole = _read_made_of(rows) == known  # else an earlier call ended between the two
        if whole and known["of"] == task.made_of:  # else the file has changed since
            done[task.source] = FileDecided(*known["decided"])
    return done


def _read_made_of(file: Path) -> dict[str, Any] | None:
    """Return what a table of ours was made of; None for other files."""
    try:
        found = json.loads((pa_parquet.read_schema(file).metadata or {})[_MADE_OF])
        return found if isinstance(found, dict) and {"of", "decided"} <= found.keys() else None
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None


def _refuse_cut_paths(tasks: list[FileTask]) -> None:
    """Refuse paths that lie in two files: their decisions know half of their past."""
    hashes, owners = [], []
    for number, task in enumerate(tasks):
        names = _path_names(task)
        hashes.append(np.array([hash_name(name) for name in names], np.uint64))
        owners.append(np.full(len(names), number))
    every, owner = np.concatenate(hashes), np.concatenate(owners)
    order = np.argsort(every, kind="stable")
    same = np.flatnonzero(every[order][1:] == every[order][:-1])
    for at in same:
        first, second = (tasks[owner[order[at + i]]] for i in (0, 1))
        both = set(_path_names(first)) & set(_path_names(second))
        if both and first is not second:
            for task in (first, second):
                for file in task.targets:
                    file.unlink(missing_ok=True)
            raise UserError(
                f"path {min(both)!r} lies in {first.source} and {second.source}: put whole paths "
                "into each file; the decisions on these two were removed"
            )


def _path_names(task: FileTask) -> list[str]:
    table = pa_parquet.read_table(task.targets[1])
    return [str(name) for name in table.column(0).to_pylist()]


def hash_name(name: str) -> int:
    """Return 64 bits of a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
