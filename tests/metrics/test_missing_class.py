"""A class that is absent gives NaN and one warning, never a silent 0 or 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from path_loop import Path, path_batch
from torch import Tensor
from torchmetrics import Metric

from lit_ios.metrics import (
    AlarmsPerTime,
    BalancedAccuracy,
    EventFrontier,
    EventMissRate,
    FalseAlarmRate,
    GridBalancedAccuracy,
    GridIoU,
    MissingClassWarning,
    RegionBalancedAccuracy,
    TimeToEvent,
)

Inputs = tuple[Tensor, object]

NO_STOP = path_batch([Path([-1, 1, -1], [0, 1, 2], False), Path([-1], [0], False)])
NO_CONTINUE = path_batch([Path([1], [0], True), Path([-1], [3], True)])
NO_PATH = path_batch([])
TRUE_TWICE, FALSE_TWICE = torch.tensor([True, True]), torch.tensor([False, False])
MIXED = torch.tensor([True, False])
NO_POINT = torch.empty(0, dtype=torch.bool)

CASES: dict[str, tuple[Callable[[], Metric], Inputs]] = {
    "M1-no-stop": (BalancedAccuracy, NO_STOP),
    "M1-no-continue": (BalancedAccuracy, NO_CONTINUE),
    "M1-no-path": (BalancedAccuracy, NO_PATH),
    "M2-no-stop": (RegionBalancedAccuracy, NO_STOP),
    "M2-no-continue": (RegionBalancedAccuracy, NO_CONTINUE),
    "M2-no-path": (RegionBalancedAccuracy, NO_PATH),
    "M3-no-stop": (EventMissRate, NO_STOP),
    "M3-no-path": (EventMissRate, NO_PATH),
    "M4-no-stop": (TimeToEvent, NO_STOP),
    "M5-no-stop": (EventFrontier, NO_STOP),
    "M7-no-censored": (FalseAlarmRate, NO_CONTINUE),
    "M7-no-time": (AlarmsPerTime, NO_CONTINUE),
    "M7-no-path": (AlarmsPerTime, NO_PATH),
    "M6-no-inside": (GridBalancedAccuracy, (MIXED, FALSE_TWICE)),
    "M6-no-outside": (GridBalancedAccuracy, (MIXED, TRUE_TWICE)),
    "M6-right-without-inside": (GridBalancedAccuracy, (FALSE_TWICE, FALSE_TWICE)),
    "M6-no-point": (GridBalancedAccuracy, (NO_POINT, NO_POINT)),
    "M6-iou-no-region": (GridIoU, (FALSE_TWICE, FALSE_TWICE)),
    "M6-iou-no-point": (GridIoU, (NO_POINT, NO_POINT)),
}

missing_class = pytest.mark.parametrize(("make", "inputs"), CASES.values(), ids=CASES)


def warnings_of(metric: Metric, inputs: Inputs, epochs: int = 1) -> list[str]:
    """Return what the metric says of missing classes, over some epochs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(epochs):
            metric.reset()
            metric.update(*inputs)
            metric.update(*inputs)
            metric.compute()
    return [str(w.message) for w in caught if issubclass(w.category, MissingClassWarning)]


@pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")
@missing_class
def test_missing_class_makes_the_metric_nan(make: Callable[[], Metric], inputs: Inputs) -> None:
    metric = make()
    metric.update(*inputs)
    assert math.isnan(metric.compute())


@missing_class
def test_missing_class_is_warned_of_once(make: Callable[[], Metric], inputs: Inputs) -> None:
    assert len(warnings_of(make(), inputs)) == 1


@missing_class
def test_missing_class_is_warned_of_once_over_many_epochs(
    make: Callable[[], Metric], inputs: Inputs
) -> None:
    assert len(warnings_of(make(), inputs, epochs=4)) == 1


def test_missing_class_is_warned_of_by_each_metric_object() -> None:
    said = [warnings_of(BalancedAccuracy(), NO_STOP) for _ in range(3)]
    assert [len(messages) for messages in said] == [1, 1, 1]


@pytest.mark.parametrize(
    ("inputs", "what"), [(NO_STOP, "stopped paths"), (NO_CONTINUE, "continue rows")]
)
def test_missing_class_warning_names_metric_and_class(inputs: Inputs, what: str) -> None:
    (message,) = warnings_of(BalancedAccuracy(), inputs)
    assert "BalancedAccuracy" in message
    assert what in message


@pytest.mark.filterwarnings("ignore::lit_ios.metrics.MissingClassWarning")
@pytest.mark.parametrize("make", [BalancedAccuracy, RegionBalancedAccuracy])
def test_missing_class_is_forgotten_once_it_turns_up(make: Callable[[], Metric]) -> None:
    metric = make()
    metric.update(*NO_STOP)
    metric.compute()
    metric.update(*path_batch([Path([-1, 1], [0, 1], True)]))
    # caught 1 of 1; continue rows: 1 of 3 and 1 of 1 before, then 1 of 1 (M1); M2: 2 of 3, …
    right = 3 if make is BalancedAccuracy else 4
    assert metric.compute().item() == pytest.approx((1 + right / 5) / 2)
