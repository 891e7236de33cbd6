"""What each member sees of the stops that local bootstrap drew for all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from lit_ios.sampling import balance_stops

STOP, CONTINUE, NEITHER = 0, 1, -1

seeds = pytest.mark.parametrize("seed", range(12))
ratios = pytest.mark.parametrize("ratio", [0.5, 1.0, 1.7])


class Case(NamedTuple):
    """Several batches of several members."""

    seen: np.ndarray  # (K, E)
    copies: np.ndarray  # (K, E)
    actions: np.ndarray  # (E,)
    bounds: np.ndarray  # (batches + 1,)

    def parts(self) -> list[tuple[int, slice]]:
        """Return every member with every batch."""
        batches = [slice(*self.bounds[i : i + 2]) for i in range(len(self.bounds) - 1)]
        return [(member, batch) for member in range(len(self.seen)) for batch in batches]


def random_case(seed: int) -> Case:
    """Return batches of which some hold few stops, and members that see few of them."""
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *rng.integers(1, 25, size=10)])
    actions = rng.choice([STOP, CONTINUE, NEITHER], p=[0.25, 0.65, 0.1], size=bounds[-1])
    seen = rng.poisson(rng.choice([0.3, 1.0, 2.0], size=(4, 1)), size=(4, bounds[-1]))
    drawn = np.where(actions == STOP, rng.poisson(2.0, size=bounds[-1]), 0)
    copies = seen * (1 + drawn) * (actions != NEITHER)
    return Case(seen.astype(np.float32), copies.astype(np.float32), actions, bounds)


def sums(weights: np.ndarray, actions: np.ndarray, batch: slice) -> tuple[float, float]:
    """Return how much stops and continues of a batch weigh."""
    stops = sum(w for w, a in zip(weights[batch], actions[batch], strict=True) if a == STOP)
    others = sum(w for w, a in zip(weights[batch], actions[batch], strict=True) if a == CONTINUE)
    return float(stops), float(others)


def is_short(case: Case, member: int, batch: slice, ratio: float) -> bool:
    """Say whether a member sees a stop of the batch, and too few of them."""
    stops, continues = sums(case.seen[member], case.actions, batch)
    return 0 < stops < ratio * continues


@seeds
@ratios
def test_stops_of_each_member_that_sees_too_few_match_its_continues(
    seed: int, ratio: float
) -> None:
    case = random_case(seed)
    found = balance_stops(*case, ratio)
    short = [part for part in case.parts() if is_short(case, *part, ratio)]
    assert len(short) > 5
    for member, batch in short:
        stops, continues = sums(found[member], case.actions, batch)
        assert stops == pytest.approx(ratio * continues, rel=1e-5)


@seeds
@ratios
def test_stops_of_a_member_that_sees_none_or_enough_weigh_what_it_sees(
    seed: int, ratio: float
) -> None:
    case = random_case(seed)
    found = balance_stops(*case, ratio)
    others = [part for part in case.parts() if not is_short(case, *part, ratio)]
    assert len(others) > 2
    for member, batch in others:
        stop = case.actions[batch] == STOP
        assert found[member, batch][stop].tolist() == case.seen[member, batch][stop].tolist()


@seeds
@ratios
def test_stops_of_a_member_weigh_in_proportion_to_their_copies(seed: int, ratio: float) -> None:
    case = random_case(seed)
    found = balance_stops(*case, ratio)
    for member, batch in case.parts():
        if is_short(case, member, batch, ratio):
            stop = case.actions[batch] == STOP
            weights, copies = found[member, batch][stop], case.copies[member, batch][stop]
            np.testing.assert_allclose(weights / weights.sum(), copies / copies.sum(), rtol=1e-5)


@seeds
@ratios
def test_rows_that_are_no_stops_keep_their_copies(seed: int, ratio: float) -> None:
    case = random_case(seed)
    found = balance_stops(*case, ratio)
    others = case.actions != STOP
    assert np.array_equal(found[:, others], case.copies[:, others])


@seeds
def test_ratio_is_one_by_default(seed: int) -> None:
    case = random_case(seed)
    assert np.array_equal(balance_stops(*case), balance_stops(*case, 1.0))


@seeds
def test_weights_are_finite_and_float32(seed: int) -> None:
    found = balance_stops(*random_case(seed))
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


@seeds
def test_balancing_leaves_its_input_unchanged(seed: int) -> None:
    case, before = random_case(seed), random_case(seed)
    balance_stops(*case)
    assert all(np.array_equal(*pair) for pair in zip(case, before, strict=True))
