"""Training learns what it should, with full-size data and a short budget."""

import json
from pathlib import Path

import pytest


def metrics_of(cli):
    return json.loads((Path(cli.trainer.log_dir) / "metrics.json").read_text())


@pytest.mark.parametrize("data", ["CP1", "bmG"])
def test_do_iqs_lb_reaches_090(data, run_train):
    cli = run_train("fit", "--trainer.max_epochs=40", data=data, model="do_iqs_lb", small=False)
    assert metrics_of(cli)["test/balanced_accuracy"] >= 0.90


def test_recovered_region_overlaps_the_true_one(run_train):
    cli = run_train("fit", "--trainer.max_epochs=30", data="bmG", model="iqs_smote", small=False)
    metrics = metrics_of(cli)
    assert metrics["test/grid_iou"] >= 0.85
    assert metrics["test/grid_balanced_accuracy"] >= 0.85
