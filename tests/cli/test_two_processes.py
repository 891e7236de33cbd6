"""Training on two CPU processes, through the command line."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import rank_process
import torch
from repository import ROOT

from datamodules import TableData
from lit_ios.recognition import fingerprints

TWO = [
    "--trainer.devices=2", "--trainer.accelerator=cpu", "--trainer.max_epochs=2",
    "--trainer.callbacks+=rank_process.HeldByEachRank",
]  # fmt: skip
SMALL = ["--data.init_args.paths=40", "--data.init_args.test_paths=11"]


@pytest.fixture
def run_two(tmp_path):
    """Return a function that trains in two processes; they draw no figures."""

    def run(*options):
        words = [sys.executable, rank_process.__file__, "fit", f"--runs_dir={tmp_path}/runs"]
        done = subprocess.run(
            [*words, *TWO, *options], cwd=ROOT, capture_output=True, text=True, timeout=180,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]

    return run


@pytest.fixture
def measure_alone(tmp_path, run_train):
    """Return a function that measures a checkpoint in this process alone."""

    def run(command, checkpoint):
        options = (f"--ckpt_path={checkpoint}", "--trainer.devices=1")
        cli = run_train(command, *options, data="", small=False)
        return json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())

    return run


def check_equal_weights_and_metrics_of_one(measure_alone, folder):
    first, second = (torch.load(folder / f"rank{rank}.pt") for rank in (0, 1))
    for name, values in first["weights"].items():
        assert torch.equal(values, second["weights"][name]), name
    measured_by_two = json.loads((folder / "metrics.json").read_text())
    alone = measure_alone("test", folder / "checkpoints/best.ckpt")
    for name in (name for name in alone if name.startswith("test/")):
        assert alone[name] == pytest.approx(measured_by_two[name], abs=1e-6), name
    return first, second


@pytest.mark.parametrize("memory", ["accumulate", "gru"])
def test_two_processes_remember_alike(memory, run_two, measure_alone, tmp_path):
    options = ("members=4", "margin=validated", "gain_gradient=true", f"memory={memory}")
    run_two(*SMALL, "--data.init_args.folds=2", *(f"--model.init_args.{x}" for x in options))
    (folder,) = (tmp_path / "runs/bmG").glob("*/version_0")
    check_equal_weights_and_metrics_of_one(measure_alone, folder)


@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_two_processes_end_with_equal_weights_and_the_metrics_of_one(
    updates, run_two, measure_alone, tmp_path
):
    run_two(*SMALL, f"--model.init_args.updates={updates}")
    check_equal_weights_and_metrics_of_one(measure_alone, tmp_path / "runs/bmG/do_iqs_lb/version_0")


def check_what_members_see(ranks, data, members):
    """Each process deals its paths out to the members as a single one would."""
    data.prepare_for(members)
    names = data.splits.train.names
    for rank in (rank["about"] for rank in ranks):
        own = [names.index(name) for name in rank["names"]]
        for found, expected in ((rank["seen"], data._seen), (rank["judges"], data._judges)):
            if expected is None:
                assert found is None
            else:
                assert found.shape == (members, len(own))
                assert found.tolist() == expected[:, own].tolist()


MEMBERS = ["--model.init_args.members=3"]
FOLDS = ["--model.init_args.members=6", "--data.init_args.folds=3"]


@pytest.mark.parametrize(
    ("options", "members"), [([], 1), (MEMBERS, 3), (FOLDS, 6)], ids=["one", "members", "folds"]
)
def test_each_of_two_processes_reads_its_share_of_a_table(
    options, members, run_two, measure_alone, tmp_path
):
    lengths = np.random.default_rng(0).integers(3, 12, size=43)  # of which 21 are trained on
    columns = {
        "unit": np.repeat(np.arange(43), lengths),
        "day": np.concatenate([np.arange(n) for n in lengths]),
        "heat": np.random.default_rng(1).normal(3.0, 2.0, size=lengths.sum()),
        "colour": np.resize(["red", "blue"], lengths.sum()),
    }
    file, written = tmp_path / "units.parquet", pa.table(columns)
    if options:
        parquet.write_table(written, file)
    else:  # a folder of files, which need not hold whole paths
        file.mkdir()
        for name, part in (("a", written[:150]), ("b", written[150:])):
            parquet.write_table(part, file / f"{name}.parquet")
    table = [
        f"--config={ROOT}/configs/data/table.yaml", f"--data.init_args.file={file}",
        "--data.init_args.path=unit", "--data.init_args.time=day",
    ]  # fmt: skip
    run_two(*table, "--model=do_iqs_lb", *options)
    (folder,) = (tmp_path / "runs/units").glob("*/version_0")
    ranks = check_equal_weights_and_metrics_of_one(measure_alone, folder)
    held = [set(rank["about"]["names"]) for rank in ranks]
    data = TableData(
        file=str(file), path="unit", time="day", oversampling="bootstrap", seed=0,
        folds=3 if options == FOLDS else None,
    )  # fmt: skip
    everything = data.splits.train
    check_what_members_see(ranks, data, members)
    assert held[0] | held[1] == set(everything.names)
    assert not held[0] & held[1]
    assert abs(len(held[0]) - len(held[1])) <= (2 if options == FOLDS else 1)  # of each part
    weights = ranks[0]["weights"]
    heat, colour = everything.states.T
    assert everything.categories == {"colour": ("blue", "red")}
    start = np.repeat(everything.times[everything.offsets[:-1]], everything.lengths)
    states = np.stack([heat, colour == 0, colour == 1, everything.times - start], axis=1)
    assert weights["rule.scaler.mean"].numpy() == pytest.approx(states.mean(0))
    assert weights["rule.scaler.scale"].numpy() == pytest.approx(states.std(0))
    for part, paths in (("training", everything), ("validation", data.splits.val)):
        assert ranks[0]["about"][part] == ranks[1]["about"][part]
        assert sorted(ranks[0]["about"][part]["whole"]) == sorted(fingerprints(paths)["whole"])
    if options == FOLDS:
        by_one = measure_alone("validate", folder / "checkpoints/last.ckpt")
        by_two = ranks[0]["about"]["measured"]
        assert by_one["val/balanced_accuracy"] == pytest.approx(by_two, abs=1e-6)
