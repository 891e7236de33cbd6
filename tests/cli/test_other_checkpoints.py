"""Files that are no checkpoints of this program, or of another version of it, are refused."""

import warnings
from pathlib import Path

import pytest
import torch
from repository import ROOT

import train
from lit_ios.checkpoints import write_checkpoint
from lit_ios.program import main

NOT_OURS = "is not a lit-ios checkpoint: give a run folder or a checkpoint"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("other")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main([
            "fit", f"--config={ROOT}/configs/data/CP1.yaml",
            f"--config={ROOT}/configs/model/iqs.yaml", "--data.init_args.paths=40",
            "--data.init_args.test_paths=10", "--trainer.max_epochs=1", f"--runs_dir={folder}",
        ])  # fmt: skip
    return Path(cli.trainer.log_dir)


def of_version(version):
    def change(content):
        content["lit_ios"]["version"] = version

    return change


def without_entry(content):
    del content["lit_ios"]


def of_another_format(content):
    content["lit_ios"]["format"] = "somebody's checkpoint"


def without_version(content):
    del content["lit_ios"]["version"]


def with_an_entry_of_another_kind(content):
    content["lit_ios"] = "lit-ios checkpoint"


def without_weights(content):
    del content["state_dict"]


CHANGES = [
    (of_version(2), r"has version 2 of the checkpoint format; this program reads version 1"),
    (of_version(0), r"has version 0 of the checkpoint format; this program reads version 1"),
    (of_version("1"), r"has version '1' of the checkpoint format; this program reads version 1"),
    (without_version, r"has version None of the checkpoint format; this program reads version 1"),
    (without_entry, NOT_OURS),
    (of_another_format, NOT_OURS),
    (with_an_entry_of_another_kind, NOT_OURS),
    (without_weights, NOT_OURS),
]


@pytest.fixture(params=CHANGES, ids=lambda change: f"{change[0].__name__}, {change[1][4:15]}")
def other(request, run):
    """Return a changed copy of a checkpoint in its run's folder, and what is wrong with it."""
    change, reason = request.param
    content = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    change(content)
    file = run / "checkpoints/other.ckpt"
    write_checkpoint(content, file)
    return file, reason


@pytest.mark.parametrize("command", ["fit", "validate", "test", "predict"])
def test_train_refuses_other_checkpoints_in_one_sentence(command, other, tmp_path):
    file, reason = other
    with pytest.raises(SystemExit, match=rf"^error: --ckpt_path: {file} {reason}$"):
        train.main([command, f"--ckpt_path={file}", f"--runs_dir={tmp_path}/runs"])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["predict", "calibrate", "frontier", "export"])
def test_lit_ios_refuses_other_checkpoints_in_one_sentence(command, other, tmp_path, capsys):
    file, reason = other
    table = file.with_name("any.csv")
    table.touch()
    more = {
        "predict": ["--data", str(table), "--output", str(tmp_path / "decisions.csv")],
        "calibrate": ["--output", str(tmp_path / "policy.ckpt")],
        "frontier": ["--output", str(tmp_path / "frontier.png")],
        "export": [str(tmp_path / "policy.onnx")],
    }
    assert main([command, str(file), *more[command]]) == 1
    assert capsys.readouterr().err.rstrip("\n").endswith(f"error: {file} {reason}")
    assert not list(tmp_path.iterdir())


def test_checkpoint_of_this_version_is_taken(run, tmp_path):
    content = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    assert content["lit_ios"]["format"] == "lit-ios checkpoint"
    assert content["lit_ios"]["version"] == 1
    write_checkpoint(content, run / "checkpoints/same.ckpt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main(
            ["test", f"--ckpt_path={run}/checkpoints/same.ckpt", f"--runs_dir={tmp_path}"]
        )
    assert "test/balanced_accuracy" in cli.trainer.callback_metrics
