"""Studies from the command line: what they write, whom they test, and who is killed."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import matplotlib.image
import pytest
import yaml
from repository import ROOT

import train
from lit_ios.scale import Place
from lit_ios.tune import plan, run

pytest.importorskip("optuna", reason="the extra tune is not installed")

SMALL = (
    "--data", "CP1", "--data.init_args.paths=24", "--data.init_args.test_paths=8",
    "--trainer.max_epochs=2", "--model=iqs", "--model.init_args.hidden=[4]",
    "--data.init_args.folds=2", "--model.init_args.members=2", "--no-baseline", "--no-report",
)  # fmt: skip
SPACE = {
    "learning_rate": {"low": 0.001, "high": 0.1, "log": True},
    "memory": ["none", "accumulate"],
    "gamma": {"low": 0.5, "high": 0.9},  # the default lies outside
}
ALIKE = {"learning_rate": SPACE["learning_rate"], "gamma": {"low": 0.5, "high": 1.0}}
SECONDS = ("seconds",)


def tune(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train.main(["tune", *words])


def write(folder, space):
    file = folder / "space.yaml"
    file.write_text(yaml.safe_dump(space))
    return f"--space={file}"


def rows(folder):
    """Return the trials of a study as they stand in its table, but for how long they took."""
    with (folder / "trials.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    return [{name: cell for name, cell in row.items() if name not in SECONDS} for row in found]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("tune")
    tune(*SMALL, write(runs, SPACE), "--trials=6", f"--runs_dir={runs}")
    return runs / "CP1/tune/version_0"


def test_every_trial_is_in_the_table_and_the_best_is_on_top(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    table = rows(finished)
    assert [int(row["trial"]) for row in table] == list(range(6))
    scores = [float(row["score"]) for row in table]
    assert metrics["best_of_trials/cross_fitted_accuracy"] == max(scores)
    assert metrics["trial"] == scores.index(max(scores))
    assert metrics["defaults/cross_fitted_accuracy"] == scores[0]
    assert float(table[0]["gamma"]) == 0.99
    own = table[metrics["trial"]]
    config = yaml.safe_load((finished / "config.yaml").read_text())["model"]["init_args"]
    assert config["learning_rate"] == float(own["learning_rate"])
    assert config["memory"] == own["memory"]


def test_the_best_is_trained_alike_and_tested_beside_the_defaults(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    score = metrics["best_of_trials/cross_fitted_accuracy"]
    assert metrics["val/cross_fitted_accuracy"] == score
    own = json.loads((finished / "candidates/defaults/metrics.json").read_text())
    assert metrics["defaults/test/balanced_accuracy"] == own["test/balanced_accuracy"]
    assert 0 <= metrics["test/balanced_accuracy"] <= 1


def test_fit_takes_the_settings_of_the_best(finished, tmp_path):
    cli = train.main(["fit", f"--config={finished / 'config.yaml'}", f"--runs_dir={tmp_path}"])
    again = json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())
    metrics = json.loads((finished / "metrics.json").read_text())
    assert again["test/balanced_accuracy"] == metrics["test/balanced_accuracy"]


def test_figures_are_drawn(finished):
    for name in ("trials", "importance"):
        assert matplotlib.image.imread(finished / f"figures/{name}.png").std() > 0


def test_more_trials_go_on_with_the_study_and_the_same_command_joins_it(finished, capsys):
    before = rows(finished)
    runs = finished.parents[2]
    words = (*SMALL, f"--space={finished / 'space.yaml'}", f"--runs_dir={runs}")
    tune(*words, "--trials=6")
    assert "joins the study" in capsys.readouterr().out
    assert [file.name for file in finished.parent.glob("version_*")] == ["version_0"]
    tune("--resume", str(finished), "--trials=7")
    after = rows(finished)
    assert after[:6] == before
    assert len(after) == 7
    assert json.loads((finished / "metrics.json").read_text())["trials"] == 7


def test_settings_trained_side_by_side_score_as_they_do_one_by_one(tmp_path):
    found = []
    for number, more in enumerate(([], ["--stacked=4"])):
        words = (
            *SMALL,
            write(tmp_path, ALIKE),
            "--trials=6",
            f"--runs_dir={tmp_path / str(number)}",
        )
        tune(*words, *more)
        found.append(rows(tmp_path / str(number) / "CP1/tune/version_0"))
    for alone, stacked in zip(*found, strict=True):
        assert stacked["learning_rate"] == alone["learning_rate"]
        assert float(stacked["score"]) == pytest.approx(float(alone["score"]), abs=1e-3)


def test_a_study_goes_on_after_a_worker_and_then_the_program_are_killed(finished, tmp_path):
    words = [*SMALL, f"--space={finished / 'space.yaml'}", "--trials=6", f"--runs_dir={tmp_path}"]
    command = [sys.executable, "-m", "lit_ios", "tune", *words, "--processes=2"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    folder = tmp_path / "CP1/tune/version_0"
    wait_for(lambda: ended(folder) >= 1)
    os.kill(workers_of(running.pid)[0], signal.SIGKILL)
    wait_for(lambda: ended(folder) >= 3)
    for worker in [running.pid, *workers_of(running.pid)]:
        os.kill(worker, signal.SIGKILL)
    running.wait()
    tune("--resume", str(folder))
    assert rows(folder) == rows(finished)[:6]


def wait_for(there, seconds=240):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


def ended(folder):
    """Return how many trials of a study are complete, as Optuna writes it."""
    journal = folder / "journal.jsonl"
    return journal.read_bytes().count(b'"state":1,"values":[') if journal.exists() else 0


def workers_of(parent):
    """Return the processes that a pool has begun."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, line = status.read_text(), status.with_name("cmdline").read_text()
        except OSError:
            continue
        if f"\nPPid:\t{parent}\n" in text and "spawn_main" in line:
            found.append(int(status.parent.name))
    return found


