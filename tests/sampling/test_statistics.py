"""Statistics of training rows."""

from __future__ import annotations

import math
from fractions import Fraction
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


@pytest.mark.parametrize("power", [-300, -200, -30, -13, 0, 30, 160, 200, 307])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_statistics_are_right_at_every_magnitude(power: int, offset: float) -> None:
    """Mean and deviation are those of exact fractions."""
    values = (np.random.default_rng(5).uniform(-1, 1, 50) + offset) * 10.0**power
    found = fit_statistics(np.stack([values, np.arange(50.0)], axis=1))
    exact = [Fraction(value) for value in values.tolist()]
    mean = sum(exact) / 50
    variance = sum((value - mean) ** 2 for value in exact) / 50
    unit = Fraction(10) ** power
    assert found.mean[0] / 10.0**power == pytest.approx(float(mean / unit), rel=1e-12, abs=1e-15)
    assert found.scale[0] / 10.0**power == pytest.approx(
        math.sqrt(float(variance / unit**2)), rel=1e-12
    )
    assert found.mean[1] == 24.5
    assert found.scale[1] == np.arange(50.0).std()


@pytest.mark.parametrize("power", [-300, -30, 0, 30, 200])
def test_power_of_two_scales_the_statistics_and_nothing_else(power: int) -> None:
    states = np.random.default_rng(6).normal(3, 2, (1000, 3))
    plain, scaled = fit_statistics(states), fit_statistics(np.ldexp(states, power))
    assert np.array_equal(np.ldexp(plain.mean, power), scaled.mean)
    assert np.array_equal(np.ldexp(plain.scale, power), scaled.scale)


@pytest.mark.parametrize("power", [-250, 0, 250])
@pytest.mark.parametrize("columns", [1, 4])
def test_rounding_alone_does_not_make_a_column_vary(power: int, columns: int) -> None:
    """0.3 is 0.1 + 0.2, 0.1 + 0.1 + 0.1, 3 · 0.1 … and each of them another number."""
    ways = [0.3, 0.1 + 0.2, 0.1 + 0.1 + 0.1, 3 * 0.1, 0.9 / 3, 1 - 0.7, 0.15 + 0.15]
    values = np.resize(ways, (100_000, columns)) * 10.0**power
    assert len(np.unique(values)) > 1
    assert np.isinf(fit_statistics(values).scale).all()


def test_smallest_numbers_have_a_scale_to_divide_by() -> None:
    found = fit_statistics(np.array([[0.0], [5e-324], [1e-323]]))
    assert np.isfinite(1 / found.scale).all()
