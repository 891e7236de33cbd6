"""train.py as a user runs it."""

import csv
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pytest
import torch
import yaml
from repository import ROOT, VARIANTS
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import train
from lit_ios import StoppingPolicy
from lit_ios.checkpoints import write_checkpoint
from lit_ios.modules import StoppingModule

SIMULATED = ("bmG", "bmgG", "CP1", "CP2", "CP3", "radial", "star")
ONE_EPOCH = ("--trainer.max_epochs=1",)


def weights(cli):
    return {name: value.clone() for name, value in cli.model.state_dict().items()}


def assert_equal_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def test_help_names_the_commands(capsys):
    assert train.main(["--help"]) is None
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("fit", "validate", "test", "predict", "--ckpt_path"))


@pytest.mark.usefixtures("with_figures")
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_trains_tests_and_names_its_run_folder(variant, run_train, tmp_path):
    cli = run_train("fit", *ONE_EPOCH, data="CP1", model=variant)
    folder = tmp_path / "runs/CP1" / variant / "version_0"
    assert str(folder) == cli.trainer.log_dir
    metrics = json.loads((folder / "metrics.json").read_text())
    assert 0 <= metrics["test/balanced_accuracy"] <= 1
    assert (folder / "checkpoints/best.ckpt").is_file()
    assert (folder / "config.yaml").is_file()


