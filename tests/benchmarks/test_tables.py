"""Tables of the grid, against figures worked out by hand and by SciPy."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.methods import DATA_SETS
from benchmarks.paper import LABELS
from benchmarks.tables import holm, latex, markdown, paired, paired_markdown, summarise


def rows(values, data="CP1"):
    return [
        {"dataset": data, "variant": v, "seed": str(seed), "balanced_accuracy": str(x)}
        for v, xs in values.items()
        for seed, x in enumerate(xs)
    ]


def test_markdown_has_mean_two_standard_deviations_and_the_papers_mean():
    found = rows({"iqs": (0.8, 0.9), "do_iqs": (0.7, 0.7)})
    table = summarise(found, "balanced_accuracy", DATA_SETS, LABELS)
    lines = list(markdown(table, "balanced_accuracy", LABELS))
    assert lines[0] == "| | CP1 |"
    assert lines[2] == "| IQS | **0.850 ± 0.14** (0.500) |"  # 2 · 0.05 · √2
    assert lines[3] == "| DO-IQS | **0.700 ± 0.00** (0.954) |"
    assert lines[4:] == ["| the paper's best | 0.957 |", "| limit | 0.996 |"]


def test_best_three_of_a_column_are_bold():
    found = rows({"classifier": (0.6,), "iqs": (0.9,), "do_iqs": (0.8,), "do_iqs_lb": (0.7,)})
    table = summarise(found, "balanced_accuracy", DATA_SETS, LABELS)
    best = {method for (_, method), cell in table.cells.items() if cell.best}
    assert best == {"iqs", "do_iqs", "do_iqs_lb"}


def test_missing_pairs_stay_empty():
    found = rows({"iqs": (0.9,)}) + rows({"do_iqs": (0.8,)}, data="CP2")
    table = summarise(found, "balanced_accuracy", DATA_SETS, LABELS)
    lines = list(markdown(table, "balanced_accuracy", LABELS))
    assert lines[2] == "| IQS | **0.900** (0.500) |  |"  # of one seed
    assert any(line.startswith("IQS & $\\mathbf{0.900") and line.endswith(r"& -- \\")
               for line in latex(table, "balanced_accuracy", LABELS))  # fmt: skip


def test_rows_of_fewer_seeds_say_so():
    found = rows({"iqs": (0.9, 0.8), "do_iqs": (0.8,)})
    table = summarise(found, "balanced_accuracy", DATA_SETS, LABELS)
    lines = list(markdown(table, "balanced_accuracy", LABELS))
    assert lines[2].startswith("| IQS | ")
    assert lines[3].startswith("| DO-IQS (1 seeds) | ")


def test_paired_difference_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.9, 0.02, 6), rng.normal(0.88, 0.02, 6)
    found = paired(rows({"iqs": a, "classifier": b}), "iqs", "classifier", "balanced_accuracy")
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert found["CP1"].mean == pytest.approx((a - b).mean())
    assert found["CP1"].low == pytest.approx(interval.low)
    assert found["CP1"].high == pytest.approx(interval.high)
    assert found["CP1"].p == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_holm_rejects_what_its_definition_does():
    # 0.05/4, 0.05/3, 0.05/2: the third smallest is too large, and so all after it stay
    assert holm([0.04, 0.01, 0.03, 0.015]) == [False, True, False, True]
    assert holm([0.02, 0.04]) == [True, True]
    assert holm([0.03, 0.04]) == [False, False]
    assert holm([]) == []


def test_holm_keeps_the_chance_of_any_false_rejection_below_the_level():
    rng = np.random.default_rng(0)
    wrong = sum(any(holm(list(rng.uniform(size=10)))) for _ in range(4000))
    assert wrong / 4000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_only_differences_that_exclude_zero_are_bold():
    clear = {"iqs": (0.9, 0.91, 0.92), "do_iqs": (0.7, 0.9, 0.8), "classifier": (0.8, 0.81, 0.82)}
    found = rows(clear)
    lines = list(paired_markdown(found, LABELS, "classifier", "balanced_accuracy", LABELS))
    assert [line.count("**") for line in lines[2:]] == [2, 0]
