"""The monitor: alarms while nothing changes, and paths until the alarm after features shift.

Paths are simulated and judged once, then drawn into streams. Features of a shifted path are moved
by so many of their standard deviations over all rows, all of them in the same direction; the
expert's stops stay where they were, as if sensors had drifted.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.grid import ROOT
from benchmarks.policy import trained
from datamodules import BoundaryExitData
from lit_ios import StoppingPolicy
from lit_ios.live import Monitor
from lit_ios.live.evidence import Jumper, OnlineRanks, bets
from lit_ios.live.path_scores import PathScores
from lit_ios.trajectories import IntArray, TrajectorySet

RESULTS = ROOT / "benchmarks/results/monitor.json"
SHIFTS, BEFORE, CALIBRATION = (0.5, 1.0, 2.0), (0, 500), 200
LEVELS = (0.01, 0.1)


def shifted(paths: TrajectorySet, by: float) -> TrajectorySet:
    """Return paths whose features are moved by so many standard deviations."""
    states = paths.states + by * paths.states.std(axis=0, keepdims=True)
    return replace(paths, states=states.astype(paths.states.dtype))


def drawn(scores: PathScores, numbers: IntArray) -> PathScores:
    """Return the scores of some paths."""
    return PathScores(*([values[i] for i in numbers] for values in scores))


def add(watch: Monitor, scores: PathScores) -> None:
    """Add paths until there is an alarm."""
    for margin, distance, stopped in zip(*scores, strict=True):
        if watch.add(margin, stopped, distance):
            return


def unchanged(scores: PathScores, level: float, streams: int, length: int) -> dict[str, Any]:
    """Count alarms in streams of paths like those of calibration."""
    rng, alarms = np.random.default_rng(0), 0
    for seed in range(streams):
        numbers = rng.permutation(len(scores.margin))[: CALIBRATION + length]
        reference = drawn(scores, numbers[:CALIBRATION])
        watch = Monitor(reference, 0.0, {}, "", alarm_probability=level, seed=seed)
        add(watch, drawn(scores, numbers[CALIBRATION:]))
        alarms += watch.alarm
    return {"stated": level, "streams": streams, "paths": length, "alarms": alarms,
            "allowed": allowed(level, streams)}  # fmt: skip


def unchanged_normal(
    level: float, streams: int, length: int, calibration: int = CALIBRATION
) -> dict[str, Any]:
    """Count alarms of one martingale on normal values while nothing changes, ranked in two ways.

    Among all values before them, as the monitor ranks them, or among the calibration values alone.
    """
    rng, alarms = np.random.default_rng(2), {"all": 0, "calibration alone": 0}
    for _ in range(streams):
        values, ties = rng.normal(size=calibration + length), 1 - rng.random(length)
        first, new = np.sort(values[:calibration]), values[calibration:]
        online = OnlineRanks(first.tolist())
        larger = calibration - np.searchsorted(first, new, side="right")
        found = {
            "all": [online.add(x, tie) for x, tie in zip(new.tolist(), ties, strict=True)],
            "calibration alone": (larger + ties) / (calibration + 1),
        }
        for name, p_values in found.items():
            jumper = Jumper(len(bets(0.5)))
            alarms[name] += max(jumper.add(bets(p)) for p in p_values) >= -math.log(level)
    return {"stated": level, "streams": streams, "paths": length, "alarms": alarms,
            "allowed": allowed(level, streams)}  # fmt: skip


def allowed(level: float, streams: int) -> int:
    """Return the number of alarms that is exceeded with a probability below 0.025."""
    total = 0.0
    for count in range(streams + 1):
        total += math.comb(streams, count) * level**count * (1 - level) ** (streams - count)
        if total >= 0.975:
            return count
    return streams


def delay(
    scores: PathScores, others: PathScores, before: int, streams: int, length: int
) -> dict[str, Any]:
    """Return after how many shifted paths the alarm comes, in quantiles over streams."""
    rng, found, by = np.random.default_rng(1), [], {"margin": 0, "distance": 0}
    early = 0
    for seed in range(streams):
        numbers = rng.permutation(len(scores.margin))
        split = [CALIBRATION, CALIBRATION + before, CALIBRATION + before + length]
        reference, same, new = np.split(numbers, split)[:3]
        watch = Monitor(drawn(scores, reference), 0.0, {}, "", seed=seed)
        add(watch, drawn(scores, same))
        if watch.alarm:
            early += 1
            continue
        add(watch, drawn(others, new))
        found.append(len(watch) - before if watch.alarm else np.inf)
        for kind in by:
            by[kind] += watch.verdicts[kind].since is not None
    low, middle, high = np.quantile(found, [0.1, 0.5, 0.9], method="higher").tolist()
    quantiles = {"10%": low, "median": middle, "90%": high}
    return {
        "before": before,
        **{name: int(value) if math.isfinite(value) else None for name, value in quantiles.items()},
        "found": round(float(np.isfinite(found).mean()), 4),
        "by": by,
        "alarms_before_the_shift": early,
    }


def measure(policy: StoppingPolicy, streams: int, simulated: int) -> dict[str, Any]:
    """Return all figures of one policy."""
    simulator = BoundaryExitData(problem="radial", horizon="censor", seed=0).simulator
    paths = simulator.simulate(simulated, np.random.default_rng(99))
    scores = policy.scores(paths)
    result: dict[str, Any] = {
        "unchanged": [unchanged(scores, level, streams, 1000) for level in LEVELS]
    }
    for by in SHIFTS:
        others = policy.scores(shifted(paths, by))
        result[f"shift {by:g}"] = [
            delay(scores, others, before, streams, 1000) for before in BEFORE
        ]
    return result


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitor", description=__doc__)
    parser.add_argument("--epochs", type=int, default=30, help="of training (%(default)s)")
    parser.add_argument("--streams", type=int, default=200, help="drawn (%(default)s)")
    parser.add_argument("--paths", type=int, default=60_000, help="simulated (%(default)s)")
    parser.add_argument("--file", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    parser.add_argument("--only", choices=("ranks", "policies"), help="default: both")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = json.loads(args.file.read_text()) if args.file.is_file() else {}
    if args.only != "policies":
        results["ranks"] = unchanged_normal(LEVELS[0], args.streams, 1000)
        print("ranks", json.dumps(results["ranks"], indent=2), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for variant in () if args.only == "ranks" else ("iqs", "do_iqs_lb"):
            results[variant] = measure(
                trained(variant, args.epochs, Path(folder)), args.streams, args.paths
            )
            print(variant, json.dumps(results[variant], indent=2), flush=True)
    args.file.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
