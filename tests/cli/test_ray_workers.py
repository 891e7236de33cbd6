"""One training on workers of Ray Train."""

import json
import subprocess
import sys

import pytest
import rank_process
import torch
from repository import ROOT

import train

SETTINGS = [
    "--data=bmG", "--model=do_iqs_lb", "--trainer.accelerator=cpu", "--trainer.max_epochs=2",
    "--data.init_args.paths=40", "--data.init_args.test_paths=11", "--threads=1",
]  # fmt: skip


def begin(tmp_path, name, *options):
    words = [sys.executable, rank_process.__file__, "fit", f"--runs_dir={tmp_path}/{name}"]
    return subprocess.run(
        [*words, *SETTINGS, *options], cwd=ROOT, text=True, timeout=900, capture_output=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip


def learnt(tmp_path, name):
    folder = tmp_path / name / "bmG/do_iqs_lb/version_0"
    weights = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    return weights, json.loads((folder / "metrics.json").read_text())


@pytest.mark.ray
@pytest.mark.parametrize("updates", ["joint", "alternating"])
def test_workers_learn_what_two_processes_learn(tmp_path, updates):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    how = f"--model.init_args.updates={updates}"
    for name, place in (("ray", ["--on=ray", "--workers=2"]), ("plain", ["--trainer.devices=2"])):
        done = begin(tmp_path, name, how, *place)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert done.stdout.count("Test paths:") == 1
    (weights, metrics), (expected, measured) = (learnt(tmp_path, n) for n in ("ray", "plain"))
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert metrics == measured


@pytest.mark.ray
def test_refusal_of_a_worker_is_the_commands(tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    done = begin(
        tmp_path, "runs", "--on=ray", "--workers=2", "--data.init_args.batch_by=rows",
    )  # fmt: skip
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith("error: the model remembers a path's past"), done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--workers=2"], "fit takes --on ray"),
        (["--on=processes"], "processes of this machine are --trainer.devices N"),
        (["--on=ray", "--workers=0"], "--workers must be a positive integer, got 0"),
        (["--trainer.strategy=ray"], r"Ray's are classes: fit … --on ray --workers N"),
    ],
)
def test_what_is_no_place_is_refused(options, sentence, tmp_path):
    with pytest.raises(SystemExit, match=sentence):
        train.main(["fit", *SETTINGS, f"--runs_dir={tmp_path}", *options])


def test_recipe_that_trains_in_one_process_takes_no_workers(tmp_path):
    words = ["fit", "--data=CP1", "--model=auto", f"--runs_dir={tmp_path}", "--on=ray"]
    with pytest.raises(SystemExit, match="auto trains in one process: name a --model"):
        train.main(words)
    assert not list(tmp_path.iterdir())


@pytest.mark.ray
def test_settings_of_ray_outside_of_its_workers_are_refused(tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(SystemExit, match="and this process is none: fit … --on ray"):
        train.main(["fit", *SETTINGS, f"--runs_dir={tmp_path}", "--config=ray"])


def test_other_commands_take_no_workers():
    with pytest.raises(SystemExit, match="--workers goes with fit"):
        train.main(["test", "runs", "--workers=2"])