@pytest.mark.usefixtures("with_figures")
@pytest.mark.parametrize("data", SIMULATED)
def test_every_data_set_trains(data, run_train, tmp_path):
    run_train("fit", *ONE_EPOCH, data=data, model="do_iqs_lb")
    folder = tmp_path / "runs" / data / "do_iqs_lb/version_0"
    figures = {file.stem for file in (folder / "figures").iterdir()}
    two_dimensional = {"bmG", "bmgG", "radial", "star"}
    regions = {"q_values", "boundaries"} if data in two_dimensional else set()
    expected = {"margins", "frontier"} | regions
    assert figures == expected
    metrics = json.loads((folder / "metrics.json").read_text())
    assert ("test/grid_iou" in metrics) == (data in two_dimensional)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a finished run of three epochs: its CLI and folder."""
    runs = tmp_path_factory.mktemp("finished") / "runs"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main(
            ["fit", f"--config={ROOT}/configs/data/bmG.yaml",
             f"--config={ROOT}/configs/model/do_iqs_lb.yaml", "--trainer.max_epochs=3",
             "--data.init_args.paths=40", "--data.init_args.test_paths=10",
             f"--runs_dir={runs}"]
        )  # fmt: skip
    return cli, runs / "bmG/do_iqs_lb/version_0"


def test_metrics_file_is_flat_and_has_the_promised_keys(finished):
    metrics = json.loads((finished[1] / "metrics.json").read_text())
    assert {
        "test/balanced_accuracy", "test/region_balanced_accuracy", "test/event_miss_rate",
        "test/time_to_event_mean", "test/time_to_event_median", "best_epoch", "epochs",
    } <= set(metrics)  # fmt: skip
    assert metrics["epochs"] == 3
    assert all(isinstance(value, int | float | None) for value in metrics.values())


def test_tensorboard_shows_losses_metrics_schedules_figures_and_hyper_parameters(finished):
    tags = {"scalars": set(), "images": set()}
    for file in finished[1].glob("events.out*"):
        events = EventAccumulator(str(file)).Reload()
        tags["scalars"] |= set(events.Tags()["scalars"])
        tags["images"] |= set(events.Tags()["images"])
    assert {
        "train/q/total", "train/q/reward", "train/q/value", "train/dynamics/total",
        "train/gain/total", "val/balanced_accuracy", "val/event_miss_rate", "schedule/epsilon",
        "schedule/learning_rate_q", "schedule/learning_rate_dynamics",
        "schedule/learning_rate_gain", "test/balanced_accuracy",
    } <= tags["scalars"]  # fmt: skip
    assert {"test/q_values", "test/boundaries", "test/margins"} <= tags["images"]
    assert yaml.safe_load((finished[1] / "hparams.yaml").read_text())["gamma"] == 0.99


@pytest.mark.parametrize("command", ["test", "validate"])
def test_checkpoint_is_measured_with_the_settings_found_beside_it(command, finished, run_train):
    checkpoint = finished[1] / "checkpoints/best.ckpt"
    cli = run_train(command, f"--ckpt_path={checkpoint}", data="", small=False)
    again = json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())
    before = json.loads((finished[1] / "metrics.json").read_text())
    key = {"test": "test/balanced_accuracy", "validate": "val/balanced_accuracy"}[command]
    assert again[key] == pytest.approx(before[key], abs=1e-7)


def test_predict_writes_every_row_of_the_test_paths(finished, run_train):
    cli = run_train(
        "predict", f"--ckpt_path={finished[1]}/checkpoints/best.ckpt", data="", small=False
    )
    with open(f"{cli.trainer.log_dir}/predictions.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    paths = cli.datamodule.splits.test
    assert len(rows) == len(paths.states)
    assert [row["path"] for row in rows] == [paths.names[i] for i in paths.path_of_row]
    assert [float(row["time"]) for row in rows] == paths.times.tolist()
    assert {row["stop"] for row in rows} <= {"true", "false"}
    assert all((float(row["margin"]) >= 0) == (row["stop"] == "true") for row in rows)
    assert list(rows[0]) == [
        "path", "time", "margin", "probability", "stop", "first_stop", "stop_gain",
        "continuation_gain", "familiar", "unfamiliar",
    ]  # fmt: skip


def test_predicted_probability_is_a_half_at_the_threshold(finished, run_train):
    policy = StoppingPolicy.load(finished[1] / "checkpoints/best.ckpt")
    policy.threshold = 0.3
    policy.save(finished[1] / "checkpoints/calibrated.ckpt")
    cli = run_train(
        "predict", f"--ckpt_path={finished[1]}/checkpoints/calibrated.ckpt", data="", small=False
    )
    rows = pa_csv.read_csv(f"{cli.trainer.log_dir}/predictions.csv")
    margin, probability = (rows[name].to_numpy() for name in ("margin", "probability"))
    expected = 1 / (1 + np.exp((0.3 - margin) / policy.epsilon))
    np.testing.assert_allclose(probability, expected, rtol=1e-9)
    assert rows["stop"].to_pylist() == (margin >= 0.3).tolist()


def test_missing_checkpoint_is_an_error_that_names_it(run_train):
    with pytest.raises(SystemExit, match=r"there is no file nowhere\.ckpt"):
        run_train("test", "--ckpt_path=nowhere.ckpt", data="", small=False)


def test_unknown_option_is_an_error_that_names_it(run_train):
    with pytest.raises(SystemExit, match=r"no argument gama; .*--model.init_args.gamma\?"):
        run_train("fit", "--model.init_args.gama=0.5")


def test_option_overrides_the_files(run_train):
    cli = run_train("fit", *ONE_EPOCH, "--model.init_args.gamma=0.5", "--threads=2")
    assert cli.model.rule.gamma == 0.5
    torch.set_num_threads(1)


def test_one_seed_repeats_to_the_bit_and_another_does_not(run_train):
    options = ("--trainer.max_epochs=2", "--trainer.enable_checkpointing=true")
    first, second = (weights(run_train("fit", *options)) for _ in range(2))
    other = weights(run_train("fit", *options, "--seed_everything=1"))
    assert_equal_weights(first, second)
    assert not torch.equal(first["rule.head.q.weight"], other["rule.head.q.weight"])


def test_option_wins_over_the_checkpoint(finished, run_train):
    cli = run_train(
        "test", f"--ckpt_path={finished[1]}/checkpoints/best.ckpt",
        "--model.init_args.gamma=0.5", data="", small=False,
    )  # fmt: skip
    assert cli.model.rule.gamma == 0.5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trainer.max_epochs=1", "fit"], "first word must be one of fit"),
        (["test"], "test needs a checkpoint"),
        (["fit", "--data.init_args.seed=3"], "seed_everything"),
        (["fit", "--config=nowhere.yaml"], "cannot read nowhere.yaml"),
        (["test", "--ckpt_path=train.py"], "train.py is not a lit-ios checkpoint"),
        (["fit", "--model.init_args.gamma=2"], "gamma must be a number above 0 and at most 1"),
        (["fit", "--data.init_args.lags=-1"], "lags must be a number of at least 0"),
        (["fit", "--data.init_args.batch_size=0"], "batch_size must be a number above 0"),
        (["fit", "--threads=0"], "threads must be an integer of at least 1"),
        (
            ["fit", "--allow=my-package"],
            "--allow takes the name of a package of yours, got 'my-package'",
        ),
        (["fit", "--model.init_args.optimizer=torch.optim.LBFGS"], "LBFGS needs a closure"),
        (["fit", "--model.init_args.head=torch.nn.Linear"], "must be a subclass of .*Head"),
        (
            ["fit", "--data.init_args.oversampling=imblearn.over_sampling.ADASIN"],
            "ADASIN cannot be imported",
        ),
        (["fit", "--trainer.max_epochs=-3"], "`max_epochs` must be"),
        (["fit", "--trainer.precision=bf16-true"], "too coarse to learn in: use mixed"),
        (["fit", "--output=a.xlsx"], "output must end in .csv or .parquet, got 'a.xlsx'"),
        (["fit", "--data.init_args.oversampling=smote"], "SMOTE rows do not have"),
        (["fit", "--model.init_args.learning_rate=1e30"], "training diverged in epoch"),
    ],
)
def test_wrong_command_line_ends_in_one_sentence_that_says_why(words, message, tmp_path):
    options = [] if len(words) == 1 else [f"--runs_dir={tmp_path}", "--data.init_args.paths=20"]
    words = [*words, *options] if words[0] == "fit" else words
    with pytest.raises(SystemExit, match=message):
        train.main(words)


def test_moved_run_is_tested_from_anywhere(finished, tmp_path, monkeypatch):
    moved = tmp_path / "elsewhere/version_7"
    shutil.copytree(finished[1], moved)
    content = torch.load(moved / "checkpoints/best.ckpt", weights_only=True)
    for state in content["callbacks"].values():
        if "best_model_path" in state:
            state["dirpath"] = "again/bmG/do_iqs_lb/version_0/checkpoints"  # relative, as before
            state["best_model_path"] = f"{state['dirpath']}/best.ckpt"
    write_checkpoint(content, moved / "checkpoints/best.ckpt")
    monkeypatch.chdir(tmp_path)
    train.main(
        ["test", "--ckpt_path=elsewhere/version_7/checkpoints/best.ckpt", "--runs_dir=again"]
    )
    (found,) = tmp_path.glob("again/*/*/version_0/metrics.json")
    assert json.loads(found.read_text())["best_epoch"] == content["epoch"]


def test_interrupted_run_says_how_to_go_on(run_train, capsys, tmp_path, monkeypatch):
    def interrupt(self, *_):
        if self.trainer.current_epoch == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(StoppingModule, "on_train_epoch_start", interrupt)
    with pytest.raises(SystemExit):
        run_train("fit", "--trainer.max_epochs=3")
    (last,) = tmp_path.rglob("last.ckpt")
    how = f"interrupted in epoch 2: go on with  python train.py fit --ckpt_path {last}"
    assert how in capsys.readouterr().out


def test_misspelled_class_is_an_error_that_lists_the_classes(tmp_path):
    file = tmp_path / "model.yaml"
    file.write_text("model:\n  class_path: DOIQ\n")
    with pytest.raises(SystemExit, match=r"no class 'DOIQ'; there are .*DOIQS"):
        train.main(["fit", f"--config={file}"])


def test_checkpoint_of_another_model_is_an_error(finished):
    with pytest.raises(SystemExit, match="does not fit the model IQS"):
        train.main(
            ["test", f"--ckpt_path={finished[1]}/checkpoints/best.ckpt",
             f"--config={ROOT}/configs/model/iqs.yaml"]
        )  # fmt: skip


def test_resuming_on_other_data_is_an_error(finished):
    with pytest.raises(SystemExit, match="trained on other data"):
        train.main(
            ["fit", f"--ckpt_path={finished[1]}/checkpoints/last.ckpt", "--seed_everything=9",
             "--trainer.max_epochs=5"]
        )  # fmt: skip


def test_progress_bar_can_be_switched_off(run_train, capsys):
    run_train("fit", *ONE_EPOCH, "--trainer.enable_progress_bar=false")
    assert "epoch/s" not in capsys.readouterr().err
