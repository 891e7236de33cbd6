"""Every run ends with a page, which costs the run nothing if it cannot be written."""

import json
import warnings
from pathlib import Path

import pytest

import lit_ios.report
from lit_ios.program import run


def fit(tmp_path, *words):
    small = ["--data.init_args.paths=40", "--data.init_args.test_paths=12"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(["fit", *words, *small, "--trainer.max_epochs=1", "--runs_dir", str(tmp_path)])
    (folder,) = tmp_path.glob("*/*/version_0")
    return folder


@pytest.mark.parametrize("model", ["do_iqs_lb", "classifier", "oti", "iqs_folds"])
def test_a_run_of_any_kind_ends_with_its_page(tmp_path, capsys, model):
    folder = fit(tmp_path, "--data", "CP1", "--model", model, "--no-baseline")
    page = (folder / "report.html").read_text()
    accuracy = json.loads((folder / "metrics.json").read_text())["test/balanced_accuracy"]
    assert f"<b>{accuracy:.3f}</b>" in page
    assert "gradient boosting" not in page
    assert len(page) < 2_000_000
    assert f"report       {folder}/report.html" in capsys.readouterr().out


def test_auto_ends_with_the_page_of_what_it_took_beside_gradient_boosting(tmp_path):
    folder = fit(tmp_path, "--data", "fatigue", "--model", "auto", "--quick")
    page, metrics = (
        (folder / "report.html").read_text(),
        json.loads((folder / "metrics.json").read_text()),
    )
    assert f"gradient boosting {metrics['test/baseline_balanced_accuracy']:.3f}" in page
    assert f"difference {metrics['test/baseline_difference']:+.3f}" in page
    for name in ("event_miss_rate", "stopped_at_first_row"):
        assert f"{metrics[f'test/baseline_{name}']:.1%}<small>" in page
    assert "what memory adds" in page
    assert not list((folder / "candidates").rglob("report.html"))


def test_no_page_is_written_where_none_is_wanted(tmp_path):
    folder = fit(tmp_path, "--data", "CP1", "--model", "iqs", "--no-baseline", "--no-report")
    assert not (folder / "report.html").exists()


def test_a_page_that_fails_does_not_cost_the_run(tmp_path, monkeypatch, recwarn):
    def fail(*args):
        raise ZeroDivisionError("of a figure")

    monkeypatch.setattr(lit_ios.report, "write_report", fail)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        small = ["--data.init_args.paths=40", "--data.init_args.test_paths=12"]
        run([
            "fit", "--data", "CP1", "--model", "iqs", "--no-baseline", *small,
            "--trainer.max_epochs=1", "--runs_dir", str(tmp_path),
        ])  # fmt: skip
    folder = Path(tmp_path / "CP1/iqs/version_0")
    assert (folder / "checkpoints/best.ckpt").is_file()
    assert (folder / "metrics.json").is_file()
    (sentence,) = [str(one.message) for one in said if "report.html" in str(one.message)]
    assert "ZeroDivisionError: of a figure" in sentence
    assert f"lit-ios report {folder}" in sentence
