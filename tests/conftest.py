"""Shared by all tests: one thread, small paths, command lines run in this process."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from repository import ROOT

import train
from datamodules.loaders import PathLoader, TrainLoader
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)

# whole command lines, other processes, generated files: make test-fast leaves them out
SLOW = (
    "benchmarks/", "callbacks/test_trackers.py", "cli/", "datamodules/simulators/",
    "metrics/test_metrics_two_processes.py",
    "modules/test_folds.py", "modules/test_traced.py", "modules/test_validated_margin.py",
    "policy/test_checkpoints.py",
    "policy/test_estimator.py", "policy/test_exports.py", "policy/test_folder_calibration.py",
    "policy/test_folders.py",
    "policy/test_forecasts.py",
    "readers/test_generated_tables.py",
    "serve/test_processes.py", "test_extending.py", "test_examples.py", "test_fit.py",
    "test_report_in_browser.py", "tune/test_stacked.py",
    "tune/test_study.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Mark what takes long."""
    for item in items:
        if str(item.path.relative_to(ROOT / "tests")).startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def paths() -> TrajectorySet:
    """Return nine ragged paths of two features, two of them censored."""
    rng = np.random.default_rng(0)
    lengths = [4, 1, 7, 3, 5, 2, 6, 8, 3]
    return TrajectorySet.from_paths(
        [
            Trajectory(rng.normal(size=(n, 2)), stopped=i not in (2, 5), name=f"p{i}")
            for i, n in enumerate(lengths)
        ]
    )


@pytest.fixture
def path_batch(paths):
    """Return all nine paths in one batch."""
    return next(iter(PathLoader(paths)))


@pytest.fixture
def train_batch(paths):
    """Return a training batch of whole paths with bootstrapped stops."""
    states = paths.with_states(paths.states.astype(np.float32))
    loader = TrainLoader(states, batch_size=10_000, batch_by="paths", bootstrap_ratio=1.0)
    return next(iter(loader))


@pytest.fixture
def run_train(tmp_path):
    """Return a function that runs train.py's command line with small data in a fresh folder."""

    def run(command: str, *options: str, data: str = "CP1", model: str = "do_iqs_lb", small=True):
        words = [command]
        if data and model:
            words += ["--config", str(ROOT / f"configs/data/{data}.yaml")]
            words += ["--config", str(ROOT / f"configs/model/{model}.yaml")]
        words += ["--baseline=false", "--report=false"]
        if small:
            words += ["--data.init_args.paths=40", "--data.init_args.test_paths=10"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train.main([*words, "--runs_dir", str(tmp_path / "runs"), *options])

    return run
