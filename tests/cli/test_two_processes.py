"""Training on two CPU processes, through the command line."""

import json
import subprocess
import sys

import pytest
import torch
from repository import ROOT

SMALL = [
    "--data.init_args.paths=40", "--data.init_args.test_paths=11", "--trainer.max_epochs=2",
    "--trainer.callbacks+=WeightsOfEachRank",
]  # fmt: skip

# saves the weights of every rank at the end of training, so that they can be compared
CALLBACK = """
import sys, torch
import pytorch_lightning as pl
import train
class WeightsOfEachRank(pl.Callback):
    def on_train_end(self, trainer, pl_module):
        torch.save(pl_module.state_dict(), f"{trainer.logger.log_dir}/rank{trainer.global_rank}.pt")
if __name__ == "__main__":
    train.main()
"""


@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_two_processes_end_with_equal_weights_and_the_metrics_of_one(updates, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(CALLBACK)

    def run(command, *options):
        words = [sys.executable, str(script), command, "--runs_dir", str(tmp_path / "runs")]
        done = subprocess.run(
            [*words, *options], cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]

    two = ["--trainer.devices=2", "--trainer.accelerator=cpu"]
    run("fit", *SMALL, *two, f"--model.init_args.updates={updates}")
    folder = tmp_path / "runs/bmG/do_iqs_lb/version_0"
    first, second = (torch.load(folder / f"rank{rank}.pt") for rank in (0, 1))
    for name in first:
        assert torch.equal(first[name], second[name]), name
    measured_by_two = json.loads((folder / "metrics.json").read_text())
    run("test", f"--ckpt_path={folder}/checkpoints/best.ckpt", "--trainer.devices=1")
    alone = json.loads((folder.parent / "version_1/metrics.json").read_text())
    for name in (name for name in alone if name.startswith("test/")):
        assert alone[name] == pytest.approx(measured_by_two[name], abs=1e-6), name