@pytest.mark.ray
def test_a_ray_cluster_finds_what_processes_find(finished, tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    words = (*SMALL, f"--space={finished / 'space.yaml'}", "--trials=6")
    tune(*words, f"--runs_dir={tmp_path}", "--on=ray", "--processes=2")
    assert rows(tmp_path / "CP1/tune/version_0") == rows(finished)[:6]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trails=3",), "did you mean --trials"),
        (("--trials=0",), "--trials must be a positive integer"),
        (("--model=auto",), "auto chooses among candidates of its own"),
        (("--model=iqs_smote",), "a trial would be scored on what it was trained on"),
        (("--data.init_args.oversampling=smote",), "a trial would be scored on what it was"),
        (("--ckpt_path=x",), "takes no --ckpt_path"),
        (("--data.init_args.seed=1",), "takes no --data.init_args.seed"),
        (("--model.init_args.margin=zero",), "needs margin: validated"),
        (("--trainer.devices=2",), "trains in one process"),
        (("--data.init_args.paths=3",), "needs two stopped paths"),
        (("--stacked=2",), "leave memory out of the space"),
        (("--address=x",), "goes with on='ray'"),
        (("--resume=nowhere",), "leave others out"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(tmp_path, words, message):
    given = [word for word in SMALL if word.partition("=")[0] not in words[0]]
    runs = tmp_path / "runs"
    with pytest.raises(SystemExit, match=message):
        tune(*given, write(tmp_path, SPACE), f"--runs_dir={runs}", *words)
    assert not runs.exists()


def test_a_folder_that_is_no_study_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="is not the folder of a study"):
        tune("--resume", str(tmp_path))


def test_a_pipe_in_a_found_study_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "tune.json")
    with pytest.raises(SystemExit, match="is not the folder of a study"):
        tune(f"--resume={tmp_path}")


def test_a_study_whose_data_have_changed_is_not_gone_on_with(tmp_path, monkeypatch):
    table = tmp_path / "pumps.csv"
    lines = [f"{unit},{t},{(unit * 7 + t) % 5 + t / 3}" for unit in range(16) for t in range(5)]
    table.write_text("unit,day,heat\n" + "\n".join(lines) + "\n")
    given = (str(table), "--path=unit", "--time=day", f"--runs_dir={tmp_path}")
    monkeypatch.setattr(run.TuneRun, "go", lambda self: self)  # begin, and leave it at that
    begun = tune(*given, "--data.init_args.folds=2", write(tmp_path, ALIKE))
    assert begun.folder == tmp_path / "pumps/tune/version_0"
    assert (begun.place, begun.trials) == (Place(), 100)
    with table.open("a") as stream:
        stream.write("99,0,1.0\n")
    with pytest.raises(SystemExit, match="have changed since"):
        tune("--resume", str(begun.folder))
    assert (begun.folder / plan.OWN_FILE).is_file()
