"""M1–M4 and M7 against a loop over paths and rows, in one batch and in several uneven ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from path_loop import (
    QUARTERS,
    Loop,
    Path,
    loop,
    path_batch,
    path_lists,
    path_set,
    random_paths,
    uneven_batches,
)
from sklearn.metrics import balanced_accuracy_score
from torchmetrics import Metric

from datamodules.loaders import PathLoader
from lit_ios.functional.outcomes import measure, outcome
from lit_ios.metrics import (
    AlarmsPerTime,
    BalancedAccuracy,
    EventMissRate,
    FalseAlarmRate,
    MissingClassWarning,
    PathCount,
    RegionBalancedAccuracy,
    StoppedAtOnce,
    TimeToEvent,
    path_metrics,
)

pytestmark = pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")

NAMES = (
    "balanced_accuracy",
    "region_balanced_accuracy",
    "event_miss_rate",
    "time_to_event_mean",
    "time_to_event_median",
    "time_to_event_q25",
    "time_to_event_q75",
    "time_to_event_error",
    "false_alarm_rate",
    "alarms_per_time",
    "stopped_at_first_row",
    "paths",
    "stopped_paths",
)
OF_EVENTS = NAMES[2:8]
TIMES = NAMES[3:7]  # of a single path, too
METRICS: dict[str, Callable[[], Metric]] = {
    "balanced_accuracy": BalancedAccuracy,
    "region_balanced_accuracy": RegionBalancedAccuracy,
    "event_miss_rate": EventMissRate,
    "false_alarm_rate": FalseAlarmRate,
    "alarms_per_time": AlarmsPerTime,
    "stopped_at_first_row": StoppedAtOnce,
    "paths": PathCount,
    "stopped_paths": lambda: PathCount(stopped=True),
    "time_to_event_mean": TimeToEvent,
    "time_to_event_error": lambda: TimeToEvent("error"),
    "time_to_event_median": lambda: TimeToEvent(0.5),
    "time_to_event_q25": lambda: TimeToEvent(0.25),
    "time_to_event_q75": lambda: TimeToEvent(0.75),
}

# One early stop, one stop in time, one missed, one censored path with an alarm, one without.
EXAMPLE = [
    Path([-1, 2, -1, -1], [0, 3, 4, 10], True),
    Path([-1, -2, 1], [5, 6, 8], True),
    Path([-1, -1], [0, 0.5], True),
    Path([-1, -1, 1, -1], [0, 1, 2, 3], False),
    Path([-3, -1], [0, 1], False),
]


def by_loop(found: Loop, name: str) -> float:
    left = found.times_to_event
    if not name.startswith("time_to_event"):
        return getattr(found, name)
    if not left:
        return math.nan
    if name.endswith("error"):
        return np.std(left, ddof=1) / math.sqrt(len(left)) if len(left) > 1 else math.nan
    quantiles = {"median": 0.5, "q25": 0.25, "q75": 0.75}
    kind = name.removeprefix("time_to_event_")
    return np.mean(left) if kind == "mean" else np.quantile(left, quantiles[kind])


def by_metric(name: str, batches: Iterable[Sequence[Path]], threshold: float = 0.0) -> float:
    metric = METRICS[name]()
    for paths in batches:
        margin, rows = path_batch(paths)
        metric.update(margin, rows, threshold)
    return metric.compute().item()


@pytest.mark.parametrize("name", NAMES)
@given(paths=path_lists(), threshold=QUARTERS)
@settings(max_examples=25, deadline=None)
def test_metric_equals_the_loop_in_one_batch(
    name: str, paths: list[Path], threshold: float
) -> None:
    expected = by_loop(loop(paths, threshold), name)
    assert by_metric(name, [paths], threshold) == pytest.approx(expected, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", NAMES)
@given(batches=uneven_batches(), threshold=QUARTERS)
@settings(max_examples=25, deadline=None)
def test_metric_equals_the_loop_in_uneven_batches_with_empty_ones(
    name: str, batches: list[list[Path]], threshold: float
) -> None:
    expected = by_loop(loop([path for paths in batches for path in paths], threshold), name)
    assert by_metric(name, batches, threshold) == pytest.approx(expected, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows_per_batch", [1, 50, 10_000])
def test_metric_equals_the_loop_through_the_path_loader(name: str, rows_per_batch: int) -> None:
    for seed in range(4):
        paths = random_paths(seed)
        metric = METRICS[name]()
        for rows in PathLoader(path_set(paths), rows_per_batch=rows_per_batch):
            metric.update(rows.columns[:, 0], rows)
        expected = by_loop(loop(paths), name)
        assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_metric_takes_the_threshold_as_a_tensor(name: str) -> None:
    paths = random_paths(1)
    margin, rows = path_batch(paths)
    metric = METRICS[name]()
    metric.update(margin, rows, torch.tensor(-0.75))
    assert metric.compute().item() == pytest.approx(by_loop(loop(paths, -0.75), name), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_metric_stops_at_margin_zero_by_default(name: str) -> None:
    caught = [Path([-1, 0, -1], [0, 1, 3], True), EXAMPLE[0]]
    paths = [*caught, Path([-1, -0.5], [0, 1], True), EXAMPLE[3]]
    margin, rows = path_batch(paths)
    metric = METRICS[name]()
    metric.update(margin, rows)
    assert metric.compute().item() == pytest.approx(by_loop(loop(paths, 0.0), name))


@pytest.mark.parametrize("name", NAMES)
def test_metric_forgets_at_reset(name: str) -> None:
    metric = METRICS[name]()
    for paths in (random_paths(2), random_paths(3)):
        metric.reset()
        margin, rows = path_batch(paths)
        metric.update(margin, rows)
    expected = by_loop(loop(random_paths(3)), name)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_metric_goes_on_counting_after_compute(name: str) -> None:
    metric = METRICS[name]()
    for paths in (random_paths(2), random_paths(3)):
        margin, rows = path_batch(paths)
        metric.update(margin, rows)
        metric.compute()
    expected = by_loop(loop(random_paths(2) + random_paths(3)), name)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


def test_outcome_says_when_each_path_is_stopped() -> None:
    margin, rows = path_batch(EXAMPLE)
    stop_step = outcome(margin, rows).stop_step.tolist()
    assert stop_step[:2] == [1, 2]
    assert stop_step[3] == 2
    assert min(stop_step[2], stop_step[4]) > max(rows.step.tolist())


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("balanced_accuracy", "balanced_accuracy"),
        ("event_miss_rate", "event_miss_rate"),
        ("time_to_event", "time_to_event_mean"),
        ("false_alarm_rate", "false_alarm_rate"),
    ],
)
@given(paths=path_lists(), threshold=QUARTERS)
@settings(max_examples=25, deadline=None)
def test_measured_value_equals_the_loop(
    field: str, name: str, paths: list[Path], threshold: float
) -> None:
    found = getattr(measure(*path_batch(paths), threshold), field)
    expected = by_loop(loop(paths, threshold), name)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True)


def test_measured_counts_are_those_of_the_example() -> None:
    found = measure(*path_batch([*EXAMPLE, Path([1, -1], [0, 1], True)]), 0.0)
    assert found.censored == 2
    assert found.stopped_at_first_row == pytest.approx(1 / 6)


def test_measured_values_leave_out_events_of_censored_paths() -> None:
    margin, rows = path_batch(EXAMPLE)
    known = rows._replace(event_time=torch.tensor([10.0, 8.0, 0.5, 50.0, 60.0]).double())
    assert measure(margin, known, 0.0) == measure(margin, rows, 0.0)


def test_outcome_knows_the_time_to_the_later_event_of_a_censored_path() -> None:
    margin, rows = path_batch(EXAMPLE)
    events = torch.tensor([10.0, 8.0, 0.5, 50.0, 60.0]).double()
    left = outcome(margin, rows._replace(event_time=events)).time_left.tolist()
    assert left == pytest.approx([10 - 3, 0, math.nan, 50 - 2, math.nan], nan_ok=True)


# M1 ---------------------------------------------------------------------------------------------


def test_balanced_accuracy_of_the_example_is_as_counted_by_hand() -> None:
    # caught 2 of 3; continue rows passed: 1 of 3, 2 of 2, 1 of 1, 2 of 4, 2 of 2
    expected = (2 / 3 + 8 / 12) / 2
    assert by_metric("balanced_accuracy", [EXAMPLE]) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threshold", [-1.5, 0.0, 0.5])
def test_balanced_accuracy_equals_scikit_learn_on_rows_from_the_first_stop_on(
    seed: int, threshold: float
) -> None:
    paths = random_paths(seed)
    found = loop(paths, threshold)
    expected = balanced_accuracy_score(found.row_is_stop, found.row_is_late)
    assert by_metric("balanced_accuracy", [paths], threshold) == pytest.approx(expected)


@given(path_lists(censored=False), QUARTERS)
@settings(max_examples=25, deadline=None)
def test_balanced_accuracy_has_one_minus_event_miss_rate_as_true_positive_rate(
    paths: list[Path], threshold: float
) -> None:
    found = loop(paths, threshold)
    rows = zip(found.row_is_stop, found.row_is_late, strict=True)
    passed = [not late for stop, late in rows if not stop]
    if passed:  # otherwise NaN
        true_negative_rate = sum(passed) / len(passed)
        true_positive_rate = 2 * by_metric("balanced_accuracy", [paths], threshold)
        true_positive_rate -= true_negative_rate
        missed = by_metric("event_miss_rate", [paths], threshold)
        assert true_positive_rate == pytest.approx(1 - missed, abs=1e-6)


@pytest.mark.parametrize("threshold", [-math.inf, math.inf])
def test_balanced_accuracy_of_a_constant_decision_is_one_half(threshold: float) -> None:
    assert by_metric("balanced_accuracy", [random_paths(0)], threshold) == 0.5


@pytest.mark.parametrize("name", ["balanced_accuracy", "region_balanced_accuracy"])
def test_balanced_accuracy_of_the_expert_is_one(name: str) -> None:
    paths = [
        path._replace(margins=[-1.0] * (len(path.margins) - 1) + [1.0 if path.stopped else -1.0])
        for path in random_paths(4)
    ]
    assert by_metric(name, [paths]) == 1


def test_balanced_accuracy_pays_for_an_early_alarm_on_every_later_row() -> None:
    early = Path([1, -1, -1, -1, 1], [0, 1, 2, 3, 4], True)
    assert by_metric("balanced_accuracy", [[early]]) == pytest.approx((1 + 0 / 4) / 2)


def test_region_balanced_accuracy_pays_for_an_early_alarm_once() -> None:
    early = Path([1, -1, -1, -1, 1], [0, 1, 2, 3, 4], True)
    assert by_metric("region_balanced_accuracy", [[early]]) == pytest.approx((1 + 3 / 4) / 2)


def test_balanced_accuracy_counts_an_early_alarm_as_a_caught_event() -> None:
    early = Path([-1, 1, -1], [0, 1, 2], True)
    assert by_metric("balanced_accuracy", [[early]]) == pytest.approx((1 + 1 / 2) / 2)


def test_region_balanced_accuracy_does_not_count_an_early_alarm_as_a_caught_event() -> None:
    early = Path([-1, 1, -1], [0, 1, 2], True)
    assert by_metric("region_balanced_accuracy", [[early]]) == pytest.approx((0 + 1 / 2) / 2)


# M2 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threshold", [-1.5, 0.0, 0.5])
def test_region_balanced_accuracy_equals_scikit_learn_on_single_rows(
    seed: int, threshold: float
) -> None:
    paths = random_paths(seed)
    found = loop(paths, threshold)
    expected = balanced_accuracy_score(found.row_is_stop, found.row_in_region)
    assert by_metric("region_balanced_accuracy", [paths], threshold) == pytest.approx(expected)


# Censored paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_EVENTS)
@given(paths=path_lists(), threshold=QUARTERS)
@settings(max_examples=15, deadline=None)
def test_event_metric_ignores_censored_paths(
    name: str, paths: list[Path], threshold: float
) -> None:
    stopped = [path for path in paths if path.stopped]
    with_censored = by_metric(name, [paths], threshold)
    assert with_censored == pytest.approx(by_metric(name, [stopped], threshold), nan_ok=True)


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize(("censored_margin", "rows_right"), [(-1.0, 7), (1.0, 0)])
def test_balanced_accuracy_counts_every_row_of_a_censored_path_as_a_continue_row(
    name: str, censored_margin: float, rows_right: int
) -> None:
    stopped = Path([-1, -1, -1, 1], [0, 1, 2, 3], True)  # 3 continue rows, all passed; caught
    censored = Path([censored_margin] * 7, list(range(7)), False)
    expected = (1 + (3 + rows_right) / 10) / 2
    assert by_metric(name, [[stopped, censored]]) == pytest.approx(expected)


# M3 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "expected"), [(-math.inf, 0.0), (math.inf, 1.0)])
def test_event_miss_rate_of_a_constant_decision_is_zero_or_one(
    threshold: float, expected: float
) -> None:
    assert by_metric("event_miss_rate", [random_paths(0)], threshold) == expected


def test_event_miss_rate_of_the_example_is_as_counted_by_hand() -> None:
    assert by_metric("event_miss_rate", [EXAMPLE]) == pytest.approx(1 / 3)


# M4 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_time_to_event_quantile_equals_numpy(quantile: float) -> None:
    paths = random_paths(5)
    metric = TimeToEvent(quantile)
    metric.update(*path_batch(paths))
    expected = np.quantile(loop(paths).times_to_event, quantile)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


def test_time_to_event_of_the_example_is_in_the_unit_of_its_times() -> None:
    assert by_metric("time_to_event_mean", [EXAMPLE]) == pytest.approx(((10 - 3) + 0) / 2)


@pytest.mark.parametrize("name", TIMES)
def test_time_to_event_scales_with_the_unit_of_time(name: str) -> None:
    hours = random_paths(6)
    minutes = [path._replace(times=[60 * time for time in path.times]) for path in hours]
    in_hours = by_metric(name, [hours])
    assert by_metric(name, [minutes]) == pytest.approx(60 * in_hours, rel=1e-6)


def test_time_to_event_keeps_small_differences_of_large_times() -> None:
    times = [1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.75]  # seconds since 1970
    assert by_metric("time_to_event_mean", [[Path([-1, 1, -1], times, True)]]) == 0.5


@pytest.mark.parametrize("name", TIMES)
def test_time_to_event_is_zero_where_the_policy_stops_with_the_expert(name: str) -> None:
    assert by_metric(name, [[Path([-1, -1, 1], [0, 1, 9], True)]]) == 0


@pytest.mark.parametrize("name", TIMES)
def test_time_to_event_is_nan_if_nothing_was_caught(name: str) -> None:
    assert math.isnan(by_metric(name, [[Path([-1, -1], [0, 1], True)]]))


# M7 ---------------------------------------------------------------------------------------------


def test_false_alarms_of_the_example_are_as_counted_by_hand() -> None:
    # alarms: the early stop and that of a censored path; observed 10 + 3 + 0.5 + 3 + 1
    assert by_metric("false_alarm_rate", [EXAMPLE]) == pytest.approx(1 / 2)
    assert by_metric("alarms_per_time", [EXAMPLE]) == pytest.approx(2 / 17.5)


@pytest.mark.parametrize("window", [0.0, 0.5, 3.0, 40.0])
@given(batches=uneven_batches(), threshold=QUARTERS)
@settings(max_examples=15, deadline=None)
def test_alarms_per_time_leave_out_the_window_before_the_expert_stop(
    window: float, batches: list[list[Path]], threshold: float
) -> None:
    metric = AlarmsPerTime(window)
    for paths in batches:
        metric.update(*path_batch(paths), threshold)
    found = loop([path for paths in batches for path in paths], threshold, window)
    assert metric.compute().item() == pytest.approx(found.alarms_per_time, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(("threshold", "expected"), [(-math.inf, 1.0), (math.inf, 0.0)])
def test_false_alarm_rate_of_a_constant_decision_is_one_or_zero(
    threshold: float, expected: float
) -> None:
    assert by_metric("false_alarm_rate", [random_paths(0)], threshold) == expected


def test_a_stop_with_the_expert_is_no_alarm() -> None:
    assert by_metric("alarms_per_time", [[Path([-1, -1, 1], [0, 1, 9], True)]]) == 0


def test_alarms_per_time_keep_small_differences_of_large_times() -> None:
    times = [1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.75]  # seconds since 1970
    assert by_metric("alarms_per_time", [[Path([-1, 1, -1], times, True)]]) == pytest.approx(4 / 3)


# The collection ---------------------------------------------------------------------------------


def test_path_metrics_are_named_by_prefix_and_metric() -> None:
    assert set(path_metrics("val/").keys()) == {f"val/{name}" for name in NAMES}


def test_path_metrics_hold_the_frontier_when_asked() -> None:
    assert set(path_metrics("test/", frontier=True).keys()) == {
        *(f"test/{name}" for name in NAMES),
        "test/frontier_area",
    }


@pytest.mark.parametrize("name", NAMES)
def test_path_metrics_equal_the_loop_in_every_epoch(name: str) -> None:
    collection = path_metrics("val/")
    for epoch in range(3):
        paths = random_paths(10 + epoch)
        for part in (paths[:7], [], paths[7:]):
            collection.update(*path_batch(part), 0.25)
        value = collection.compute()[f"val/{name}"].item()
        collection.reset()
        assert value == pytest.approx(by_loop(loop(paths, 0.25), name), rel=1e-6)


def test_path_metrics_warn_of_nothing_when_both_classes_are_there() -> None:
    collection = path_metrics("val/", frontier=True)
    collection.update(*path_batch(EXAMPLE))
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingClassWarning)
        collection.compute()
