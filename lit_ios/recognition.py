"""Recognising paths: by name with all rows, and by some rows that no other path has.

A threshold must not be calibrated on training paths, also if they were renamed or cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet, row_blocks

MARKS = 16  # rows that identify a path
Hashes = npt.NDArray[np.uint64]
NO_HASH = np.uint64(2**64 - 1)
Fingerprints = dict[str, list[Any]]  # plain values, as checkpoints keep them


def fingerprints(paths: TrajectorySet) -> Fingerprints:
    """Return fingerprints that identify paths: digests of whole ones, and some rows of each.

    Args:
        paths: of raw columns.
    """
    hashes = row_hashes(paths.states)
    order = np.argsort(hashes, kind="stable")  # equal ones stay in the order of paths
    hashes, path = hashes[order], paths.path_of_row[order]
    del order  # there may be millions of rows
    first = np.append(True, hashes[1:] != hashes[:-1])
    ends = np.append(np.flatnonzero(first)[1:], len(hashes)) - 1
    own = path[first] == path[ends]  # rows that two paths have tell neither
    hashes, path = hashes[first][own], path[first][own]
    order = np.argsort(path, kind="stable")  # the least hashes of each path: any few rows would do,
    hashes, path = hashes[order], path[order]  # but these are the same ones after rows were cut off
    kept = np.arange(len(path)) - np.searchsorted(path, path) < MARKS
    rows: list[list[int]] = [[] for _ in range(len(paths))]
    for value, number in zip(hashes[kept].tolist(), path[kept].tolist(), strict=True):
        rows[number].append(value)
    return {"whole": _digests(paths), "rows": rows}


def join_fingerprints(parts: list[Fingerprints]) -> Fingerprints:
    """Return the fingerprints of several processes' paths as one set."""
    return {name: [mark for part in parts for mark in part[name]] for name in ("whole", "rows")}


def recognised(paths: TrajectorySet, known: Fingerprints) -> list[str]:
    """Return the names of paths that are among the known ones: unchanged, or renamed or cut.

    The marks of a path are its least hashes. Any part of it has no other rows in the range of these
    hashes; a path that has two of them by chance, as rounded numbers bring about, has
    others as well. So a path is a known one if it has two of its marks, and they are at least
    half of its own rows in the range of the marks.
    """
    if not known:
        return []
    whole = set(known["whole"])
    met = np.array([digest in whole for digest in _digests(paths)])
    sizes = np.array([len(rows) for rows in known["rows"]], dtype=int)
    if sizes.sum():
        values = np.array([mark for rows in known["rows"] for mark in rows], dtype=np.uint64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = np.argsort(values)
        found = row_hashes(paths.states)
        at = order[np.searchsorted(values, found, sorter=order).clip(max=len(values) - 1)]
        hit = values[at] == found
        pairs = np.stack([paths.path_of_row[hit], owner[at[hit]], at[hit]])
        pairs = np.unique(pairs, axis=1)[:2]  # a row that comes twice counts once
        pairs, counts = np.unique(pairs, axis=1, return_counts=True)
        last = np.array(
            [rows[-1] if len(rows) == MARKS else NO_HASH for rows in known["rows"]], np.uint64
        )
        for number, other, count in zip(*pairs[:, counts > 1], counts[counts > 1], strict=True):
            rows = np.unique(found[paths.offsets[number] : paths.offsets[number + 1]])
            met[number] |= 2 * count >= np.searchsorted(rows, last[other], side="right")
    return [name for name, there in zip(paths.names, met, strict=True) if there]


def twins(paths: TrajectorySet) -> dict[int, int]:
    """Return the numbers of paths that have all rows, times and the outcome of an earlier one."""
    return same_contents(contents(paths))


def same_contents(digests: Iterable[bytes | None]) -> dict[int, int]:
    """Return the numbers of paths whose content an earlier one has; see `contents`."""
    met: dict[bytes, int] = {}
    found: dict[int, int] = {}
    for number, digest in enumerate(digests):
        first = number if digest is None else met.setdefault(digest, number)
        if first != number:
            found[number] = first
    return found


def contents(paths: TrajectorySet) -> list[bytes | None]:
    """Return a digest of each path's rows, times and outcome.

    Times count from each path's start. None of a single row: a state may recur.
    """
    values = _single(paths.states)
    begins = np.repeat(paths.times[paths.offsets[:-1]], paths.lengths)
    elapsed = _single(paths.times - begins)
    digests: list[bytes | None] = [None] * len(paths)
    for number in np.flatnonzero(paths.lengths > 1).tolist():
        rows = slice(paths.offsets[number], paths.offsets[number + 1])
        content = values[rows].tobytes() + elapsed[rows].tobytes()
        content += bytes([bool(paths.stopped[number])])
        digests[number] = hashlib.blake2b(content, digest_size=16).digest()
    return digests


def calibration_note(paths: TrajectorySet, about: Mapping[str, Any], what: str = "") -> str | None:
    """Say that a threshold was calibrated on some of these paths; None if it was not.

    Args:
        paths: of raw columns.
        about: the entry `lit_ios` of a checkpoint.
        what: kind of paths, in the sentence.
    """
    met = recognised(paths, about.get("calibrated_on") or {})
    if not met:
        return None
    named = f"{what} paths".strip()
    return (
        f"the threshold was calibrated on {len(met)} of these {len(paths)} {named}: these figures "
        "are not of fresh paths"
    )


def row_hashes(values: FloatArray) -> Hashes:
    """Return a number for each row that is the same for the same values in single precision."""
    hashes = np.empty(len(values), dtype=np.uint64)
    for block in row_blocks(len(values)):
        bits = _single(values[block]).view(np.uint32)
        mixed = np.zeros(len(bits), dtype=np.uint64)
        for column in bits.T.astype(np.uint64):
            mixed = _mix(mixed + column + np.uint64(0x9E3779B97F4A7C15))
        hashes[block] = mixed
    return hashes


def _single(values: FloatArray) -> FloatArray:
    """Return values in single precision, with one zero and one NaN."""
    with np.errstate(over="ignore"):  # too large for single precision: infinite
        single = np.ascontiguousarray(values, dtype=np.float32) + np.float32(0.0)
    single[np.isnan(single)] = np.nan
    return single


def _mix(x: Hashes) -> Hashes:
    """Scatter the bits of 64-bit numbers (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _digests(paths: TrajectorySet) -> list[str]:
    """Return a digest of each path's name and rows."""
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(paths.states, dtype=np.float32)
    bounds: IntArray = paths.offsets
    return [
        hashlib.blake2b(
            name.encode() + b"\0" + values[start:end].tobytes(), digest_size=8
        ).hexdigest()
        for name, start, end in zip(paths.names, bounds[:-1], bounds[1:], strict=True)
    ]
