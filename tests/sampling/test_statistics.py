"""Statistics of training rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lit_ios.sampling import fit_statistics


@pytest.fixture
def states() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal([0.0, 100.0, -3e5], [1.0, 0.01, 2e4], (200, 3))


def test_statistics_equal_a_loop_over_columns(states: np.ndarray) -> None:
    found = fit_statistics(states)
    for column in range(3):
        values = states[:, column].tolist()
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
        assert found.mean[column] == pytest.approx(mean, rel=1e-12, abs=1e-12)
        assert found.scale[column] == pytest.approx(deviation, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e8 + 0.1, -1e-9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 333, 300_000])
def test_constant_column_has_an_infinite_scale(value: float, dtype: type, rows: int) -> None:
    assert fit_statistics(np.full((rows, 1), value, dtype=dtype)).scale.tolist() == [np.inf]


def test_column_that_is_constant_in_each_process_but_not_in_all_is_scaled() -> None:
    one, other = np.full((4, 1), 2.0), np.full((4, 1), 6.0)

    def gather(value: Any) -> list[Any]:
        """Return what both would say; the second one has the same with 6 for 2."""
        if np.ndim(value) == 0:
            return [value, value]
        return [value, {2.0: [6.0], 8.0: [24.0]}.get(float(value[0]), value)]

    found = fit_statistics(one, gather=gather)
    both = np.concatenate([one, other])
    assert found.mean.tolist() == both.mean(0).tolist()
    assert found.scale.tolist() == both.std(0).tolist()


@pytest.mark.parametrize("deviation", [1e-6, 1e-3])
def test_statistics_do_not_take_a_small_variation_for_a_constant(deviation: float) -> None:
    values = 5.0 + deviation * np.random.default_rng(0).standard_normal((100, 1))
    assert fit_statistics(values).scale[0] == pytest.approx(values.std(), rel=1e-6)


def test_statistics_of_float32_rows_are_summed_in_float64() -> None:
    values = (1e4 + np.random.default_rng(0).random((50_000, 1))).astype(np.float32)
    found = fit_statistics(values)
    exact = values.astype(np.float64)
    assert found.mean[0] == pytest.approx(exact.mean(), rel=1e-12)
    assert found.scale[0] == pytest.approx(exact.std(), rel=1e-9)
