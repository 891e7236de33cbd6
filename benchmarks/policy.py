"""The deployed policy: time per observation, and whether its promises hold on fresh paths.

Times are medians of interleaved calls in one run, beside a bare NumPy pass of the same networks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import train
from benchmarks import promises
from benchmarks.grid import ROOT
from benchmarks.observed import quiet
from datamodules import BoundaryExitData
from lit_ios import StoppingPolicy, runtime
from lit_ios.rule import GainMemory
from lit_ios.trajectories import FloatArray

RESULTS = ROOT / "benchmarks/results/policy.json"


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


def latencies(policy: StoppingPolicy, folder: Path, calls: int) -> dict[str, float]:
    """Return microseconds per observation of each way, interleaved."""
    stream, row = policy.stream(), np.array([0.1, -0.2])
    file = policy.export(folder / "policy.onnx")
    exported = runtime.load(file).stream()
    many, names = policy.stream_many(), list(range(1000))
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "bare NumPy pass": (bare_pass(policy), 1),
        "stream.step": (lambda: stream.step(row), 1),
        "exported to ONNX, session.run": (session_run(file, row), 1),
        "exported to ONNX, stream.step": (lambda: exported.step(row), 1),
        "stream_many, 1,000 paths": (lambda: many.step(names, rows), 1000),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(calls // 50):
        for name, (go, observations) in ways.items():
            for _ in range(50 if observations == 1 else 2):  # in turn, each with a warm cache
                start = time.perf_counter()
                go()
                seconds[name].append((time.perf_counter() - start) / observations)
    return {name: round(float(np.median(values)) * 1e6, 2) for name, values in seconds.items()}


def batch_rate(policy: StoppingPolicy, rows: int = 1_000_000) -> float:
    """Return rows per second of a table's worth of paths, D = 3, one thread."""
    data = BoundaryExitData(problem="radial", paths=2, test_paths=2, seed=1)
    paths = data.simulator.simulate(rows // 40, np.random.default_rng(1))
    best = min(_seconds(lambda: policy.margins(paths)) for _ in range(3))
    return len(paths.states) / best


def _seconds(go: Callable[[], Any]) -> float:
    start = time.perf_counter()
    go()
    return time.perf_counter() - start


def measure_times(folder: Path, epochs: int, calls: int) -> dict[str, Any]:
    """Measure and print the latencies of two variants."""
    found: dict[str, Any] = {}
    for variant in ("iqs", "do_iqs_lb"):
        policy = trained(variant, epochs, folder)
        times = latencies(policy, folder, calls)
        rate = round(batch_rate(policy))
        found[variant] = {"microseconds": times, "batch_rows_per_second": rate}
        print(f"\n{variant}: microseconds per observation")
        for way, value in times.items():
            print(f"  {value:9.2f}  {way}")
        print(f"  {rate:,} rows per second in batches")
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
