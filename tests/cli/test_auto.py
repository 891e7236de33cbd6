"""The recipe of a user who chooses nothing: candidates, the one taken, going on, refusals."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import train
from lit_ios import StoppingPolicy
from lit_ios.recipe import Score, best_of, read_recipe, table

SMALL = (
    "--data", "CP1", "--data.init_args.paths=40", "--data.init_args.test_paths=20",
    "--trainer.max_epochs=3",
)  # fmt: skip
NAMES = ["none", "lags", "accumulate", "gru"]


def run_quietly(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train.main(list(words))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("auto")
    run_quietly("fit", *SMALL, "--model", "auto", f"--runs_dir={runs}")
    return runs / "CP1/auto/version_0"


def test_candidates_are_those_of_the_settings_file():
    recipe = read_recipe()
    assert list(recipe.candidates) == NAMES
    assert recipe.quick in NAMES
    memories = {n: s["model"]["init_args"].get("memory") for n, s in recipe.candidates.items()}
    assert memories == {"none": None, "lags": None, "accumulate": "accumulate", "gru": "gru"}
    assert all(s["data"]["init_args"]["folds"] == 4 for s in recipe.candidates.values())


def test_the_run_folder_has_the_one_taken_on_top_and_all_below(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    assert list(metrics["candidates"]) == NAMES
    taken = metrics["candidate"]
    scores = {name: one["cross_fitted"] for name, one in metrics["candidates"].items()}
    assert scores[taken] == max(scores.values())
    own = finished / "candidates" / taken
    assert (own / "checkpoints/best.ckpt").read_bytes() == (
        finished / "checkpoints/best.ckpt"
    ).read_bytes()
    config = yaml.safe_load((finished / "config.yaml").read_text())
    assert config["data"]["init_args"]["folds"] == 4
    assert metrics["val/cross_fitted_accuracy"] == scores[taken]
    assert 0.5 < metrics["test/balanced_accuracy"] <= 1
    assert (finished / "figures/margins.png").is_file()


def test_candidates_are_never_tested(finished):
    for name in NAMES:
        assert not (finished / "candidates" / name / "metrics.json").exists()
        assert (finished / "candidates" / name / "checkpoints/last.ckpt").is_file()


def test_the_checkpoint_on_top_is_a_policy_and_can_be_tested_again(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    assert StoppingPolicy.load(finished / "checkpoints/best.ckpt").rule.members == 8
    cli = run_quietly(
        "test", "--ckpt_path", str(finished / "checkpoints/best.ckpt"),
        f"--runs_dir={finished.parent / 'again'}",
    )  # fmt: skip
    again = json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())
    assert again["test/balanced_accuracy"] == metrics["test/balanced_accuracy"]


def test_an_interrupted_run_goes_on_to_the_same_result(finished, tmp_path, capsys):
    folder = tmp_path / "moved"
    shutil.copytree(finished, folder)
    for name in ("metrics.json", "config.yaml"):
        (folder / name).unlink()
    shutil.rmtree(folder / "checkpoints")
    shutil.rmtree(folder / "candidates/gru")  # not begun
    half = folder / "candidates/accumulate"  # cut off after its last epoch
    (half / "candidate.json").unlink()
    run_quietly("fit", "--resume", str(folder))
    before, after = (json.loads((f / "metrics.json").read_text()) for f in (finished, folder))
    for found in (before, after):
        for one in found["candidates"].values():
            del one["seconds"]
    assert before == after
    weights = [
        torch.load(f / "candidates/gru/checkpoints/best.ckpt", weights_only=True)["state_dict"]
        for f in (finished, folder)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert "<- taken" in capsys.readouterr().out


def test_ones_own_settings_file_wins_over_the_recipe(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("model:\n  init_args:\n    hidden: [8]\ntrainer:\n  max_epochs: 1\n")
    words = [word for word in SMALL if "max_epochs" not in word]
    given = (f"--config={own}", f"--runs_dir={tmp_path}")
    run_quietly("fit", *words, "--model=auto", "--quick", *given)
    folder = tmp_path / "CP1/auto/version_0"
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 1
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["model"]["init_args"]["hidden"] == [8]
    named = [
        callback["class_path"].rpartition(".")[2] for callback in config["trainer"]["callbacks"]
    ]
    assert named.count("EarlyStopping") == 1


def test_a_candidate_that_had_stopped_early_is_not_trained_again(tmp_path):
    words = [word for word in SMALL if "max_epochs" not in word]
    impatient = tmp_path / "impatient.yaml"
    stop = {"monitor": "val/balanced_accuracy", "mode": "max", "patience": 1}
    callback = {"class_path": "EarlyStopping", "init_args": stop}
    impatient.write_text(yaml.safe_dump({"trainer": {"callbacks+": [callback]}}))
    given = (f"--config={impatient}", f"--runs_dir={tmp_path}", "--model=auto", "--quick")
    run_quietly("fit", *words, *given)
    folder = tmp_path / "CP1/auto/version_0"
    before = json.loads((folder / "metrics.json").read_text())
    (folder / "candidates/gru/candidate.json").write_text("{")  # cut off
    last = (folder / "candidates/gru/checkpoints/last.ckpt").read_bytes()
    run_quietly("fit", "--resume", str(folder))
    after = json.loads((folder / "metrics.json").read_text())
    assert (folder / "candidates/gru/checkpoints/last.ckpt").read_bytes() == last
    for found in (before, after):
        del found["candidates"]["gru"]["seconds"]
    assert before == after


def test_candidates_without_a_score_are_passed_over():
    nothing = Score(float("nan"), 0.9, 0, 1, 1.0)
    assert best_of({"none": nothing, "gru": Score(0.6, 0.7, 0, 1, 1.0)}) == "gru"
    with pytest.raises(ValueError, match="too few of them were stopped"):
        best_of({"none": nothing})


def test_quick_trains_one_candidate(tmp_path):
    run_quietly("fit", *SMALL, "--model=auto", "--quick", f"--runs_dir={tmp_path}")
    metrics = json.loads((tmp_path / "CP1/auto/version_0/metrics.json").read_text())
    assert list(metrics["candidates"]) == ["gru"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("test", "--model", "auto"), "--model auto goes with fit"),
        (("fit", "--model", "iqs", "--quick"), "--quick goes with --model auto"),
        (("fit", *SMALL, "--model=auto", "--model.init_args.memory=gru"), "auto chooses memory"),
        (("fit", *SMALL, "--model=auto", "--data.init_args.lags=2"), "auto chooses lags"),
        (("fit", *SMALL, "--model=auto", "--model.init_args.margin=zero"), "margin: validated"),
        (("fit", *SMALL, "--model=auto", "--trainer.logger=false"), "leave trainer.logger out"),
        (("fit", *SMALL, "--model=auto", "--trainer.callbacks=[]"), "leave RunCheckpoint in"),
        (("fit", *SMALL, "--model=auto", "--ckpt_path=x.ckpt"), "goes on with --resume"),
        (("fit", *SMALL, "--model=auto", "--data.init_args.seed=3"), "follows --seed_everything"),
        (("fit", "--data=CP1", "--model=auto", "--data.init_args.paths=6"), "needs two stopped"),
        (("fit", "--resume", "nowhere"), "nowhere is not the folder of an auto run"),
        (("fit", "--resume", "x", "--data", "CP1"), "--resume FOLDER goes with fit alone"),
    ],
)
def test_what_makes_no_sense_is_refused(words, message):
    with pytest.raises(SystemExit, match=message):
        run_quietly(*words)


def test_a_variant_is_named_without_its_file(tmp_path):
    cli = run_quietly("fit", *SMALL, "--model", "iqs_folds", f"--runs_dir={tmp_path}")
    assert Path(cli.trainer.log_dir) == tmp_path / "CP1/iqs_folds/version_0"


def test_a_run_with_memory_says_so_in_its_name(tmp_path):
    cli = run_quietly(
        "fit", *SMALL, "--model", "iqs", "--model.init_args.memory=gru", f"--runs_dir={tmp_path}"
    )
    assert Path(cli.trainer.log_dir) == tmp_path / "CP1/iqs_gru/version_0"


def test_of_equal_candidates_the_first_is_taken_and_the_table_marks_it():
    scores = {name: Score(0.9, 0.95, 3, 40, 1.0) for name in ("none", "gru")}
    assert best_of(scores) == "none"
    marked = [line for line in table(scores, "none").splitlines() if "taken" in line]
    assert len(marked) == 1
    assert "none" in marked[0]
    assert "0.9000" in marked[0]


def test_a_table_of_ones_own_is_trained_on_by_auto_unless_a_model_is_given(tmp_path):
    table = tmp_path / "pumps.csv"
    rng = np.random.default_rng(0)
    lines = [
        f"{unit},{t},{rng.normal() + t / 5:.3f}" for unit in range(30) for t in range(4 + unit % 5)
    ]
    table.write_text("unit,day,heat\n" + "\n".join(lines) + "\n")
    words = (
        "fit", "--data=table", f"--data.init_args.file={table}", f"--runs_dir={tmp_path / 'runs'}",
        "--data.init_args.path=unit", "--data.init_args.time=day",
        "--trainer.max_epochs=1",
    )  # fmt: skip
    assert Path(run_quietly(*words).trainer.log_dir) == tmp_path / "runs/pumps/auto/version_0"
    chosen = run_quietly(*words, "--model=iqs")
    assert Path(chosen.trainer.log_dir) == tmp_path / "runs/pumps/iqs/version_0"


def test_a_refused_run_leaves_no_folder(tmp_path):
    rows = [f"{unit},{t},{10 - t}" for unit in range(40) for t in range(11)]
    file = tmp_path / "plant.csv"
    file.write_text("unit,day,left\n" + "\n".join(rows))
    words = ["fit", str(file), "--path=unit", "--time=day", f"--runs_dir={tmp_path}/runs"]
    with pytest.raises(SystemExit, match=r"possible leak: left .* --drop left"):
        train.main(words)
    assert [place.name for place in tmp_path.iterdir()] == ["plant.csv"]
