"""The hand-written loops that speed is measured by compute what the framework computes."""

import csv
import json
import subprocess
import sys

import pytest
import torch
from repository import ROOT

import train
from benchmarks import machine, speed
from benchmarks.methods import VARIANTS
from benchmarks.observed import run_train
from benchmarks.speed import reached
from lit_ios import modules


@pytest.mark.parametrize("variant", VARIANTS)
def test_hand_written_loop_ends_with_the_weights_of_train_py(variant):
    seen = run_train(variant, 2, raw=True)
    assert len(seen.epochs) == len(seen.raw_epochs) == 2
    assert seen.raw.difference(seen.weights) < 1e-4


def test_goal_holds_for_the_worst_of_several_figures():
    assert reached("rows_factor", 1.1)
    assert not reached("rows_factor", 1.11)
    assert not reached("lightning_over_raw", {"a": 1.0, "b": 1.3})
    assert not reached("batch_rows_per_second", {"a": 2e6, "b": 9e5})


def test_every_measure_has_a_goal():
    assert list(speed.MEASURES) == list(speed.GOALS)


def test_every_class_of_model_is_measured_once():
    data = speed.RandomPaths(100, 5)
    made = [type(speed.make_model(name, data)).__name__ for name in speed.one_of_each_class()]
    assert sorted(made) == sorted(
        set(modules.__all__) - {"RecurrentSurvival", "StoppingModule", "View"}
    )


def test_processes_are_timed_in_turn_at_least_five_times(monkeypatch):
    seconds, clock, order = {"import torch": 2.0, "import this": 1.0}, [0.0], []

    def run(words, **_):
        order.append(words[-1])
        clock[0] += seconds[words[-1]]

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(speed.time, "perf_counter", lambda: clock[0])
    assert speed.over_torch(3, "-c", "import this") == 0.5
    assert order[2:] == ["import this", "import torch"] * 5


def test_timed_prediction_decides_on_every_row_of_the_table(tmp_path):
    table, decisions = tmp_path / "table.csv", tmp_path / "decisions.csv"
    speed.write_table(table, rows=1000)
    checkpoint = speed.small_checkpoint(table, tmp_path)
    words = ["predict", str(checkpoint), f"--data={table}", f"--output={decisions}"]
    subprocess.run([sys.executable, "-m", "lit_ios", *words], cwd=ROOT, check=True)
    with decisions.open() as rows, table.open() as given:
        decided, known = list(csv.DictReader(rows)), list(csv.DictReader(given))
    assert len(known) == 1000
    assert [(r["unit"], r["cycle"]) for r in decided] == [(r["unit"], r["cycle"]) for r in known]


def test_goals_in_the_file_are_those_of_today(tmp_path, monkeypatch):
    file = tmp_path / "speed.json"
    file.write_text(json.dumps({"goals": {"gone": ["at most", 1]}, "rows_factor": 1.0}))
    monkeypatch.setitem(speed.MEASURES, "do_over_iqs", lambda repeats: {"do_over_iqs": 2.0})
    monkeypatch.setattr("sys.argv", ["speed", "--only=do_over_iqs", f"--file={file}"])
    speed.main()
    found = json.loads(file.read_text())
    assert found["goals"] == {name: list(goal) for name, goal in speed.GOALS.items()}
    assert (found["rows_factor"], found["do_over_iqs"]) == (1.0, 2.0)
    assert found["machine"]["accelerator"] == "cpu"


def test_gpu_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["speed", "--accelerator=gpu", f"--file={tmp_path}/speed.json"])
    with pytest.raises(SystemExit, match="PyTorch sees no GPU on this machine"):
        speed.main()
    assert not list(tmp_path.iterdir())


def test_everything_that_trains_or_judges_does_so_on_the_accelerator_asked_for(monkeypatch):
    """Where there is no GPU, what Lightning and train.py are told must do."""
    told = []
    monkeypatch.setattr(machine, "_chosen", ["gpu"])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    class Told(Exception):  # noqa: N818
        pass

    def refuse(*words, accelerator=None, **_):
        told.append(accelerator or next(w for w in words[0] if w.startswith("--trainer.acc")))
        raise Told

    monkeypatch.setattr(speed.pl, "Trainer", refuse)
    monkeypatch.setattr(train, "main", refuse)
    for begin in (
        lambda: speed.epoch_seconds("iqs", speed.RandomPaths(100, 5)),
        lambda: speed.auto_factor(1),
    ):
        with pytest.raises(Told):
            begin()
    monkeypatch.undo()
    assert told == ["gpu", "--trainer.accelerator=gpu"]
