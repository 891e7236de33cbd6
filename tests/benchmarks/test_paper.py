"""The grid of runs: what is done, what is skipped, and the table."""

import csv

import pytest

from benchmarks import paper
from benchmarks.paper import COLUMNS, Job, read_rows, run_all


def row(job, accuracy):
    values = {
        "dataset": job.dataset, "variant": job.variant, "seed": job.seed, "epochs": job.epochs,
        "balanced_accuracy": accuracy, "options": " ".join(job.options),
    }  # fmt: skip
    return dict.fromkeys(COLUMNS, "") | values


def test_rows_are_kept_as_runs_end_and_finished_ones_are_not_repeated(tmp_path, monkeypatch):
    done = []

    def run(job):
        done.append(job)
        if job.seed == 2:
            raise ValueError("no luck")
        return row(job, 0.5)

    monkeypatch.setattr(paper, "run", run)
    jobs = [Job("CP1", "iqs", seed, 1) for seed in range(3)]
    file = tmp_path / "results/rows.csv"
    run_all(jobs[:1], file, processes=1)
    failed = run_all(jobs, file, processes=1)
    assert [job.seed for job in done] == [0, 1, 2]
    assert [r["seed"] for r in read_rows(file)] == ["0", "1"]
    assert failed == 1
    run_all(jobs, file, processes=1)
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


@pytest.mark.parametrize("processes", [1, 2])
def test_one_real_run_ends_as_a_row(processes, tmp_path):
    file = tmp_path / "rows.csv"
    assert run_all([Job("CP1", "classifier", 0, 1)], file, processes) == 0
    (found,) = read_rows(file)
    assert 0 <= float(found["balanced_accuracy"]) <= 1
    assert found["best_epoch"] == "0"
