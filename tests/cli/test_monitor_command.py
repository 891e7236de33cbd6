"""Finished paths added from the shell: counted once, kept in a file, alarms in words."""

import json
import shutil
from pathlib import Path

import pytest
from test_program import quietly, write_pumps

from lit_ios.program import main


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """Train and calibrate on tables; return the run folder."""
    folder = tmp_path_factory.mktemp("monitor")
    table = write_pumps(folder / "pumps.csv")
    cli = quietly(
        "fit", table, "--path", "unit", "--time", "day", "--model", "iqs", "--no-baseline",
        "--no-report",
        "--trainer.max_epochs", 2, "--runs_dir", folder / "runs",
    )  # fmt: skip
    run = Path(cli.trainer.log_dir)
    fresh = write_pumps(folder / "fresh.csv", units=60, seed=1)
    assert main(["calibrate", str(run), str(fresh), "--max-event-miss-rate", "0.1"]) == 0
    return run


def renamed(file, prefix, by=0.0):
    """Give units of a table other names, and all heats another level."""
    rows = [line.split(",") for line in file.read_text().split()[1:]]
    lines = [f"{prefix}{unit},{day},{float(heat) + by:.4f}" for unit, day, heat in rows]
    file.write_text("unit,day,heat\n" + "\n".join(lines) + "\n")
    return file


def test_monitor_adds_each_path_once_and_keeps_them_in_its_state(calibrated, tmp_path, capsys):
    table = write_pumps(tmp_path / "new.csv", units=50, seed=2)
    renamed(table, "n", by=0.0002)  # so that no rounded row is there by chance
    figure, state = tmp_path / "evidence.png", tmp_path / "monitor.json"
    words = ["monitor", str(calibrated), str(table), "--state", str(state)]
    assert main([*words, "--output", str(figure), "--fail-on-alarm"]) == 0
    said = capsys.readouterr().out
    assert f"rule    {calibrated / 'checkpoints/calibrated.ckpt'}" in said
    assert "50 paths of" in said
    assert "50 paths since calibration on 60; no alarm" in said
    assert "of 50 stopped paths" in said
    assert "promised at most 0.1: nothing speaks against it" in said
    assert figure.stat().st_size > 5000
    before = json.loads(state.read_text())
    assert main(words) == 0
    assert "0 paths of" in capsys.readouterr().out
    assert json.loads(state.read_text()) == before


def test_monitor_says_when_paths_have_changed_and_fails_only_if_asked(calibrated, tmp_path, capsys):
    table = renamed(write_pumps(tmp_path / "hot.csv", units=50, seed=3), "hot", by=9.0002)
    words = ["monitor", str(calibrated), str(table)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "ALARM since path" in said
    assert "paths no longer look like those of calibration" in said
    assert main([*words, "--fail-on-alarm"]) == 1
    assert "error: the monitor raises an alarm" in capsys.readouterr().err


def test_monitor_refuses_what_it_cannot_use(calibrated, tmp_path, capsys):
    table, state = write_pumps(tmp_path / "new.csv", units=9, seed=4), tmp_path / "monitor.json"
    words = ["monitor", str(calibrated), str(table), "--state", str(state)]
    state.write_text("{")
    assert main(words) == 1
    assert f"error: --state: {state} cannot be read" in capsys.readouterr().err
    state.write_text("[]")
    assert main(words) == 1
    assert "a saved monitor must be what state() returned" in capsys.readouterr().err
    assert main(["monitor", str(calibrated)]) == 1
    assert "monitor needs a table of finished paths" in capsys.readouterr().err
    alone = shutil.copy(calibrated / "checkpoints/best.ckpt", tmp_path / "best.ckpt")
    assert main(["monitor", str(alone), str(table)]) == 1
    assert "calibrate the policy first" in capsys.readouterr().err
