"""`lit-ios forecast`: learnt, written down, shown by predict both ways."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest

import train
from lit_ios import StoppingPolicy
from lit_ios.program import main

COLUMNS = {"remaining_low", "remaining_low_at_stop", "remaining_median", "stop_within_2"}


def write_pumps(file, units, seed):
    rng = np.random.default_rng(seed)
    lines = [
        f"u{seed}-{unit},{day},{rng.normal() + day / 3:.4f}"
        for unit in range(units)
        for day in range(int(rng.integers(3, 10)))
    ]
    file.write_text("unit,day,heat\n" + "\n".join(lines) + "\n")
    return str(file)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train on a table; return the run folder."""
    folder = tmp_path_factory.mktemp("forecast")
    table = write_pumps(folder / "pumps.csv", 100, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = train.main([
            "fit", table, "--path", "unit", "--time", "day", "--model", "iqs", "--no-baseline",
            "--no-report",
            "--trainer.max_epochs", "2", "--runs_dir", str(folder / "runs"),
        ])  # fmt: skip
    return Path(cli.trainer.log_dir)


def rows_of(file):
    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_forecast_is_learnt_from_a_table_and_shown_by_predict(run, tmp_path, capsys):
    fresh = write_pumps(tmp_path / "fresh.csv", 40, seed=1)
    target = tmp_path / "f.ckpt"
    assert main(["forecast", str(run), fresh, "--within", "2", "--output", str(target)]) == 0
    said = capsys.readouterr().out
    assert "learnt on 40 paths, 40 of them seen to their stop" in said
    assert "hold with confidence 0.9" in said
    assert StoppingPolicy.load(target).learnt_forecast.paths == 40
    assert main(["forecast", str(run), fresh, "--output", str(target)]) == 1
    assert "is there already: give --output FILE or --overwrite" in capsys.readouterr().err
    out = tmp_path / "decisions.csv"
    new = write_pumps(tmp_path / "new.csv", 5, seed=2)
    assert main(["predict", str(target), new, "--output", str(out)]) == 0
    assert set(rows_of(out)[0]) >= COLUMNS


def test_run_without_a_table_learns_from_its_test_paths_and_shows_them(run, tmp_path, capsys):
    assert main(["forecast", str(run), "--within", "2"]) == 0
    assert "learning from the test paths of the run" in capsys.readouterr().out
    learnt = run / "checkpoints/forecast.ckpt"
    out = tmp_path / "decisions.csv"
    words = ["predict", str(learnt), "--output", str(out), "--runs_dir", str(tmp_path / "runs")]
    assert main(words) == 0
    policy, found = StoppingPolicy.load(learnt), rows_of(out)
    for row in found:  # as a live path says it
        if row["day"] == "0":
            stream = policy.stream()
        left = stream.step({"heat": float(row["heat"]) if "heat" in row else heat(run, row)},
                           float(row["day"])).remaining  # fmt: skip
        assert float(row["remaining_low"]) == pytest.approx(left.low, rel=1e-3, abs=1e-3)
        assert float(row["stop_within_2"]) == pytest.approx(left.within(2), abs=1e-3)
        assert (row["remaining_low_at_stop"] != "") == (row["first_stop"] == "true")


def heat(run, row):
    """Look up what was measured."""
    table = run.parents[3] / "pumps.csv"
    return next(
        float(line["heat"])
        for line in rows_of(table)
        if line["unit"] == row["unit"] and line["day"] == row["day"]
    )


def test_too_few_paths_end_in_a_sentence(run, tmp_path, capsys):
    few = write_pumps(tmp_path / "few.csv", 12, seed=3)
    assert main(["forecast", str(run), few, "--output", str(tmp_path / "f.ckpt")]) == 1
    assert "needs at least 18 calibration paths, there are 12" in capsys.readouterr().err


def test_training_paths_are_refused(run, capsys):
    table = run.parents[3] / "pumps.csv"
    assert main(["forecast", str(run), str(table), "--output", str(run / "x.ckpt")]) == 1
    assert "were trained on" in capsys.readouterr().err


def test_help_of_forecast_names_its_options(capsys):
    assert main(["forecast", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--confidence" in said
    assert "--within" in said
