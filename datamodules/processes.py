"""What several processes tell each other about the data each has a share of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch.distributed

from lit_ios.trajectories import BoolArray, IntArray

T = TypeVar("T")


def all_gather(value: T) -> list[T]:
    """Return what each process gave, in the order of their ranks."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [value]
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, value)
    return found


def places_among_all(
    stopped: BoolArray, first_val: int, rank: int, gather: Callable[[Any], list[Any]]
) -> tuple[BoolArray, IntArray]:
    """Return which paths of all processes were stopped, and where among them this one's are.

    Their order is that in which a single process has them, so that what is drawn for them does
    not depend on the number of processes: those dealt out to training, then those dealt out to
    validation, each dealt out to the processes in turn.

    Args:
        stopped: (P,) of this process's paths.
        first_val: number of the first one that was dealt out to validation.
        rank: number of this process.
        gather: returns what each process has.
    """
    number = np.arange(len(stopped))
    validation = number >= first_val
    number[validation] -= first_val
    own = np.stack([np.full(len(stopped), rank), number, validation])  # the last decides first
    found = gather((own, stopped))
    places = np.concatenate([places for places, _ in found], axis=1)
    order = np.lexsort(places)
    flags = np.concatenate([flags for _, flags in found])
    return flags[order], np.flatnonzero(places[0][order] == rank)
