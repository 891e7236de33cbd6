"""M5: the exact curve against every threshold tried one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from path_loop import (
    Path,
    all_thresholds,
    operating_point,
    path_batch,
    path_lists,
    path_set,
    random_paths,
    uneven_batches,
)

from datamodules.loaders import PathLoader
from lit_ios.functional.frontier import Frontier
from lit_ios.metrics import EventFrontier, EventMissRate, TimeToEvent

pytestmark = pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")

PERFECT = [Path([-2, -1.5, 3], [0, 2, 7], True), Path([-9, 1], [1, 2], True)]
ONE_LEVEL = [Path([0, 0, 0], [0, 2, 7], True), Path([0, 0], [1, 2], True)]
# At b = 3 the first path alone is caught, 8 ahead; at b = 1 both are, 8 and 0 ahead: mean 4.
FALLING = [Path([3, 0, 0], [0, 1, 8], True), Path([0, 1], [0, 1], True)]


def metric_of(batches: Iterable[Sequence[Path]]) -> EventFrontier:
    metric = EventFrontier()
    for paths in batches:
        metric.update(*path_batch(paths))
    return metric


def point_at(curve: Frontier, threshold: float) -> tuple[float, float]:
    """Every b in (threshold[k+1], threshold[k]] gives point k."""
    k = max(k for k, level in enumerate(curve.threshold.tolist()) if level >= threshold)
    return curve.event_miss_rate[k].item(), curve.time_to_event[k].item()


def brute_force_area(paths: Sequence[Path]) -> float:
    """Average over all levels of EMR of the least mean TTE at which no more events are missed.

    EMR is a multiple of 1/events, so nothing changes between two such levels.
    """
    points = [operating_point(paths, threshold) for threshold in all_thresholds(paths)]
    events = sum(path.stopped for path in paths)
    least = []
    for missed in range(events):
        level = (missed + 0.5) / events
        least.append(min(time for rate, time in points if rate <= level))
    return sum(least) / events if events else math.nan


def assert_every_threshold_agrees(metric: EventFrontier, paths: Sequence[Path]) -> None:
    curve = metric.curve()
    for threshold in all_thresholds(paths):
        rate, time = operating_point(paths, threshold)
        found = point_at(curve, threshold)
        assert found == pytest.approx((rate, time), rel=1e-9, abs=1e-12, nan_ok=True), threshold


@given(path_lists())
@settings(max_examples=60, deadline=None)
def test_frontier_gives_the_point_of_every_threshold(paths: list[Path]) -> None:
    assert_every_threshold_agrees(metric_of([paths]), paths)


@given(uneven_batches())
@settings(max_examples=60, deadline=None)
def test_frontier_gives_the_point_of_every_threshold_in_uneven_batches(
    batches: list[list[Path]],
) -> None:
    assert_every_threshold_agrees(metric_of(batches), [path for part in batches for path in part])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rows_per_batch", [1, 60])
def test_frontier_gives_the_point_of_every_threshold_through_the_path_loader(
    seed: int, rows_per_batch: int
) -> None:
    paths = random_paths(seed, count=15, longest=12)
    metric = EventFrontier()
    for rows in PathLoader(path_set(paths), rows_per_batch=rows_per_batch):
        metric.update(rows.columns[:, 0], rows)
    assert_every_threshold_agrees(metric, paths)


@given(path_lists(censored=False))
@settings(max_examples=30, deadline=None)
def test_frontier_has_only_points_that_some_threshold_gives(paths: list[Path]) -> None:
    curve = metric_of([paths]).curve()
    for threshold, rate, time in zip(*(column.tolist() for column in curve), strict=True):
        assert (rate, time) == pytest.approx(operating_point(paths, threshold), nan_ok=True)


@given(path_lists(censored=False))
@settings(max_examples=30, deadline=None)
def test_frontier_thresholds_fall_from_infinity(paths: list[Path]) -> None:
    threshold = metric_of([paths]).curve().threshold.tolist()
    assert threshold[0] == math.inf
    assert all(high > low for high, low in pairwise(threshold))


@given(path_lists(censored=False))
@settings(max_examples=30, deadline=None)
def test_frontier_runs_from_all_events_missed_to_none(paths: list[Path]) -> None:
    rate = metric_of([paths]).curve().event_miss_rate
    assert (rate[0].item(), rate[-1].item()) == (1, 0)


@pytest.mark.parametrize("threshold", [-0.6, 0.0, 0.3])
def test_frontier_does_not_depend_on_the_threshold_used(threshold: float) -> None:
    paths = random_paths(3)
    metric = EventFrontier()
    metric.update(*path_batch(paths), threshold)
    for column, expected in zip(metric.curve(), metric_of([paths]).curve(), strict=True):
        torch.testing.assert_close(column, expected, equal_nan=True)


@given(uneven_batches())
@settings(max_examples=30, deadline=None)
def test_frontier_at_zero_is_the_event_miss_rate_and_time_to_event(
    batches: list[list[Path]],
) -> None:
    missed, left = EventMissRate(), TimeToEvent()
    for paths in batches:
        missed.update(*path_batch(paths))
        left.update(*path_batch(paths))
    expected = missed.compute().item(), left.compute().item()
    found = point_at(metric_of(batches).curve(), 0.0)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True)


@given(path_lists())
@settings(max_examples=30, deadline=None)
def test_frontier_ignores_censored_paths(paths: list[Path]) -> None:
    stopped = [path for path in paths if path.stopped]
    found, expected = metric_of([paths]).curve(), metric_of([stopped]).curve()
    for column, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(column, wanted, equal_nan=True)


@given(path_lists(censored=False))
@settings(max_examples=80, deadline=None)
def test_frontier_area_equals_the_brute_force_integral(paths: list[Path]) -> None:
    assert metric_of([paths]).compute().item() == pytest.approx(brute_force_area(paths), rel=1e-6)


def test_frontier_area_takes_the_least_time_at_which_no_more_events_are_missed() -> None:
    # at b = 1 nothing is missed and the mean time is 4, so 4 is also the least at EMR ≤ ½
    assert metric_of([FALLING]).compute().item() == pytest.approx(4)


def test_frontier_area_is_zero_for_a_policy_whose_margin_peaks_at_the_stop() -> None:
    assert metric_of([PERFECT]).compute().item() == 0


def test_frontier_area_of_a_constant_margin_is_the_mean_length_of_the_paths() -> None:
    assert metric_of([ONE_LEVEL]).compute().item() == pytest.approx((7 + 1) / 2)


@pytest.mark.parametrize("seed", range(3))
def test_frontier_area_is_the_same_in_one_batch_and_in_many(seed: int) -> None:
    paths = random_paths(seed)
    many = metric_of([paths[:1], [], paths[1:20], paths[20:]]).compute().item()
    assert many == pytest.approx(metric_of([paths]).compute().item(), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_frontier_area_does_not_change_when_the_margin_is_stretched(seed: int) -> None:
    paths = random_paths(seed)
    stretched = [path._replace(margins=[2 * m + 1 for m in path.margins]) for path in paths]
    expected = metric_of([paths]).compute().item()
    assert metric_of([stretched]).compute().item() == pytest.approx(expected, rel=1e-6)


def test_frontier_of_an_example_is_as_found_by_hand() -> None:
    curve = metric_of([FALLING]).curve()
    assert curve.threshold.tolist() == [math.inf, 3, 1, 0]
    assert curve.event_miss_rate.tolist() == [1, 0.5, 0, 0]
    assert curve.time_to_event.tolist()[1:] == [8, 4, 4.5]


def test_frontier_crosses_equal_margins_of_several_paths_together() -> None:
    curve = metric_of([ONE_LEVEL]).curve()
    assert curve.threshold.tolist() == [math.inf, 0]
