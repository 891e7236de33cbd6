"""Training on two nodes, each begun by a torchrun of its own, or by srun, as a scheduler does."""

import json
import socket
import subprocess
import sys

import rank_process
import torch
from repository import ROOT

SETTINGS = [
    "--data=bmG", "--model=do_iqs_lb", "--trainer.accelerator=cpu", "--trainer.max_epochs=2",
    "--data.init_args.paths=40", "--data.init_args.test_paths=11",
    "--trainer.callbacks+=rank_process.HeldByEachRank",
]  # fmt: skip

TWO_NODES = ["--trainer.devices=1", "--trainer.num_nodes=2"]


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def begin(tmp_path, launcher, name, options, **environment):
    words = [
        sys.executable,
        *launcher,
        rank_process.__file__,
        "fit",
        f"--runs_dir={tmp_path}/{name}",
    ]
    return subprocess.Popen(
        [*words, f"--runs_dir={tmp_path}/{name}", *SETTINGS, *options], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | environment,
    )  # fmt: skip


def by_torchrun(tmp_path):
    port = free_port()
    nodes = [
        ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}",
         "--master-addr=127.0.0.1", f"--master-port={port}"]
        for rank in (0, 1)
    ]  # fmt: skip
    return [begin(tmp_path, node, "torchrun", TWO_NODES) for node in nodes]


def by_srun(tmp_path):
    """As srun starts `--nodes=2 --ntasks-per-node=1`: it says who is who by variables."""
    job = {
        "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "learn", "SLURM_NTASKS": "2", "SLURM_NNODES": "2",
        "SLURM_NTASKS_PER_NODE": "1", "SLURM_NODELIST": "127.0.0.1", "SLURM_LOCALID": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    who = [{"SLURM_PROCID": rank, "SLURM_NODEID": rank} for rank in "01"]
    return [begin(tmp_path, [], "srun", TWO_NODES, **job, **rank) for rank in who]


def finish(begun):
    for process in begun:
        shown = process.communicate(timeout=240)[0]
        assert process.returncode == 0, shown[-3000:]


def test_two_nodes_learn_what_two_processes_of_one_learn(tmp_path):
    finish(by_torchrun(tmp_path))
    finish(by_srun(tmp_path))
    finish([begin(tmp_path, [], "one", ["--trainer.devices=2"])])
    found = {}
    for name in ("torchrun", "srun", "one"):
        folder = tmp_path / name / "bmG/do_iqs_lb/version_0"
        first, second = (torch.load(folder / f"rank{rank}.pt")["weights"] for rank in (0, 1))
        assert all(torch.equal(values, second[key]) for key, values in first.items())
        found[name] = first, json.loads((folder / "metrics.json").read_text())
    for name in ("torchrun", "srun"):
        assert found[name][1] == found["one"][1]
        for key, values in found[name][0].items():
            assert torch.equal(values, found["one"][0][key]), key
