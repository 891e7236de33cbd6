"""What a summary says: sentences that follow from the metrics, with units."""

import math
from pathlib import Path

import pytest
import torch
from scipy import stats

from callbacks.summary import _intervals, _number, _table
from callbacks.words import Judged, few_paths, next_steps, time_label, verdict
from lit_ios.batches import path_batch
from lit_ios.data_record import TableColumns
from lit_ios.metrics import path_metrics

CYCLES = TableColumns("unit", "cycle")
DATES = TableColumns("unit", "when", time_unit="days", dates=True)
pytestmark = pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")


def measured(margin, paths, threshold=0.0):
    metrics = path_metrics("")
    metrics.update(margin, path_batch(paths), threshold)
    return {name: float(value) for name, value in metrics.compute().items()}


def said(metrics, judged=None, table=None):
    return verdict(metrics, judged or Judged(75, 70), table)


GOOD = {
    "balanced_accuracy": (0.97 + 0.98) / 2, "event_miss_rate": 0.03, "time_to_event_mean": 1.2,
    "false_alarm_rate": math.nan,
}  # fmt: skip


def test_good_rule_is_described_in_one_sentence():
    assert said(GOOD, table=CYCLES) == (
        "On 75 paths the rule had not seen, it stopped in time on 97 % of those the expert "
        "stopped, on average 1.2 [cycle] early, and let 98 % of the rows before pass."
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [(DATES, "1.2 days early"), (CYCLES, "1.2 [cycle] early"), (None, "1.2 units of time early")],
)
def test_time_has_its_unit(table, words):
    assert words in said(GOOD, table=table)


@pytest.mark.parametrize(
    ("table", "label"), [(DATES, " [days]"), (CYCLES, " [cycle]"), (TableColumns(), ""), (None, "")]
)
def test_label_of_times_is_the_unit_of_dates_or_the_name_of_the_column(table, label):
    assert time_label(table) == label


def test_large_times_have_no_exponent():
    assert "1,390 [cycle] early" in said(GOOD | {"time_to_event_mean": 1389.8435}, table=CYCLES)


def test_false_alarms_are_told_where_paths_were_censored():
    assert "It stopped 25 % of the paths that the expert never stopped." in said(
        GOOD | {"false_alarm_rate": 0.25}
    )


@pytest.mark.parametrize(
    ("missed", "text"), [(0.001, "99.9 %"), (0.0, "100 %"), (0.999, "0.1 %"), (0.5, "50 %")]
)
def test_all_and_nothing_are_said_only_where_they_are_exact(missed, text):
    metrics = GOOD | {"event_miss_rate": missed, "balanced_accuracy": (1 - missed + 0.98) / 2}
    assert f"in time on {text} of those" in said(metrics)


def test_rule_that_never_stops_is_said_to_in_words(paths):
    margin = torch.full((len(paths.states),), -1.0)
    text = said(measured(margin, paths), Judged(9, 7))
    assert text.startswith("The rule never stops on these 9 paths")
    assert "lit-ios calibrate" in text


def test_rule_that_stops_at_once_is_said_to_in_words(paths):
    text = said(measured(torch.ones(len(paths.states)), paths), Judged(9, 7))
    assert text.startswith("The rule stops each of these 9 paths at its first row")


def test_rule_that_stops_all_but_one_path_at_once_is_not_said_to_stop_all(paths):
    margin = torch.ones(len(paths.states))
    margin[paths.offsets[4]] = -1
    assert "at its first row" not in said(measured(margin, paths), Judged(9, 7))


def test_paths_without_stops_are_judged_by_false_alarms_alone(paths):
    censored = paths.select(~paths.stopped)
    margin = torch.full((len(censored.states),), -1.0)
    margin[0] = 1.0
    text = said(measured(margin, censored), Judged(2, 0))
    assert "none of them stopped by the expert, it stopped 50 %" in text


