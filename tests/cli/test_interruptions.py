"""Runs that must end early save, say how to go on, and go on to the bit."""

import json
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch

import train
from callbacks import Interruptions, RunCheckpoint
from callbacks.interruptions import exit_code
from lit_ios.checkpoints import read_checkpoint
from lit_ios.modules import StoppingModule
from lit_ios.program import jobs

MIDDLE = (
    "--trainer.max_epochs=3", "--data.init_args.batch_size=16",
    "--data.init_args.batches_per_call=3", "--model.init_args.dynamics_error=gaussian",
    "--model.init_args.successor_samples=2",
)  # fmt: skip


@pytest.fixture
def send(monkeypatch):
    """Return a function that lets a signal come in the middle of the second epoch."""

    def arrange(number, last=False):
        def on_train_batch_start(self, batch, batch_idx, usual=StoppingModule.on_train_batch_start):
            usual(self, batch, batch_idx)
            at = self.trainer.num_training_batches - 1 if last else 2
            if self.current_epoch == 1 and batch_idx == at:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(StoppingModule, "on_train_batch_start", on_train_batch_start)

    return arrange


def interrupted(run_train, tmp_path, code, *options):
    with pytest.raises(SystemExit) as ended:
        run_train("fit", *MIDDLE, *options, model="model_based_iqs")
    assert ended.value.code == code
    (last,) = tmp_path.rglob("last.ckpt")
    return last


def check_the_same_as_uninterrupted(run_train, last):
    cli = run_train("fit", f"--ckpt_path={last}", *MIDDLE, model="model_based_iqs")
    assert Path(cli.trainer.log_dir) == last.parent.parent
    whole = Path(run_train("fit", *MIDDLE, model="model_based_iqs").trainer.log_dir)
    for name in ("last", "best"):
        a = read_checkpoint(whole / f"checkpoints/{name}.ckpt")
        b = read_checkpoint(last.with_name(f"{name}.ckpt"))
        for key, values in a["state_dict"].items():
            assert torch.equal(values, b["state_dict"][key]), key
        assert a["lit_ios"] == b["lit_ios"]
        assert a["global_step"] == b["global_step"]
    metrics = [(f / "metrics.json").read_text() for f in (whole, last.parent.parent)]
    assert metrics[0] == metrics[1]


