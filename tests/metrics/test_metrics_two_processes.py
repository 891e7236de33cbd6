"""Two processes, each with its share of the paths, agree with one that has them all."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
import torch
import torch.multiprocessing as mp
from metric_process import Share, compute_all, run
from path_loop import Path, path_set, random_paths

from datamodules.loaders import PathLoader, Shard
from lit_ios.metrics import path_metrics

pytestmark = pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")

PROCESSES, SECONDS = 2, 60
NAMES = list(path_metrics("", frontier=True).keys())


def alternating(stopped: Sequence[bool]) -> list[Path]:
    """Change the flags so that the processes' paths are of different kinds."""
    return [
        path._replace(stopped=stopped[i % len(stopped)]) for i, path in enumerate(random_paths(2))
    ]


CASES: dict[str, list[Path]] = {
    "many-paths": random_paths(0, count=41),
    "one-process-has-no-path": [Path([-1, 0.5, -1], [0, 1, 4], True)],
    "one-process-has-no-event": alternating([True, False]),
    "one-process-catches-nothing": [
        Path([-1, 1, -1, 2], [0, 1, 3, 9], True),
        Path([-1, -2, -2], [0, 1, 2], True),
        Path([1, 1, 1], [4, 5, 8], True),
    ],
    "no-event-at-all": alternating([False]),
}


def share_of(paths: list[Path], shard: Shard, rows_per_batch: int = 90) -> Share:
    loader = PathLoader(path_set(paths), rows_per_batch=rows_per_batch, shard=shard)
    return [(batch.columns[:, 0], batch) for batch in loader]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, float]]]:
    """What each process says, for each case."""
    folder = tmp_path_factory.mktemp("processes")
    shares = [
        {case: share_of(paths, Shard(rank, PROCESSES)) for case, paths in CASES.items()}
        for rank in range(PROCESSES)
    ]
    context = mp.spawn(run, (shares, str(folder)), nprocs=PROCESSES, join=False)
    deadline = time.monotonic() + SECONDS
    try:
        while not context.join(timeout=1):  # raises what a process raised
            assert time.monotonic() < deadline, f"not done after {SECONDS} s"
    finally:
        for process in context.processes:
            process.kill()
            process.join()
    return [torch.load(folder / f"{rank}.pt") for rank in range(PROCESSES)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_every_process_computes_the_value_of_all_paths(
    together: list[dict[str, dict[str, float]]], case: str, name: str
) -> None:
    alone = compute_all(share_of(CASES[case], Shard()))[name]
    said = [values[case][name] for values in together]
    assert said == [pytest.approx(alone, rel=1e-6, nan_ok=True)] * PROCESSES


def test_cases_leave_one_process_without_a_path() -> None:
    ((margin, paths),) = share_of(CASES["one-process-has-no-path"], Shard(1, PROCESSES))
    assert len(margin) == len(paths.stopped) == 0


def test_cases_give_a_process_several_batches() -> None:
    assert len(share_of(CASES["many-paths"], Shard(1, PROCESSES))) > 1
