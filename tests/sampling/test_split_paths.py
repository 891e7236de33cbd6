"""Splits by path: what goes where, and what is refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_ios.sampling import split_paths
from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet


@cache
def named_paths(count: int) -> TrajectorySet:
    """Return paths of uneven length whose states tell them apart; every third is censored."""
    return TrajectorySet.from_paths(
        Trajectory(
            np.array([[i, t] for t in range(1 + i % 4)], dtype=float),
            times=10.0 * i + 0.5 * np.arange(1 + i % 4),
            stopped=i % 3 > 0,
            name=f"engine-{i}",
        )
        for i in range(count)
    )


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


SHARES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=6)


@pytest.mark.parametrize("shares", [(1,), (0.7, 0.3), (0.5, 0.2, 0.3), (1, 1, 1, 1)])
@pytest.mark.parametrize("count", [4, 5, 37, 175])
@pytest.mark.parametrize("seed", range(3))
def test_split_puts_every_path_into_exactly_one_set(
    shares: tuple[float, ...], count: int, seed: int
) -> None:
    paths = named_paths(count)
    sets = split_paths(paths, shares, generator(seed))
    assert sorted(name for part in sets for name in part.names) == sorted(paths.names)


@pytest.mark.parametrize("shares", [(1,), (0.7, 0.3), (0.5, 0.2, 0.3)])
def test_split_makes_as_many_sets_as_shares(shares: tuple[float, ...]) -> None:
    assert len(split_paths(named_paths(30), shares, generator())) == len(shares)


@given(SHARES, st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_split_gives_every_set_at_least_one_path(shares: list[float], more: int) -> None:
    sets = split_paths(named_paths(len(shares) + more), shares, generator())
    assert min(len(part) for part in sets) >= 1


def test_split_gives_a_share_that_rounds_to_nothing_between_others_a_path() -> None:
    sets = split_paths(named_paths(4), (2, 1, 2), generator())  # 1.6, 0.8 and 1.6 paths
    assert min(len(part) for part in sets) >= 1


@pytest.mark.parametrize("shares", [(0.7, 0.3), (7, 3), (0.5, 0.2, 0.3), (1, 1, 1, 1), (1,)])
@pytest.mark.parametrize("count", [40, 101, 175])
def test_split_respects_the_shares_to_within_one_path(
    shares: tuple[float, ...], count: int
) -> None:
    sizes = [len(part) for part in split_paths(named_paths(count), shares, generator())]
    exact = [count * share / sum(shares) for share in shares]
    assert max(abs(size - wanted) for size, wanted in zip(sizes, exact, strict=True)) <= 1


def test_split_takes_shares_relative_to_their_sum() -> None:
    one = split_paths(named_paths(50), (0.7, 0.3), generator())
    other = split_paths(named_paths(50), (14, 6), generator())
    assert [part.names for part in one] == [part.names for part in other]


def test_split_leaves_the_paths_as_they_are() -> None:
    paths = named_paths(30)
    known = {path.name: path for path in paths}
    for part in split_paths(paths, (0.5, 0.5), generator()):
        for path in part:
            assert np.array_equal(path.states, known[path.name].states)
            assert np.array_equal(path.times, known[path.name].times)
            assert path.stopped == known[path.name].stopped


def test_split_of_one_generator_state_is_always_the_same() -> None:
    first, again = (split_paths(named_paths(60), (0.7, 0.3), generator(5)) for _ in range(2))
    assert [part.names for part in first] == [part.names for part in again]


def test_split_differs_between_seeds() -> None:
    deals = {
        split_paths(named_paths(60), (0.7, 0.3), generator(seed))[1].names for seed in range(5)
    }
    assert len(deals) == 5


def test_split_puts_each_path_into_the_second_set_as_often_as_its_share_says() -> None:
    paths, deals = named_paths(10), 1000
    counts = dict.fromkeys(paths.names, 0)
    for seed in range(deals):
        for name in split_paths(paths, (0.7, 0.3), generator(seed))[1].names:
            counts[name] += 1
    deviation = 5 * np.sqrt(0.3 * 0.7 / deals)  # five standard errors of a share
    assert all(abs(count / deals - 0.3) < deviation for count in counts.values())


@pytest.mark.parametrize("shares", [(), (0.7, 0.0), (1.0, -0.1), (0.5, float("nan"))])
def test_split_refuses_shares_that_are_not_positive_and_shows_them(
    shares: tuple[float, ...],
) -> None:
    with pytest.raises(ValueError, match="shares"):
        split_paths(named_paths(5), shares, generator())


def test_split_refuses_fewer_paths_than_sets_and_says_how_many() -> None:
    with pytest.raises(TrajectoryError, match=r"2 paths.*3 sets"):
        split_paths(named_paths(2), (1, 1, 1), generator())


@given(
    stopped=st.lists(st.booleans(), min_size=3, max_size=60),
    share=st.floats(0.1, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_split_deals_out_stops_by_the_shares_too(stopped, share, seed) -> None:
    paths = TrajectorySet.from_paths(Trajectory(np.zeros((1, 1)), stopped=flag) for flag in stopped)
    first, second = split_paths(paths, (share, 1 - share), generator(seed))
    stops = sum(stopped)
    if stops >= 2 and len(stopped) - stops >= 2:
        assert first.stopped.any()
        assert second.stopped.any()
    assert abs(first.stopped.sum() - share * stops) <= 2
    assert first.stopped.sum() + second.stopped.sum() == stops
