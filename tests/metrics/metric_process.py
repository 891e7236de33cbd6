"""What one of several processes does in the test of two: feed its share, then compute.

A module of its own, so that the processes need not import what the tests need.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.metrics import path_metrics

Share = Sequence[tuple[Tensor, PathBatch]]  # margins and paths of one process, batch by batch


def compute_all(share: Share) -> dict[str, float]:
    metrics = path_metrics("", frontier=True)
    for margin, paths in share:
        metrics.update(margin, paths)
    return {name: value.item() for name, value in metrics.compute().items()}


def run(rank: int, shares: Sequence[dict[str, Share]], folder: str) -> None:
    """Compute each case's metrics as process `rank` of as many as there are shares."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=len(shares),
        timeout=timedelta(seconds=30),
    )
    values = {case: compute_all(share) for case, share in shares[rank].items()}
    torch.save(values, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
