"""A run that was stopped goes on as if it had not been, wherever its folder is now."""

import json
import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from repository import ROOT, VARIANTS

import train
from lit_ios.checkpoints import write_checkpoint

FIRST = (
    "fit", f"--config={ROOT}/configs/data/CP1.yaml", f"--config={ROOT}/configs/model/iqs.yaml",
    "--data.init_args.paths=40", "--data.init_args.test_paths=10", "--trainer.max_epochs=1",
)  # fmt: skip
RUN = Path("CP1/iqs/version_0")
UNBEATEN = 2.0  # more than any accuracy


def run_quietly(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train.main(list(words))


def assert_equal_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def check_that_the_best_epoch_stays(folder, checkpoint):
    """Pretend that no epoch can beat the first one, resume for another, look for the first."""
    last = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    score = torch.tensor(UNBEATEN)
    (state,) = (
        state
        for state in last["callbacks"].values()
        if state.get("monitor") == "val/balanced_accuracy"
    )
    state |= {"best_model_score": score, "kth_value": score, "current_score": score}
    state["best_k_models"] = dict.fromkeys(state["best_k_models"], score)
    write_checkpoint(last, folder / "checkpoints/last.ckpt")
    folder = folder.resolve()
    best = (folder / "checkpoints/best.ckpt").read_bytes()
    before = json.loads((folder / "metrics.json").read_text())
    cli = run_quietly("fit", f"--ckpt_path={checkpoint}", "--trainer.max_epochs=2")
    assert Path(cli.trainer.log_dir).resolve() == folder
    assert torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["epoch"] == 1
    assert (folder / "checkpoints/best.ckpt").read_bytes() == best
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics == before | {"best_epoch": 0, "epochs": 2}
    assert {file.name for file in (folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}


@pytest.fixture(scope="module")
def one_epoch(tmp_path_factory):
    """Return a folder `runs` with a run of one epoch, whose place it knows as `runs/…`."""
    base, before = tmp_path_factory.mktemp("resuming"), Path.cwd()
    os.chdir(base)
    try:
        run_quietly(*FIRST, "--runs_dir=runs")
    finally:
        os.chdir(before)
    return base / "runs"


@pytest.fixture
def here(one_epoch, tmp_path, monkeypatch):
    """Change to a fresh folder that holds a copy of the run; return the folder."""
    shutil.copytree(one_epoch, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spelled",
    [
        "{run}/checkpoints/last.ckpt",
        "./{run}/checkpoints/last.ckpt",
        "runs/../{run}/checkpoints/last.ckpt",
        "{run}/checkpoints/../checkpoints/last.ckpt",
        "{here}/{run}/checkpoints/last.ckpt",
    ],
)
def test_best_epoch_stays_however_the_path_is_spelled(spelled, here):
    run = Path("runs") / RUN
    check_that_the_best_epoch_stays(run, spelled.format(run=run, here=here))


@pytest.mark.parametrize(
    ("inside", "checkpoint"),
    [
        ("..", "version_0/checkpoints/last.ckpt"),
        (".", "checkpoints/last.ckpt"),
        ("checkpoints", "last.ckpt"),
    ],
)
def test_best_epoch_stays_where_the_run_is_resumed_from_in_or_beside_its_folder(
    inside, checkpoint, here, monkeypatch
):
    folder = here / "runs" / RUN
    monkeypatch.chdir(folder / inside)
    check_that_the_best_epoch_stays(folder, checkpoint)


def test_best_epoch_stays_where_the_path_was_absolute_and_is_relative_now(tmp_path, monkeypatch):
    run_quietly(*FIRST, f"--runs_dir={tmp_path}/runs")
    monkeypatch.chdir(tmp_path)
    run = Path("runs") / RUN
    check_that_the_best_epoch_stays(run, run / "checkpoints/last.ckpt")


@pytest.mark.parametrize("relative", [True, False])
def test_best_epoch_stays_in_a_folder_that_was_moved(relative, here):
    target = Path("archive/of/2024/mine")
    target.parent.mkdir(parents=True)
    shutil.move(Path("runs") / RUN, target)
    target = target if relative else here / target
    check_that_the_best_epoch_stays(target, target / "checkpoints/last.ckpt")
    assert not (Path("runs") / RUN).exists()


def test_best_epoch_stays_in_a_moved_folder_whose_old_place_is_taken_by_another_run(here):
    old, target = Path("runs") / RUN, Path("kept/version_0")
    target.parent.mkdir()
    shutil.copytree(old, target)
    (old / "checkpoints/best.ckpt").write_bytes(b"of another run")
    check_that_the_best_epoch_stays(target, target / "checkpoints/last.ckpt")
    assert (old / "checkpoints/best.ckpt").read_bytes() == b"of another run"


def test_best_epoch_stays_behind_a_link(here):
    Path("link").symlink_to(Path("runs") / RUN)
    check_that_the_best_epoch_stays(Path("link"), "link/checkpoints/last.ckpt")


@pytest.mark.parametrize("variant", VARIANTS)
def test_run_stopped_after_every_epoch_and_resumed_ends_like_the_uninterrupted_one(
    variant, run_train
):
    def folder_after(*epochs):
        """Train to each of these epochs in turn, each time from where the run had stopped."""
        resume = ()
        for last in epochs:
            cli = run_train("fit", f"--trainer.max_epochs={last}", *resume, model=variant)
            folder = Path(cli.trainer.log_dir)
            resume = (f"--ckpt_path={folder}/checkpoints/last.ckpt",)
        return folder

    whole, resumed = folder_after(3), folder_after(1, 2, 3)
    assert resumed != whole
    for name in ("last", "best"):
        a, b = (
            torch.load(f / f"checkpoints/{name}.ckpt", weights_only=True) for f in (whole, resumed)
        )
        assert_equal_weights(a["state_dict"], b["state_dict"])
        assert a["epoch"] == b["epoch"]
        assert a["lit_ios"] == b["lit_ios"]
    assert (whole / "metrics.json").read_text() == (resumed / "metrics.json").read_text()


def test_schedules_go_on_where_the_run_was_stopped(run_train):
    cli = run_train("fit", "--trainer.max_epochs=1", model="iqs_cs_smote")
    last = f"{cli.trainer.log_dir}/checkpoints/last.ckpt"
    run_train("fit", "--trainer.max_epochs=3", f"--ckpt_path={last}", model="iqs_cs_smote")
    checkpoint = torch.load(last, weights_only=True)
    assert checkpoint["epoch"] == 2
    state = checkpoint["state_dict"]
    assert float(state["rule.epsilon"]) == pytest.approx(0.1 * 0.9999**2)
    assert float(state["confidence"]) == pytest.approx(0.99 * 0.95**2)
    rates = [group["lr"] for s in checkpoint["optimizer_states"] for group in s["param_groups"]]
    assert rates == pytest.approx([0.01 * 0.99**3] * len(rates))


def refused_from(here, change):
    """Return what is said of a run whose state of training was changed."""
    last = here / "runs" / RUN / "checkpoints/last.ckpt"
    content = torch.load(last, weights_only=True)
    change(content)
    write_checkpoint(content, last)
    with pytest.raises(SystemExit) as ended:
        run_quietly(
            "fit", f"--ckpt_path={last}", "--trainer.max_epochs=2", "--no-baseline", "--no-report"
        )
    said = str(ended.value.code)
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize(
    "change",
    [
        {"progress": {"terms": 5, "random": None}},
        {"progress": {"terms": {}, "random": ["x"]}},
        {"optimizer_states": [5]},
        {"lr_schedulers": 5},
        {"callbacks": [5]},
        {"loops": {"fit_loop": 5}},
        {"pytorch-lightning_version": "x"},
    ],
)
def test_a_damaged_state_of_training_is_refused_in_one_sentence(change, here):
    said = refused_from(here, lambda content: content.update(change))
    assert "cannot go on from" in said
    assert "take another copy" in said


def test_weights_that_would_lose_something_are_not_gone_on_with(here):
    def change(content):
        bias = "rule.head.q.bias"
        content["state_dict"][bias] = content["state_dict"][bias].to(torch.complex64)

    assert "rule.head.q.bias is of another kind" in refused_from(here, change)


def test_an_error_of_ones_own_after_the_first_epoch_is_not_called_damage(here, monkeypatch):
    from lit_ios.modules import IQS

    def fail(self):
        if self.current_epoch == 2:
            raise TypeError("of my own")

    monkeypatch.setattr(IQS, "on_train_epoch_start", fail)
    with pytest.raises(TypeError, match="of my own"):
        run_quietly(
            "fit",
            f"--ckpt_path=runs/{RUN}",
            "--trainer.max_epochs=4",
            "--no-baseline",
            "--no-report",
        )


def test_a_checkpoint_cannot_name_a_file_outside_of_its_folder_to_be_removed(here):
    """Lightning removes what the state of a callback says was the best epoch before."""
    folder = here / "runs" / RUN / "checkpoints"
    kept = here / "kept.ckpt"
    kept.write_text("mine")
    content = torch.load(folder / "last.ckpt", weights_only=True)
    outside, score = f"{folder}/../../../../../kept.ckpt", torch.tensor(-1.0)
    assert Path(outside).samefile(kept)
    for state in content["callbacks"].values():
        if "best_model_path" in state:
            state |= {
                "dirpath": str(folder), "best_model_score": score, "kth_value": score,
                "kth_best_model_path": outside, "best_k_models": {outside: score},
                "last_model_path": outside,
            }  # fmt: skip
    write_checkpoint(content, folder / "last.ckpt")
    run_quietly(
        "fit",
        f"--ckpt_path={folder}/last.ckpt",
        "--trainer.max_epochs=2",
        "--no-baseline",
        "--no-report",
    )
    assert kept.read_text() == "mine"