def test_a_signal_in_the_last_batch_of_an_epoch_waits_for_its_end(
    run_train, send, tmp_path, monkeypatch
):
    send(signal.SIGTERM, last=True)
    last = interrupted(run_train, tmp_path, 143)
    saved = read_checkpoint(last)
    assert saved["epoch"] == 1
    assert saved["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]["epoch"] == 1
    monkeypatch.undo()
    check_the_same_as_uninterrupted(run_train, last)


@pytest.mark.parametrize(("when", "epoch"), [("validation", 1), ("after the checkpoints", 2)])
def test_a_signal_between_two_epochs_costs_nothing(when, epoch, run_train, tmp_path, monkeypatch):
    hook, owner = "on_validation_epoch_end", StoppingModule
    if when == "after the checkpoints":  # of which the last was not due
        hook, owner = "on_train_epoch_end", RunCheckpoint
    usual = getattr(owner, hook)

    def and_then(self, *args):
        usual(self, *args)
        trainer = args[0] if args else self.trainer
        if trainer.current_epoch == 1 and getattr(self, "filename", "last") == "last":
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(owner, hook, and_then)
    last = interrupted(run_train, tmp_path, 143)
    assert read_checkpoint(last)["epoch"] == epoch
    monkeypatch.undo()
    check_the_same_as_uninterrupted(run_train, last)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle_of_an_epoch_costs_nothing(
    number, code, run_train, send, tmp_path, capsys, monkeypatch
):
    send(number)
    last = interrupted(run_train, tmp_path, code)
    said = capsys.readouterr().out
    assert f"in epoch 1: go on with  python train.py fit --ckpt_path {last}" in said
    saved = read_checkpoint(last)
    assert saved["loops"]["fit_loop"]["state_dict"]["combined_loader"][0] == {
        "epoch": 1, "position": 9,
    }  # fmt: skip
    monkeypatch.undo()
    check_the_same_as_uninterrupted(run_train, last)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_run_whose_time_is_up_goes_on_where_it_was(run_train, tmp_path, capsys, monkeypatch):
    def slow(self, batch, batch_idx, usual=StoppingModule.on_train_batch_start):
        usual(self, batch, batch_idx)
        if (self.current_epoch, batch_idx) == (1, 2):
            time.sleep(1000)

    now = [0.0]
    monkeypatch.setattr("callbacks.interruptions.time.monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(StoppingModule, "on_train_batch_start", slow)
    last = interrupted(run_train, tmp_path, 75, "--trainer.max_time=00:00:10:00")
    assert "the time is up in epoch 1: go on with" in capsys.readouterr().out
    monkeypatch.undo()
    check_the_same_as_uninterrupted(run_train, last)


def test_a_limit_is_given_as_lightning_takes_it():
    for limit in ("01:02:03:04", timedelta(1, 7384), {"days": 1, "seconds": 7384}):
        assert Interruptions(limit).limit == pytest.approx(93784, abs=1e-3)


def test_exit_codes_are_those_that_schedulers_know():
    codes = [exit_code(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    assert codes == [143, 130, 75]


def test_outside_the_main_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: Interruptions()._listen(lambda *_: None))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


# SLURM -------------------------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Let this process be a job; return the file in which a stand-in for scontrol notes calls."""
    calls = tmp_path / "bin/calls.txt"
    calls.parent.mkdir()
    command = calls.with_name("scontrol")
    command.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{calls.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    return calls


def test_a_job_that_is_told_to_is_put_back_in_line_and_goes_on(
    run_train, send, slurm, tmp_path, monkeypatch
):
    send(signal.SIGUSR1)
    last = interrupted(run_train, tmp_path, 75)
    assert slurm.read_text() == "requeue 77\n"
    words = ["fit", f"--runs_dir={tmp_path}/runs"]
    assert jobs.go_on(words) == words  # the job's first start
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert jobs.go_on(words) == [*words, f"--ckpt_path={last}"]
    assert jobs.go_on([*words, "--ckpt_path=mine"]) == [*words, "--ckpt_path=mine"]
    monkeypatch.setenv("SLURM_JOB_ID", "78")
    assert jobs.go_on(words) == words


def test_a_job_of_auto_goes_on_with_its_candidates(slurm, tmp_path, monkeypatch):
    folder = tmp_path / "runs/CP1/auto/version_0"
    folder.mkdir(parents=True)
    (folder / "auto.json").write_text("{}")
    jobs.remember_run(tmp_path / "runs", folder)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    words = ["fit", "--model=auto", f"--runs_dir={tmp_path}/runs"]
    assert jobs.go_on(words) == ["fit", "--resume", str(folder)]


def test_a_failed_requeue_is_an_error(slurm):
    slurm.with_name("scontrol").write_text("#!/bin/sh\necho no such job >&2\nexit 1\n")
    with pytest.raises(ValueError, match="scontrol requeue 77 failed: no such job"):
        jobs.requeue()


def test_auto_that_is_ended_says_how_to_go_on_and_goes_on(send, tmp_path, capsys, monkeypatch):
    send(signal.SIGTERM)
    words = [
        "fit", "--data=CP1", "--model=auto", "--quick", "--no-baseline",
        "--no-report", f"--runs_dir={tmp_path}",
        "--data.init_args.paths=40", "--data.init_args.test_paths=8", "--trainer.max_epochs=2",
        "--data.init_args.batch_size=64", "--data.init_args.batches_per_call=1",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        train.main(words)
    assert ended.value.code == 143
    folder = tmp_path / "CP1/auto/version_0"
    said = capsys.readouterr().out
    assert f"python train.py fit --resume {folder}" in said
    assert "--ckpt_path" not in said
    monkeypatch.undo()
    monkeypatch.setattr("callbacks.StoppingFigures.on_test_end", lambda *_: None)
    train.main(["fit", "--resume", str(folder)])
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 2
