"""Runs with compiled steps beside the same runs with eager ones."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.compiled import cost, difference, pairs, table
from benchmarks.grid import COLUMNS, Job


def rows(data, variant, accuracies, compiled=""):
    return [
        dict.fromkeys(COLUMNS, "")
        | {k: str(v) for k, v in Job(data, variant, seed, 200).row.items()}
        | {"balanced_accuracy": str(value), "compiled_steps": compiled, "cpu_seconds": "30"}
        for seed, value in enumerate(accuracies)
    ]


def test_runs_are_paired_by_all_that_tells_them_apart():
    eager = rows("CP1", "iqs", [0.9, 0.8]) + rows("CP1", "iqs", [0.1] * 3, compiled="True")
    compiled = rows("CP1", "iqs", [0.95, 0.7, 0.6], "True") + rows("CP2", "iqs", [0.5], "True")
    compiled += rows("CP1", "iqs", [0.2, 0.2], "False")
    found = [(old["balanced_accuracy"], new["balanced_accuracy"])
             for old, new in pairs(eager, compiled)]  # fmt: skip
    assert found == [("0.9", "0.95"), ("0.8", "0.7")]


def test_the_interval_is_that_of_a_paired_t_test():
    a, b = np.random.default_rng(0).normal(size=(2, 7))
    found = difference(list(a - b))
    known = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.mean - found.reach, found.mean + found.reach) == pytest.approx(known)


def test_the_table_has_each_set_each_variant_and_all():
    both = pairs(
        rows("CP1", "iqs", [0.5, 0.5]) + rows("star", "do_iqs", [0.5, 0.5]),
        rows("CP1", "iqs", [0.6, 0.6], "True") + rows("star", "do_iqs", [0.4, 0.4], "True"),
    )
    lines = list(table(both))
    assert lines[0] == "| compiled − eager | CP1 | star | all | runs |"
    assert "| IQS | +0.1000 ± 0.0000 |  | +0.1000 ± 0.0000 | 2 |" in lines
    assert any(line.startswith("| all |") and line.endswith("| 4 |") for line in lines)
    assert cost([new for _, new in both]) == (
        "4 runs took 2.0 minutes of one core, builds included"
    )
