"""The deployed policy: time per observation, and whether its promises hold on fresh paths.

Times are medians of interleaved calls in one run, beside a bare NumPy pass of the same networks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

import train
from benchmarks import promises
from benchmarks.grid import ROOT
from benchmarks.observed import quiet
from datamodules import BoundaryExitData
from lit_ios import StoppingPolicy, runtime
from lit_ios.batches import path_batch
from lit_ios.live import Stream
from lit_ios.policy.forecasts import learn
from lit_ios.policy.live import live_rule
from lit_ios.rule import GainMemory
from lit_ios.rule.numpy_parts import OneRow, numpy_parts
from lit_ios.trajectories import FloatArray, TrajectorySet

RESULTS = ROOT / "benchmarks/results/policy.json"
STEP_GOAL = 1.3  # times a bare NumPy pass
PREDICT_GOAL = {"iqs": 2_000_000, "do_iqs_lb": 1_000_000}  # rows a second


def trained(
    variant: str, epochs: int, folder: Path, data: str = "radial", *options: str
) -> StoppingPolicy:
    """Train by train.py's own path."""
    with quiet():
        cli = train.main([
            "fit", f"--config={ROOT}/configs/data/{data}.yaml",
            f"--config={ROOT}/benchmarks/quiet.yaml",
            f"--config={ROOT}/configs/model/{variant}.yaml", f"--runs_dir={folder}",
            f"--trainer.max_epochs={epochs}", "--threads=1", *options,
        ])  # fmt: skip
    assert cli is not None
    return StoppingPolicy.load(cli.trainer.checkpoint_callback.best_model_path)  # type: ignore[union-attr]


def layers(policy: StoppingPolicy) -> list[list[tuple[FloatArray, FloatArray]]]:
    """Return weights and biases of each network that a step evaluates, layer by layer."""
    head: Any = policy.rule.head
    memory, networks = policy.rule.memory, [(*head.trunk, head.q)]
    if isinstance(memory, GainMemory):
        networks.append((*memory.trunk, memory.head))
    return [
        [
            (layer.weight.numpy().T.copy(), layer.bias.numpy())
            for layer in network
            if isinstance(layer, torch.nn.Linear)
        ]
        for network in networks
    ]


def bare_pass(policy: StoppingPolicy) -> Callable[[], Any]:
    """Return a function that does nothing but the products and activations of a step."""
    networks = layers(policy)
    inputs = [np.zeros((1, network[0][0].shape[0])) for network in networks]

    def go() -> None:
        for values, network in zip(inputs, networks, strict=True):
            for weight, bias in network[:-1]:
                values = values @ weight + bias
                values = values / (1 + np.exp(-values))
            values = values @ network[-1][0] + network[-1][1]

    return go


def session_run(file: Path, row: FloatArray) -> Callable[[], Any]:
    """Return a function that does nothing but run an exported file on one row of a new path."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["lit_ios"])
    given = {"columns": row[None], "time": np.array([np.nan]), "carry": np.array([about["start"]])}
    outputs = ["margin", "probability", "stop", "next_carry"]  # as lit_ios.runtime asks for
    return lambda: session.run(outputs, given)


class NotCompared(OneRow):
    """A step that does not compare the row with those of training."""

    def strange(self, now: FloatArray) -> tuple[float, tuple[str, ...]]:
        """Take every row for familiar."""
        return 0.0, ()


def simulated(count: int) -> TrajectorySet:
    """Return paths of radial."""
    data = BoundaryExitData(problem="radial", paths=2, test_paths=2, seed=1)
    return data.simulator.simulate(count, np.random.default_rng(1))


class Way(NamedTuple):
    """A way to judge rows: what to do before a path begins, then for each of its rows."""

    begin: Callable[[], Callable[[], Any]]
    rows: int = 1  # judged in one call


def ways(policy: StoppingPolicy, folder: Path) -> dict[str, Way]:
    """Return all ways by name."""
    file = policy.export(folder / "policy.onnx")
    exported, row = runtime.load(file), np.array([0.1, -0.2])
    parts, plain = numpy_parts(policy.rule), live_rule(policy.rule, policy.time_unit)
    assert parts is not None
    paths = simulated(200)
    margins = torch.from_numpy(policy.margins(paths))
    forecast = learn(margins, path_batch(paths), policy.rule.fingerprint)
    rules = {
        "stream.step": plain,
        "stream.step, without familiarity": replace(plain, one=NotCompared(parts)),
        "stream.step, with a forecast": replace(plain, forecast=forecast),
    }
    bare, session = bare_pass(policy), session_run(file, row)
    streams = {
        name: Way(partial(stepping, partial(Stream, rule), row)) for name, rule in rules.items()
    }
    return {
        "bare NumPy pass": Way(lambda: bare),
        **streams,
        "exported to ONNX, session.run": Way(lambda: session),
        "exported to ONNX, stream.step": Way(partial(stepping, exported.stream, row)),
        "stream_many, 1,000 paths": Way(partial(stepping_many, policy), 1000),
    }


def stepping(begin: Callable[[], Any], row: FloatArray) -> Callable[[], Any]:
    """Return a function that takes a new path's next row."""
    stream = begin()
    return lambda: stream.step(row)


