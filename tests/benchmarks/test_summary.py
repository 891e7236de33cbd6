"""The short tables, against figures worked out by hand."""

import numpy as np
from scipy import stats

from benchmarks.summary import adds_table, beside_table, short_table


def rows(values, data="CP1", candidate=""):
    return [
        {
            "dataset": data, "variant": method, "seed": str(seed), "balanced_accuracy": str(x),
            "candidate": candidate if method == "auto" else "",
        }
        for method, xs in values.items()
        for seed, x in enumerate(xs)
    ]  # fmt: skip


GIVEN = rows(
    {
        "auto": (0.9, 0.92, 0.94), "iqs": (0.8, 0.8, 0.8), "do_iqs": (0.85, 0.85, 0.85),
        "baseline_svm_lags": (0.91, 0.9, 0.92), "baseline_trees": (0.7, 0.7, 0.7),
        "baseline_clock": (0.6, 0.7, 0.8),
    },
    candidate="gru",
)  # fmt: skip


def test_first_table_has_the_best_of_each_kind_and_the_difference_to_the_best_rival():
    line = list(short_table(GIVEN))[2]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    error = np.std([0.9, 0.92, 0.94], ddof=1) / np.sqrt(3)
    interval = stats.ttest_rel([0.9, 0.92, 0.94], [0.91, 0.9, 0.92]).confidence_interval(0.95)
    assert cells[0] == "CP1"
    assert cells[1] == f"0.920 ± {error:.3f}"
    assert cells[2] == "0.850 (DO-IQS)"
    assert cells[3].startswith("0.910 (RBF-kernel SVM")
    assert cells[4] == f"+0.010 [{interval.low:+.3f}, {interval.high:+.3f}]"
    assert cells[5:] == ["0.700", "0.996", "3"]


def test_means_are_over_the_seeds_that_all_methods_have():
    more = rows({"auto": (0.9, 0.92, 0.94, 0.1)})
    assert list(short_table(GIVEN + more[3:])) == list(short_table(GIVEN))


def test_what_is_added_is_the_paired_difference_bold_where_it_is_proven():
    with_y, without = (0.9, 0.91, 0.92, 0.9, 0.91), (0.8, 0.81, 0.82, 0.8, 0.81)
    found = rows({"do_iqs_lb": with_y, "model_based_iqs_lb": without, "iqs_lb": (0.7, 0.9, 0.8)})
    lines = list(adds_table(found))
    (of_y,) = (line for line in lines if line.startswith("| y, as in the paper"))
    (of_dynamics,) = (line for line in lines if line.startswith("| the dynamics model"))
    assert "**+0.100" in of_y
    assert "**" not in of_dynamics


def test_candidates_that_auto_took_are_counted():
    given = GIVEN + rows({"oti": (0.8, 0.8)})
    assert list(beside_table(given))[2] == "| CP1 | 0.910 ± 0.010 | 0.800 ± 0.000 |  |  | gru 3 |"
