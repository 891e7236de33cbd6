"""The grid of runs: what is done, what is skipped, and the table."""

import contextlib
import csv
import io
import json

import numpy as np
import pytest

from benchmarks import grid, paper
from benchmarks.figures import draw, fatigue_memory, read_lines, regions, scatter
from benchmarks.grid import COLUMNS, METRICS, Job, curves_file, read_rows, run_all
from benchmarks.paper import LABELS
from datamodules import ChangePointData, FatigueData
from lit_ios.scale import Place


def row(job, accuracy):
    return dict.fromkeys(COLUMNS, "") | job.row | {"balanced_accuracy": accuracy}


def test_rows_are_kept_as_runs_end_and_finished_ones_are_not_repeated(tmp_path, monkeypatch):
    done = []

    def run(job):
        done.append(job)
        if job.seed == 2:
            raise ValueError("no luck")
        return row(job, 0.5)

    monkeypatch.setattr(grid, "run", run)
    jobs = [Job("CP1", "iqs", seed, 1) for seed in range(3)]
    file = tmp_path / "results/rows.csv"
    run_all(jobs[:1], file, Place())
    failed = run_all(jobs, file, Place())
    assert [job.seed for job in done] == [0, 1, 2]
    assert [r["seed"] for r in read_rows(file)] == ["0", "1"]
    assert failed == 1
    run_all(jobs, file, Place())
    assert [job.seed for job in done] == [0, 1, 2, 2]


def test_options_and_epochs_make_other_runs():
    jobs = [Job("CP1", "iqs", 0, 1), Job("CP1", "iqs", 0, 2), Job("CP1", "iqs", 0, 1, ("--a=1",))]
    assert len({job.key for job in jobs}) == 3


def test_half_written_last_row_is_left_out(tmp_path):
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerow(row(Job("CP1", "iqs", 0, 1), 0.5))
        stream.write("CP1,iqs,1,1,0.")
    assert [r["seed"] for r in read_rows(file)] == ["0"]


def test_row_after_a_half_written_one_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "run", lambda job: row(job, 0.5))
    file = tmp_path / "rows.csv"
    run_all([Job("CP1", "iqs", 0, 1)], file, Place())
    with file.open("a") as stream:
        stream.write("CP1,iqs,1,1,,0.")
    run_all([Job("CP1", "iqs", seed, 1) for seed in range(2)], file, Place())
    assert [r["seed"] for r in read_rows(file)] == ["0", "1"]


@pytest.mark.parametrize("processes", [1, 2])
def test_one_real_run_ends_as_a_row(processes, tmp_path):
    file = tmp_path / "rows.csv"
    assert run_all([Job("CP1", "classifier", 0, 1)], file, Place(processes=processes)) == 0
    (found,) = read_rows(file)
    assert 0 <= float(found["balanced_accuracy"]) <= 1
    assert found["best_epoch"] == "0"
    (curves,) = read_lines(curves_file(file))
    assert len(curves["loss"]) == 1
    assert curves["val_balanced_accuracy"] == [
        pytest.approx(float(found["val_balanced_accuracy"]), abs=1e-5)
    ]


def test_figures_are_drawn_of_what_is_known(tmp_path):
    rows = [
        dict.fromkeys(METRICS, "0.5") | {k: str(v) for k, v in Job(data, name, seed, 3).row.items()}
        for data in ("CP1", "star")
        for name in ("iqs", "classifier", "baseline_svm")
        for seed in range(2)
    ]
    rows[0]["time_to_event_median"] = ""  # nothing was caught
    curves = tmp_path / "rows_curves.jsonl"
    lines = [
        Job(row["dataset"], row["variant"], int(row["seed"]), 3).row
        | {"val_balanced_accuracy": [0.5, 0.6, 0.7], "loss": [1.0, 0.5, 0.2]}
        for row in rows
        if row["variant"] != "baseline_svm"
    ]
    curves.write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = list(draw(rows, curves, LABELS, tmp_path / "rows"))
    assert [file.name for file in files] == [
        "rows_trade_off.png", "rows_accuracy.png", "rows_loss.png"
    ]  # fmt: skip
    assert all(file.stat().st_size > 10_000 for file in files)


def test_scatter_shows_all_rows_but_the_tests_against_the_time_since_their_path_began():
    data = ChangePointData(problem="CP1", paths=20, test_paths=1)
    axes = scatter({"CP1": data}).axes[0]
    shown = np.concatenate([line.get_xydata() for line in axes.lines])
    paths = [*data.splits.train, *data.splits.val]
    elapsed = np.concatenate([path.times - path.times[0] for path in paths])
    values = np.concatenate([path.states[:, 0] for path in paths])
    assert sorted(map(tuple, shown)) == sorted(zip(elapsed, values, strict=True))
    stops = axes.lines[1].get_xydata()
    ends = [(p.times[-1] - p.times[0], p.states[-1, 0]) for p in paths if p.stopped]
    assert sorted(map(tuple, stops)) == sorted(ends)


def test_finished_runs_are_shown_without_running_others(tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.csv"
    monkeypatch.setattr(grid, "run", lambda job: row(job, 0.75))
    run_all([Job("CP1", "iqs", 0, 200)], file, Place())
    monkeypatch.setattr(paper, "run_all", None)
    monkeypatch.setattr("sys.argv", ["paper", "--finished", f"--file={file}", "--seeds=2"])
    paper.main()
    assert "| IQS | **0.750** (0.500) |" in capsys.readouterr().out


def test_regions_have_a_row_for_each_method_and_a_boundary_beside_the_truth():
    with contextlib.redirect_stdout(io.StringIO()):
        figure = regions("radial", ["iqs", "do_iqs_lb"], epochs=1, paths=30)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title().split(",")[0] for axes in panels] == 2 * [
        "Q(s", "Q(s", "difference", "boundaries",
    ]  # fmt: skip
    assert [axes.get_ylabel() for axes in panels[::4]] == ["IQS", "DO-IQS-LB"]


def test_figure_of_the_memory_shows_the_damage_of_whole_test_paths():
    with contextlib.redirect_stdout(io.StringIO()):
        figure = fatigue_memory(epochs=1, shown=2)
    simulator = FatigueData(seed=0).simulator
    for axes in figure.axes[2:]:
        damage, memory = (line.get_ydata() for line in axes.lines[:2])
        assert len(damage) == len(memory)
        assert damage[-1] >= 1 - 1e-9 > damage[-2]
        load = figure.axes[figure.axes.index(axes) - 2].lines[0].get_ydata()
        naive = np.cumsum(np.exp(simulator.exponent * np.asarray(load)) / 40)
        np.testing.assert_allclose(damage, naive, rtol=1e-9)


def test_rows_are_added_to_a_file_that_had_fewer_columns(tmp_path, monkeypatch):
    file = tmp_path / "rows.csv"
    old = [name for name in COLUMNS if name != "candidate"]
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, old)
        writer.writeheader()
        writer.writerow(dict.fromkeys(old, "") | Job("CP1", "iqs", 0, 1).row)
    monkeypatch.setattr(grid, "run", lambda job: row(job, 0.5) | {"candidate": "gru"})
    run_all([Job("CP1", "iqs", 0, 1), Job("CP1", "auto", 1, 1)], file, Place())
    assert [found["candidate"] for found in read_rows(file)] == ["", "gru"]