def stepping_many(policy: StoppingPolicy) -> Callable[[], Any]:
    """Return a function that takes the next rows of 1,000 paths that have begun."""
    many, names = policy.stream_many(), list(range(1000))
    rows = 0.1 * np.random.default_rng(0).normal(size=(1000, 2))
    many.step(names, rows)
    return lambda: many.step(names, rows)


def latencies(policy: StoppingPolicy, folder: Path, calls: int) -> dict[str, float]:
    """Return microseconds per observation of each way, interleaved.

    Each path has 40 rows, as those of training have: longer ones would be unfamiliar, and to say
    why takes longer.
    """
    found = ways(policy, folder)
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(calls // 40):
        for name, way in found.items():
            go = way.begin()
            for _ in range(40 if way.rows == 1 else 2):  # in turn, each with a warm cache
                start = time.perf_counter()
                go()
                seconds[name].append((time.perf_counter() - start) / way.rows)
    return {name: round(float(np.median(values)) * 1e6, 2) for name, values in seconds.items()}


def table_rates(policy: StoppingPolicy, rows: int = 1_000_000) -> dict[str, int]:
    """Return rows per second of processor time, D = 3, one thread, of each step from a DataFrame.

    `predict` is all of it: reading the paths, judging them (which `decide` does with gains and
    familiarity, `margins` without), and making a table of it.
    """
    paths = simulated(rows // 40)
    frame = pd.DataFrame(dict(zip(paths.feature_names, paths.states.T, strict=True)))
    frame["unit"], frame["time"] = paths.path_of_row, paths.times
    roles = {"path": "unit", "time": "time"}
    ways: dict[str, Callable[[], Any]] = {
        "predict": lambda: policy.predict(frame, **roles),
        "paths": lambda: policy.paths(frame, **roles),
        "margins": lambda: policy.margins(paths),
        "decide": lambda: list(policy.decide(paths)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, way in ways.items():
            seconds[name].append(_seconds(way))
    return {name: round(len(frame) / float(np.median(took))) for name, took in seconds.items()}


def _seconds(go: Callable[[], Any]) -> float:
    start = time.process_time()  # what other programs take does not count
    go()
    return time.process_time() - start


def measure_times(folder: Path, epochs: int, calls: int) -> dict[str, Any]:
    """Measure and print the latencies of two variants."""
    found: dict[str, Any] = {}
    for variant in ("iqs", "do_iqs_lb"):
        policy = trained(variant, epochs, folder)
        times = latencies(policy, folder, calls)
        over = round(times["stream.step"] / times["bare NumPy pass"], 2)
        rates = table_rates(policy)
        found[variant] = {
            "microseconds": times, "step_over_bare_pass": over, "rows_per_second": rates,
        }  # fmt: skip
        print(f"\n{variant}: microseconds per observation")
        for way, value in times.items():
            print(f"  {value:9.2f}  {way}")
        print(f"  {over:9.2f}  stream.step over bare NumPy pass; goal: at most {STEP_GOAL}")
        for name, rate in rates.items():
            goal = f"; goal: at least {PREDICT_GOAL[variant]:,}" if name == "predict" else ""
            print(f"  {rate:9,}  rows a second, {name}{goal}")
    return found


def measure_promises(folder: Path, epochs: int, repeats: int) -> list[dict[str, Any]]:
    """Calibrate again and again on two worlds; print and return how promises were kept."""
    members = trained(  # eight of them
        "iqs_folds", epochs, folder, "radial", "--data.init_args.horizon=censor"
    )
    memory = trained(
        "iqs", epochs, folder, "fatigue", "--model.init_args.memory=accumulate",
        "--data.init_args.oversampling=bootstrap",
    )  # fmt: skip
    return promises.measure([promises.radial(members), promises.fatigue(memory)], repeats)


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__)
    parser.add_argument("--epochs", type=int, default=30, help="of training (%(default)s)")
    parser.add_argument("--calls", type=int, default=2000, help="timed calls (%(default)s)")
    parser.add_argument("--repeats", type=int, default=500, help="calibrations (%(default)s)")
    parser.add_argument("--only", choices=("times", "promises"), help="default: both")
    parser.add_argument("--file", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = json.loads(args.file.read_text()) if args.file.is_file() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.only != "promises":
            results["times"] = measure_times(folder, args.epochs, args.calls)
        if args.only != "times":
            results["promises"] = measure_promises(folder, args.epochs, args.repeats)
            print(promises.table(results["promises"], args.repeats))
    args.file.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
