"""Live paths for a long time: right to the last row, in constant time and memory."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import torch

from benchmarks.reliability_checks.outcome import Outcome
from lit_ios import StoppingPolicy
from lit_ios.rule import StoppingRule
from lit_ios.trajectories import Trajectory, TrajectorySet

FEATURES = ("heat", "load")


def policy(seed: int, memory: str | None = "accumulate") -> StoppingPolicy:
    """Return a rule of random weights that remembers."""
    torch.manual_seed(seed)
    from lit_ios.data_record import Inputs
    from lit_ios.imports import class_path
    from lit_ios.rule import ColumnEncoder, MLPHead, memory_spec

    encoder = {"class_path": class_path(ColumnEncoder), "init_args": {"columns": list(FEATURES)}}
    head = {"class_path": class_path(MLPHead), "init_args": {"hidden": [16]}}
    inputs = Inputs(encoder=encoder, lags=1, include_time=True).plain()
    rule = StoppingRule(**inputs, head=head, memory=memory_spec(memory), members=2)
    rule.time_step.fill_(1.0)
    return StoppingPolicy(rule)


def _memory() -> int:
    """Return the bytes of memory this process holds."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def stream_steps(trials: int, seed: int) -> Outcome:
    """Step one path of `trials` rows; its margins are those of the whole path.

    To 1e-9, or that share of margins above 1.
    """
    rule = policy(seed)
    states = np.random.default_rng(seed).normal(size=(trials, len(FEATURES)))
    path = Trajectory(states, stopped=False, name="long", times=np.arange(float(trials)))
    wanted = rule.margins(TrajectorySet.from_paths([path], list(FEATURES)))
    stream, found = rule.stream(), np.empty(trials)
    marks, sizes = [time.process_time()], [_memory()]
    for number, row in enumerate(states):
        found[number] = stream.step(row, time=float(number)).margin
        if (number + 1) % max(trials // 10, 1) == 0:
            marks.append(time.process_time())  # of the processor: others may run beside
            sizes.append(_memory())
    # times, and with them the margins, grow along the path: doubles are as exact as they are large
    bad = int((np.abs(found - wanted) > 1e-9 * np.maximum(1, np.abs(wanted))).sum())
    tenths = np.diff(marks)
    slower, grown = tenths[-1] / tenths[0], (sizes[-1] - sizes[1]) / 2**20
    return Outcome(
        trials, bad + int(grown > 16), f"last tenth {slower:.2f} times the first, {grown:+.1f} MB"
    )


def joining_paths(trials: int, seed: int) -> Outcome:
    """Let paths join and end; every margin is that of the path alone."""
    rule, rng = policy(seed), np.random.default_rng(seed)
    streams, before, bad, ended = rule.stream_many(), 0, 0, 0
    alive: dict[int, list[np.ndarray]] = {}
    born = 0
    while ended < trials:
        while len(alive) < 500 and born < trials:
            alive[born] = []
            born += 1
        names, rows = list(alive), rng.normal(size=(len(alive), len(FEATURES)))
        decided = streams.step(names, rows)
        for name, row, margin in zip(names, rows, decided.margin, strict=True):
            alive[name].append(row)
            if name % 997 == 0:  # a sample is stepped alone
                stream = rule.stream()
                alone = [stream.step(one).margin for one in alive[name]][-1]
                bad += int(abs(alone - margin) > 1e-9)
        leaving = [name for name in names if rng.random() < 0.2]
        streams.end(leaving)
        ended += len(leaving)
        for name in leaving:
            del alive[name]
        before = before or (_memory() if ended > trials // 10 else 0)
    grown = (_memory() - before) / 2**20
    return Outcome(trials, bad + int(grown > 16), f"{grown:+.1f} MB")


def stream_threads(trials: int, seed: int) -> Outcome:
    """Step as many paths as `trials` in threads of their own, with one rule."""
    rule, rng = policy(seed), np.random.default_rng(seed)
    rows = rng.normal(size=(trials, 2000, len(FEATURES)))
    streams = [rule.stream() for _ in range(trials)]
    wanted = [
        [stream.step(row).margin for row in some]
        for stream, some in zip(streams, rows, strict=True)
    ]
    found: list[list[float]] = [[] for _ in range(trials)]

    def follow(number: int) -> None:
        stream = rule.stream()
        found[number] = [stream.step(row).margin for row in rows[number]]

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(trials)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Outcome(trials, sum(a != b for a, b in zip(wanted, found, strict=True)))
