"""What the loaders yield and the modules take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lit_ios.checks import check_number
from lit_ios.trajectories import BoolArray, IntArray, TrajectorySet

ROUNDED_TIME = 1e-9  # by which the sum of two times may be off, relatively


class TrainBatch(NamedTuple):
    """B rows, standardised; batched by path, all rows of whole paths, one below the other.

    Rows that local bootstrap draws again are not repeated but counted: every mean over the batch
    weighs a row by its copies.
    """

    state: Tensor  # (B, D) float32
    action: Tensor  # (B,) float32: 0 stop, 1 continue
    next_state: Tensor  # (B, D) float32; zeros where the successor is the cemetery
    step: Tensor  # (B,) t of the row in its path
    synthetic: Tensor  # (B,) float32: 1 for rows made by SMOTE
    copies: Tensor  # (B,) or (K, B) float32: how often the row counts, for each member where they
    #                 differ; 0 for the last row of a censored path, which is no transition
    first_row: Tensor | None = None  # (B,) where the row's path begins; None if batched by row
    seen: Tensor | None = None  # (K, B) float32: how often each member sees the row's path


class PathBatch(NamedTuple):
    """Whole paths as a deployed rule meets them: raw columns; M rows, P paths."""

    columns: Tensor  # (M, C) raw
    time: Tensor  # (M,) in the data's unit
    step: Tensor  # (M,) t = 0, 1, … within the path
    first_row: Tensor  # (M,) index of the first row of the row's path
    path: Tensor  # (M,) 0 … P − 1
    last_row: Tensor  # (P,) index of each path's last row
    stopped: Tensor  # (P,) bool: the expert stopped at the last row
    number: Tensor  # (P,) position of the path in its set
    event_time: Tensor | None = None  # (P,) NaN where unknown; None: the stops of stopped paths
    judges: Tensor | None = None  # (K, P) bool: which members judge the path; None: all
    lead: float = 0.0  # by which a stop must come before the event to count as caught (M8)


def path_batch(
    paths: TrajectorySet,
    numbers: IntArray | None = None,
    judges: BoolArray | None = None,
    lead: float = 0.0,
) -> PathBatch:
    """Return these paths, or all, as one batch.

    Args:
        paths: of raw columns.
        numbers: which of them.
        judges: (K, all paths) which members judge each.
        lead: required between a stop and the event, in the data's unit.
    """
    check_number("lead", lead, at_least=0)
    numbers = np.arange(len(paths)) if numbers is None else numbers
    lengths = paths.lengths[numbers]
    begins = np.cumsum(lengths) - lengths
    first_row = np.repeat(begins, lengths)
    rows = np.arange(lengths.sum()) + np.repeat(paths.offsets[numbers] - begins, lengths)
    return PathBatch(
        columns=as_tensor(paths.states[rows]),
        time=as_tensor(paths.times[rows]),
        step=as_tensor(np.arange(len(rows)) - first_row),
        first_row=as_tensor(first_row),
        path=as_tensor(np.repeat(np.arange(len(numbers)), lengths)),
        last_row=as_tensor(begins + lengths - 1),
        stopped=as_tensor(paths.stopped[numbers]),
        number=as_tensor(numbers),
        event_time=as_tensor(paths.events[numbers]),
        judges=None if judges is None else as_tensor(judges[:, numbers]),
        lead=float(lead),
    )


def event_times(paths: PathBatch) -> Tensor:
    """Return when each path's event was: as given, else its stop; NaN where unknown; (P,)."""
    stops = torch.where(paths.stopped, paths.time[paths.last_row].double(), torch.nan)
    given = paths.event_time
    return stops if given is None else torch.where(given.isfinite(), given.double(), stops)


def last_in_time(paths: PathBatch) -> Tensor:
    """Return the step up to which a stop catches each path's event; (P,).

    M8: τ̂ ≤ τ − L. −1 where even a stop at the first row comes too late; the last step of a
    censored path, whose event is not known to be near.
    """
    steps = paths.step[paths.last_row]
    if paths.lead == 0:
        return steps
    latest = event_times(paths) - paths.lead
    latest = latest + ROUNDED_TIME * latest.abs()  # 0.3 − 0.1 is less than 0.2
    early = torch.where(paths.time.double() <= latest[paths.path], paths.step, -1)
    last = torch.full_like(steps, -1).scatter_reduce(0, paths.path, early, "amax")
    return torch.where(paths.stopped, last, steps)


def rows_at(paths: PathBatch, step: Tensor) -> Tensor:
    """Return the row of each path at a step that it has; (P,). Other rows may have been left out.

    Args:
        paths: whose rows lie one below the other, in the order of their steps.
        step: (P,)
    """
    most = torch.cat([paths.step, step.new_zeros(1)]).max() + 1  # there may be no path
    number = torch.arange(len(step), device=step.device)
    return torch.searchsorted(paths.path * most + paths.step, number * most + step)


def path_groups(paths: TrajectorySet, numbers: IntArray, rows: int) -> list[IntArray]:
    """Cut path numbers into groups; no path is added to a group that holds this many rows."""
    lengths = paths.lengths[numbers]
    group = (np.cumsum(lengths) - lengths) // rows
    return np.split(numbers, np.flatnonzero(np.diff(group)) + 1)


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """Share an array's memory with a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array))
