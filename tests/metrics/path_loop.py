"""Stopped paths as plain lists, and M1–M5 and M7 by a loop over paths and rows (SPEC section 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from lit_ios.batches import PathBatch
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)


class Path(NamedTuple):
    """One path: the policy's margin and the time of each row."""

    margins: list[float]
    times: list[float]
    stopped: bool


class Loop(NamedTuple):
    """M1–M4 and M7 of a set of paths; NaN where there is nothing to count."""

    balanced_accuracy: float
    region_balanced_accuracy: float
    event_miss_rate: float
    false_alarm_rate: float
    alarms_per_time: float
    stopped_at_first_row: float
    paths: int
    stopped_paths: int
    times_to_event: list[float]
    row_is_stop: list[bool]  # the expert's, for each row
    row_is_late: list[bool]  # the row is at or after the policy's first stop
    row_in_region: list[bool]  # the row by itself is a stop of the policy


def stop_step(path: Path, threshold: float) -> float:
    """E9."""
    for t, margin in enumerate(path.margins):
        if margin >= threshold:
            return t
    return math.inf


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits) if hits else math.nan


def loop(paths: Sequence[Path], threshold: float = 0.0, window: float = 0.0) -> Loop:
    is_stop, is_late, in_region, missed, left = [], [], [], [], []
    false_alarm, alarms, observed = [], 0, 0.0
    for path in paths:
        expert = len(path.margins) - 1
        policy = stop_step(path, threshold)
        for t, margin in enumerate(path.margins):
            is_stop.append(path.stopped and t == expert)
            is_late.append(t >= policy)
            in_region.append(margin >= threshold)
        if path.stopped:
            missed.append(policy > expert)
            if policy <= expert:
                left.append(path.times[expert] - path.times[int(policy)])
                alarms += path.times[int(policy)] < path.times[expert] - window
            observed += max(path.times[expert] - window - path.times[0], 0.0)
        else:
            false_alarm.append(policy <= expert)
            alarms += policy <= expert
            observed += path.times[expert] - path.times[0]
    return Loop(
        balanced_accuracy=_halves(is_stop, is_late),
        region_balanced_accuracy=_halves(is_stop, in_region),
        event_miss_rate=share(missed),
        false_alarm_rate=share(false_alarm),
        alarms_per_time=alarms / observed if observed > 0 else math.nan,
        stopped_at_first_row=share([path.margins[0] >= threshold for path in paths]),
        paths=len(paths),
        stopped_paths=len([path for path in paths if path.stopped]),
        times_to_event=left,
        row_is_stop=is_stop,
        row_is_late=is_late,
        row_in_region=in_region,
    )


def _halves(truth: list[bool], predicted: list[bool]) -> float:
    pairs = list(zip(truth, predicted, strict=True))
    true_positive = share([guess for fact, guess in pairs if fact])
    true_negative = share([not guess for fact, guess in pairs if not fact])
    return 0.5 * (true_positive + true_negative)


def operating_point(paths: Sequence[Path], threshold: float) -> tuple[float, float]:
    """EMR and mean TTE at one threshold."""
    found = loop(paths, threshold)
    left = found.times_to_event
    return found.event_miss_rate, (sum(left) / len(left) if left else math.nan)


def all_thresholds(paths: Sequence[Path]) -> list[float]:
    """Every margin, everything between two of them, and both ends."""
    levels = sorted({margin for path in paths for margin in path.margins})
    between = [(a + b) / 2 for a, b in pairwise(levels)]
    return [-math.inf, levels[0] - 1, *levels, *between, levels[-1] + 1, math.inf]


def path_batch(paths: Sequence[Path]) -> tuple[Tensor, PathBatch]:
    """Margins and batch of these paths, row by row; no paths give an empty batch."""
    margin, time, step, first, number, last = [], [], [], [], [], []
    for i, path in enumerate(paths):
        begin = len(margin)
        for t in range(len(path.margins)):
            margin.append(path.margins[t])
            time.append(path.times[t])
            step.append(t)
            first.append(begin)
            number.append(i)
        last.append(len(margin) - 1)
    margins = torch.tensor(margin, dtype=torch.float32)
    return margins, PathBatch(
        columns=margins[:, None],
        time=torch.tensor(time, dtype=torch.float64),
        step=torch.tensor(step, dtype=torch.int64),
        first_row=torch.tensor(first, dtype=torch.int64),
        path=torch.tensor(number, dtype=torch.int64),
        last_row=torch.tensor(last, dtype=torch.int64),
        stopped=torch.tensor([path.stopped for path in paths], dtype=torch.bool),
        number=torch.arange(len(paths)),
    )


def path_set(paths: Sequence[Path]) -> TrajectorySet:
    """Return the paths with the margin as their only feature."""
    return TrajectorySet.from_paths(
        Trajectory(
            np.array(path.margins, dtype=np.float32)[:, None], np.array(path.times), path.stopped
        )
        for path in paths
    )


def random_paths(seed: int, count: int = 40, longest: int = 30) -> list[Path]:
    """Gaussian margins, some of them tied, at uneven times; a third of the paths is censored."""
    rng = np.random.default_rng(seed)
    paths = []
    for i in range(count):
        rows = int(rng.integers(1, longest + 1))
        margins = rng.normal(-1.5, 1.0, rows).astype(np.float32)
        tied = rng.random(rows) < 0.2
        margins[tied] = np.round(margins[tied])
        times = rng.uniform(-50, 50) + np.cumsum(rng.exponential(3.0, rows) + 0.01)
        paths.append(Path(margins.tolist(), times.tolist(), i % 3 > 0))
    return paths


QUARTERS = st.integers(-6, 6).map(lambda n: n / 4)  # ties, zeros, and exact in float32


@st.composite
def path_lists(draw: st.DrawFn, censored: bool = True) -> list[Path]:
    """Draw one to six short paths at uneven times, if wanted with censored ones among them."""
    drawn = []
    for _ in range(draw(st.integers(1, 6))):
        margins = draw(st.lists(QUARTERS, min_size=1, max_size=6))
        gaps = draw(st.lists(st.integers(1, 40), min_size=len(margins), max_size=len(margins)))
        times = (np.cumsum(gaps) / 8 - 20).tolist()
        drawn.append(Path(margins, times, not censored or draw(st.booleans())))
    return drawn


@st.composite
def uneven_batches(draw: st.DrawFn) -> list[list[Path]]:
    """Cut the drawn paths into batches of any size, empty ones among them."""
    paths = draw(path_lists())
    cuts = sorted(draw(st.lists(st.integers(0, len(paths)), max_size=5)))
    ends = zip([0, *cuts], [*cuts, len(paths)], strict=True)
    return [paths[begin:end] for begin, end in ends]