@pytest.mark.parametrize(
    ("training", "tested", "words"),
    [
        (3, 40, "Only 3 stopped paths in training: these figures mean little below some 20."),
        (
            30,
            7,
            "Only 7 stopped paths among the test paths: these figures mean little below some 20.",
        ),
        (3, 7, "Only 3 stopped paths in training and 7 among the test paths: these"),
    ],
)
def test_few_paths_are_said_to_be_few(training, tested, words):
    assert few_paths(training, Judged(50, tested)).startswith(words)


def test_many_paths_need_no_word():
    assert few_paths(20, Judged(50, 20)) is None
    assert few_paths(20, Judged(50, 0)) is None  # the verdict says it


def test_next_steps_name_the_run_folder():
    text = next_steps(Path("runs/my/auto/version_0"))
    assert "lit-ios calibrate runs/my/auto/version_0 --max-event-miss-rate 0.1 " in text
    assert "lit-ios predict runs/my/auto/version_0 new.csv" in text


def test_next_step_after_a_simulated_problem_is_a_table_of_ones_own():
    text = next_steps(Path("runs/fatigue/auto/version_0"), own_table=False)
    assert "lit-ios fit my.csv" in text
    assert "new.csv" not in text


def test_table_gives_false_alarms_beside_misses_and_units_of_times(paths):
    margin = torch.from_numpy(paths.states[:, 0])
    metrics = {f"test/{name}": value for name, value in measured(margin, paths).items()}
    lines = _table(metrics, "test", " [cycle]", {}).splitlines()
    labels = [line[2:].split("   ")[0].strip() for line in lines if line.startswith("  ")]
    missed = next(i for i, label in enumerate(labels) if label.startswith("event-miss rate"))
    assert labels[missed + 1].startswith("false alarms")
    assert any(label.startswith("time to event, mean [cycle]") for label in labels)


def test_table_says_why_a_value_is_not_defined(paths):
    stopped = paths.select(paths.stopped)
    margin = torch.full((len(stopped.states),), -1.0)
    metrics = {f"test/{name}": value for name, value in measured(margin, stopped).items()}
    text = _table(metrics, "test", "", {})
    assert "–  (none was censored)" in text
    assert "–  (nothing was caught)" in text


def test_fit_on_few_paths_warns(tmp_path):
    from datamodules import ChangePointData

    with pytest.warns(UserWarning, match="only 7 stopped paths to train on"):
        ChangePointData(problem="CP1", paths=10, test_paths=2).setup("fit")


def test_fit_ends_in_sentences_and_next_steps(run_train, capsys):
    run_train("fit", "--trainer.max_epochs=1")
    shown = capsys.readouterr().out
    assert "paths the rule had not seen" in shown or "these 10 paths" in shown
    assert "lit-ios fit my.csv" in shown
    assert "Only 10 stopped paths among the test paths" in shown


def test_table_shows_intervals_beside_their_values():
    metrics = {"test/event_miss_rate": 0.1, "test/balanced_accuracy": 0.9}
    text = _table(metrics, "test", "", {"event_miss_rate": (0.0333, 0.218)})
    assert "0.1000  [0.0333, 0.218]" in text


def test_intervals_are_the_exact_ones_of_the_test_paths():
    metrics = {
        "test/paths": 50.0, "test/stopped_paths": 30.0,
        "test/event_miss_rate": 0.1, "test/false_alarm_rate": 0.25,
        "test/stopped_at_first_row": 0.04, "test/time_to_event_mean": 2.0,
        "test/time_to_event_error": 0.1,
    }  # fmt: skip
    found = _intervals(metrics, "test")
    for name, k, n in (
        ("event_miss_rate", 3, 30), ("false_alarm_rate", 5, 20), ("stopped_at_first_row", 2, 50),
    ):  # fmt: skip
        exact = stats.binomtest(k, n).proportion_ci(0.95, "exact")
        assert found[name] == pytest.approx((exact.low, exact.high))
    assert found["time_to_event_mean"] == pytest.approx(stats.t(26, 2.0, 0.1).interval(0.95))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.0000"), (1.643e-4, "0.000164"), (0.5, "0.5000"), (2e-9, "2e-09")]
)
def test_small_rates_keep_their_digits(value, text):
    assert _number(value).strip() == text
