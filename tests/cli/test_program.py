"""One program: short forms, runs found by their folder, tables of runs, honest notes."""

import csv
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import ROOT

import train
from lit_ios import StoppingPolicy
from lit_ios.checks import UserError
from lit_ios.program import main
from lit_ios.program.packages import check_package
from lit_ios.program.places import find_checkpoint
from lit_ios.program.words import translate


def write_pumps(file, units=40, seed=0):
    rng = np.random.default_rng(seed)
    lines = [
        f"u{unit},{day},{rng.normal() + day / 3:.3f}"
        for unit in range(units)
        for day in range(4 + unit % 5)
    ]
    file.write_text("unit,day,heat\n" + "\n".join(lines) + "\n")
    return file


def quietly(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train.main([str(word) for word in words])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train on a table by the short forms; return the run folder."""
    folder = tmp_path_factory.mktemp("program")
    table = write_pumps(folder / "pumps.csv")
    cli = quietly(
        "fit", table, "--path", "unit", "--time", "day", "--model", "iqs",
        "--trainer.max_epochs", 2, "--runs_dir", folder / "runs",
    )  # fmt: skip
    return Path(cli.trainer.log_dir)


@pytest.fixture
def copy(run, tmp_path):
    """Return a copy of the run that may be changed."""
    return Path(shutil.copytree(run, tmp_path / "runs/pumps/iqs/version_0"))


# Short forms --------------------------------------------------------------------------------------


def test_short_forms_are_arguments_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.csv").write_text("")
    words = "fit my.csv --path unit --time day --features a b --val-file v.csv --sort --model auto"
    assert translate(words.split()) == [
        "fit", "--data=table", "--data.init_args.file=my.csv", "--data.init_args.path=unit",
        "--data.init_args.time=day", '--data.init_args.features=["a", "b"]',
        "--data.init_args.val_file=v.csv", "--data.init_args.sort=true", "--model=auto",
    ]  # fmt: skip
    assert translate(["fit", "--path", "unit", "--time", "day", "--data", "my.csv"]) == translate(
        ["fit", "my.csv", "--path", "unit", "--time", "day"]
    )


def test_options_not_of_a_table_are_left_as_they_are():
    words = ["fit", "--data=CP1", "--trainer.max_epochs=3", "--trainer.callbacks+=EarlyStopping"]
    assert translate(words) == words
    assert translate(["fit", "--data", "CP1", "--trainer.max_epochs", "-1"]) == [
        "fit", "--data=CP1", "--trainer.max_epochs=-1",
    ]  # fmt: skip


def test_a_table_is_trained_on_by_its_short_forms(run):
    assert (run.parents[1].name, run.parents[0].name) == ("pumps", "iqs")
    assert (run / "checkpoints/best.ckpt").is_file()


# Runs by their folder -----------------------------------------------------------------------------


def test_run_is_found_by_its_folder_and_by_one_above_it(copy, tmp_path):
    best = copy / "checkpoints/best.ckpt"
    for place in (best, copy, copy / "checkpoints", copy.parent, tmp_path / "runs"):
        assert find_checkpoint(place) == best
    assert find_checkpoint(copy, "last") == copy / "checkpoints/last.ckpt"
    shutil.copytree(copy, copy.with_name("version_1"))
    with pytest.raises(UserError, match=r"2 runs: give one of .*version_0, .*version_1$"):
        find_checkpoint(tmp_path / "runs")


@pytest.mark.parametrize("way", ["RUN", "--ckpt_path=RUN"])
def test_run_is_tested_by_its_folder_and_named_as_what_to_go_on_with(way, run, tmp_path, capsys):
    cli = quietly("test", way.replace("RUN", str(run)), f"--runs_dir={tmp_path}")
    before = json.loads((run / "metrics.json").read_text())
    after = json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())
    assert after["test/balanced_accuracy"] == before["test/balanced_accuracy"]
    assert f"lit-ios predict {run} new.csv" in capsys.readouterr().out


def test_run_and_table_of_predict_may_come_anywhere(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new = write_pumps(tmp_path / "new.csv", units=3, seed=1)
    assert main(["predict", str(run), "--output", "a.csv", str(new)]) == 0
    assert main(["predict", "--output", "b.csv", "--data", str(new), "--ckpt_path", str(run)]) == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


@pytest.mark.parametrize("output", ["new.csv", "./new.csv", "link.csv"])
def test_decisions_are_not_written_onto_their_table(run, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = write_pumps(tmp_path / "new.csv", units=3, seed=1).read_bytes()
    Path("link.csv").symlink_to("new.csv")
    for words in ([run, "new.csv"], [run, "--data.init_args.file=new.csv"]):
        assert main(["predict", *map(str, words), "--output", output]) == 1
        assert "is the table that is read: name another file" in capsys.readouterr().err
    assert Path("new.csv").read_bytes() == before


def test_first_stops_are_not_written_onto_the_table(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = write_pumps(tmp_path / "new_paths.csv", units=3, seed=1).read_bytes()
    assert main(["predict", str(run), "new_paths.csv", "--output", "new.csv"]) == 1
    assert "new_paths.csv is the table that is read" in capsys.readouterr().err
    assert Path("new_paths.csv").read_bytes() == before
    assert not Path("new.csv").exists()


def test_predict_without_a_table_decides_on_the_runs_test_paths(run, tmp_path):
    cli = quietly("predict", run, f"--runs_dir={tmp_path}", f"--output={tmp_path / 'd.csv'}")
    with open(tmp_path / "d.csv") as stream:
        assert len(list(csv.DictReader(stream))) == len(cli.datamodule.splits.test.states)


def test_calibrate_writes_a_new_file_unless_told_to_overwrite(copy, capsys):
    before = (copy / "checkpoints/best.ckpt").read_bytes()
    assert main(["calibrate", str(copy)]) == 0
    target = copy / "checkpoints/calibrated.ckpt"
    assert target.is_file()
    assert (copy / "checkpoints/best.ckpt").read_bytes() == before
    assert main(["calibrate", str(copy)]) == 1
    assert f"{target} is there already: give --output FILE or --overwrite" in (
        capsys.readouterr().err
    )
    assert main(["calibrate", str(copy), "--overwrite"]) == 0


def test_decisions_by_the_threshold_of_training_say_that_there_is_a_calibrated_one(
    copy, tmp_path, capsys
):
    new = str(write_pumps(tmp_path / "new.csv", units=3, seed=1))
    words = [new, "--output", str(tmp_path / "d.csv")]
    assert main(["predict", str(copy), *words]) == 0
    assert "calibrated" not in capsys.readouterr().err
    assert main(["calibrate", str(copy)]) == 0
    calibrated = str(copy / "checkpoints/calibrated.ckpt")
    assert f"written to {calibrated}: give that in place of the run" in capsys.readouterr().out
    assert main(["predict", str(copy), *words]) == 0
    note = f"note: the threshold is that of training: to use the calibrated one, give {calibrated}"
    assert note in capsys.readouterr().err
    assert main(["predict", calibrated, *words]) == 0
    assert capsys.readouterr().err == ""


# Notes --------------------------------------------------------------------------------------------


def test_test_says_that_its_paths_were_calibrated_on(copy, tmp_path, capsys):
    assert main(["calibrate", str(copy), "--max-event-miss-rate", "0.3"]) == 0
    said = capsys.readouterr().out
    assert "in the mean: a single calibration exceeds it with a probability of up to " in said
    assert "  alarms            " in said
    calibrated = copy / "checkpoints/calibrated.ckpt"
    capsys.readouterr()
    cli = quietly("test", calibrated, f"--runs_dir={tmp_path / 'again'}")
    count = len(cli.datamodule.splits.test)
    note = f"the threshold was calibrated on {count} of these {count} test paths: these figures are"
    assert f"note: {note} not of fresh paths" in capsys.readouterr().out
    quietly("validate", calibrated, f"--runs_dir={tmp_path / 'again'}")
    quietly("test", copy, f"--runs_dir={tmp_path / 'again'}")
    assert "calibrated on" not in capsys.readouterr().out
    figure = str(tmp_path / "f.png")
    assert main(["frontier", str(calibrated), "--draws", "2", "--output", figure]) == 0
    assert f"note: the threshold was calibrated on {count}" in capsys.readouterr().err


def test_threshold_set_by_hand_was_calibrated_on_nothing(copy, tmp_path):
    assert main(["calibrate", str(copy)]) == 0
    policy = StoppingPolicy.load(copy / "checkpoints/calibrated.ckpt")
    policy.threshold = 0.1
    policy.save(tmp_path / "a.ckpt")
    about = torch.load(tmp_path / "a.ckpt", weights_only=True)["lit_ios"]
    assert about["calibrated_on"] is None


# Explaining ---------------------------------------------------------------------------------------


def test_explain_takes_the_first_stop_or_says_that_there_is_none(copy, tmp_path, capsys):
    table = write_pumps(tmp_path / "new.csv", units=5, seed=2)
    best = copy / "checkpoints/best.ckpt"
    policy = StoppingPolicy.load(best)
    margins = [row for row in policy.predict(table).to_pylist() if row["unit"] == "u4"]
    highest = max(row["margin"] for row in margins)
    for threshold in (highest - 1e-6, highest + 1):
        policy.threshold = threshold
        policy.save(tmp_path / "t.ckpt")
        assert main(["explain", str(tmp_path / "t.ckpt"), str(table), "--of", "u4"]) == 0
        shown = capsys.readouterr().out
        if threshold < highest:
            row = next(i for i, each in enumerate(margins) if each["margin"] == highest)
            assert f"path u4, row {row}, where the rule first stops: stop" in shown
        else:
            assert f"row {len(margins) - 1}, the last one, since the rule stops at none" in shown


def test_unknown_path_is_answered_without_the_names_of_others(run, tmp_path, capsys):
    table = write_pumps(tmp_path / "new.csv", units=12)
    assert main(["explain", str(run), str(table), "--of", "patient"]) == 1
    error = capsys.readouterr().err
    assert "there is no path 'patient' among the 12 of these data" in error
    assert "u1" not in error
    assert main(["explain", str(run), str(table), "--of", "U11"]) == 1
    assert "did you mean 'u11'?" in capsys.readouterr().err


# A table of runs ----------------------------------------------------------------------------------


def write_run(folder, accuracy, seed, **more):
    (folder / "checkpoints").mkdir(parents=True)
    metrics = {"test/balanced_accuracy": accuracy, "epochs": 9} | more
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "config.yaml").write_text(f"seed_everything: {seed}\n")


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs/CP1/iqs/version_2", 0.7, 3)
    write_run(tmp_path / "runs/CP1/iqs/version_10", 0.9, 1)
    candidates = {"gru": {"seconds": 2.5}, "none": {"seconds": 1.0}}
    auto = tmp_path / "runs/my/auto/version_0"
    write_run(auto, 0.8, 2, candidate="gru", candidates=candidates)
    (auto / "auto.json").write_text("{}")
    (auto / "candidates/gru/checkpoints").mkdir(parents=True)
    return tmp_path / "runs"


@pytest.mark.parametrize("name", ["metrics.json", "config.yaml", "candidate.json"])
@pytest.mark.parametrize("instead", ["a pipe", "a device"])
def test_a_folder_whose_files_never_end_is_listed(name, instead, runs, capsys):
    file = runs / "CP1/iqs/version_2" / name
    file.unlink(missing_ok=True)
    os.mkfifo(file) if instead == "a pipe" else file.symlink_to("/dev/zero")
    assert main(["runs", str(runs)]) == 0
    assert "version_2" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["version_²", "a_" + "9" * 200, os.fsdecode(b"version_\xff")])
def test_folders_of_any_name_are_listed(name, runs, tmp_path):
    try:
        write_run(runs / "CP1" / name / "version_0", 0.7, 3)
    except OSError:
        pytest.skip("the file system does not take this name")
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv")]) == 0
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 5


def test_runs_are_listed_with_their_scores(runs, tmp_path, capsys):
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv")]) == 0
    with open(tmp_path / "runs.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert [Path(row["run"]).name for row in rows] == ["version_2", "version_10", "version_0"]
    assert [row["data"] for row in rows] == ["CP1", "CP1", "my"]
    assert [row["variant"] for row in rows] == ["iqs", "iqs", "auto"]
    assert [row["seed"] for row in rows] == ["3", "1", "2"]
    assert [row["candidate"] for row in rows] == ["", "", "gru"]
    assert [row["seconds"] for row in rows] == ["", "", "3.5"]
    shown = capsys.readouterr().out
    assert all(score in shown for score in ("0.7000", "0.9000", "0.8000"))
    assert "false alarm" not in shown  # nothing is known of them


def test_table_of_runs_has_the_intervals(runs, tmp_path):
    file = runs / "CP1/iqs/version_2/metrics.json"
    ends = {"test/event_miss_rate_low": 0.01, "test/time_to_event_mean_high": 7.5}
    file.write_text(json.dumps(json.loads(file.read_text()) | ends))
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv")]) == 0
    with open(tmp_path / "runs.csv") as stream:
        row = next(csv.DictReader(stream))
    assert (row["event_miss_rate_low"], row["time_to_event_high"]) == ("0.01", "7.5")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--sort", "balanced_accuracy"], [0.7, 0.8, 0.9]),
        (["--sort", "balanced_accuracy", "--reverse"], [0.9, 0.8, 0.7]),
        (["--sort", "seed"], [0.9, 0.8, 0.7]),
        (["--sort", "seconds"], [0.8, 0.7, 0.9]),  # what is not known comes last
    ],
)
def test_runs_are_sorted_by_any_column(options, expected, runs, tmp_path):
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv"), *options]) == 0
    with open(tmp_path / "runs.csv") as stream:
        assert [float(row["balanced_accuracy"]) for row in csv.DictReader(stream)] == expected


def test_candidates_are_listed_if_asked_for(runs, capsys):
    main(["runs", str(runs)])
    assert "candidates/gru" not in capsys.readouterr().out
    main(["runs", str(runs), "--all"])
    assert "candidates/gru" in capsys.readouterr().out


# Where it runs ------------------------------------------------------------------------------------


def test_package_of_somebody_else_is_refused(tmp_path):
    check_package("callbacks", ROOT / "callbacks")
    with pytest.raises(UserError, match=r"callbacks is imported in place of .* rename it$"):
        check_package("callbacks", tmp_path / "callbacks")
    with pytest.raises(UserError, match="install lit-ios again"):
        check_package("datamodules", None)


def test_a_folder_of_the_users_with_the_name_of_a_package_is_refused(tmp_path):
    (tmp_path / "callbacks").mkdir()
    (tmp_path / "callbacks/__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "lit_ios", "fit", "--data", "CP1"], cwd=tmp_path, text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {tmp_path / 'callbacks'} is imported in place of the package callbacks of "
        "lit-ios: run from another folder, or rename it\n"
    )


def test_modules_of_the_current_folder_are_not_imported(tmp_path):
    for name in ("yaml", "difflib", "numpy", "callbacks"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()")
    (tmp_path / "runs/a/b/version_0/checkpoints").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "lit_ios", "runs"], cwd=tmp_path, text=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists()


def test_inspect_lists_columns_before_roles_are_known(tmp_path, capsys):
    table = write_pumps(tmp_path / "my.csv", units=5)
    assert main(["inspect", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "heat" in shown
    assert "add --path COLUMN and --time COLUMN" in shown
    figure = tmp_path / "f.png"
    words = ["inspect", str(table), "--path", "unit", "--time", "day", "--figure", str(figure)]
    assert main(words) == 0
    assert "paths      5: 5 stopped" in capsys.readouterr().out
    assert figure.is_file()


def test_auto_says_how_to_go_on_with_the_program_as_it_was_called(tmp_path, capsys, monkeypatch):
    from lit_ios.modules import StoppingModule

    def interrupt(self, *_):
        raise KeyboardInterrupt

    table = write_pumps(tmp_path / "pumps.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StoppingModule, "on_train_epoch_start", interrupt)
    words = ["fit", table.name, "--path", "unit", "--time", "day", "--quick", "--model", "auto"]
    with pytest.raises(SystemExit):
        main(words)
    assert "lit-ios fit --resume runs/pumps/auto/version_0" in capsys.readouterr().out
    known = json.loads(Path("runs/pumps/auto/version_0/auto.json").read_text())
    assert f"--data.init_args.file={table}" in known["options"]
    with pytest.raises(SystemExit):
        train.main(words)
    assert "python train.py fit --resume" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["baseline", "report"])
def test_what_fit_ends_with_is_turned_off_by_one_word(what):
    assert translate(["fit", "--data=CP1", f"--no-{what}"])[-1] == f"--{what}=false"


def test_calibrate_prints_what_is_promised_and_what_it_costs(copy, capsys):
    words = ["--max-event-miss-rate", "0.4", "--confidence", "0.8", "--balanced", "--lead", "1"]
    assert main(["calibrate", str(copy), *words]) == 0
    out = capsys.readouterr().out
    assert "event-miss rate at most 0.4, with 0.8 confidence" in out
    assert "highest balanced accuracy" in out
    assert "a stop counting up to 1 [" in out
    assert "stopped at once" in out
    found = StoppingPolicy.load(copy / "checkpoints/calibrated.ckpt").calibration
    shown = found.event_miss_rate
    assert f"{shown.value:.4f} [{shown.low:.4f}, {shown.high:.4f}]" in out
    assert main(["calibrate", str(copy), "--confidence", "0.8", "--overwrite"]) == 1
    assert "confidence goes with" in capsys.readouterr().err
    assert main(["calibrate", str(copy), "--max-event-miss-rate", "1e-5", "--overwrite"]) == 1
    assert "stopped paths are needed, not" in capsys.readouterr().err
