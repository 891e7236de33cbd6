"""Local bootstrap: which stop rows of a batch are drawn again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imblearn.over_sampling import RandomOverSampler

from lit_ios.sampling import bootstrap_stops


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def batch(stops: int, continues: int, seed: int = 0) -> np.ndarray:
    return generator(seed).permutation(np.repeat([0, 1], [stops, continues]))


@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_bootstrap_makes_stops_and_continues_equal(stops: int, more: int, seed: int) -> None:
    actions = batch(stops, stops + more, seed)
    after = np.concatenate([actions, actions[bootstrap_stops(actions, generator(seed))]])
    assert (after == 0).sum() == (after == 1).sum()


@given(st.integers(0, 20), st.integers(0, 60), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_bootstrap_draws_stop_rows_only(stops: int, continues: int, seed: int) -> None:
    actions = batch(stops, continues, seed)
    assert (actions[bootstrap_stops(actions, generator(seed))] == 0).all()


@pytest.mark.parametrize(("stops", "continues"), [(1, 9), (6, 50), (30, 31)])
def test_bootstrap_adds_as_many_rows_as_the_random_oversampler(stops: int, continues: int) -> None:
    actions = batch(stops, continues)
    enlarged, _ = RandomOverSampler(random_state=0).fit_resample(
        np.arange(len(actions))[:, None], actions
    )
    assert len(actions) + len(bootstrap_stops(actions, generator())) == len(enlarged)


@pytest.mark.parametrize("continues", [0, 1, 50])
def test_bootstrap_leaves_a_batch_without_a_stop_as_it_is(continues: int) -> None:
    assert len(bootstrap_stops(batch(0, continues), generator())) == 0


@pytest.mark.parametrize(("stops", "continues"), [(1, 0), (5, 5), (9, 2)])
def test_bootstrap_leaves_a_batch_with_stops_enough_as_it_is(stops: int, continues: int) -> None:
    assert len(bootstrap_stops(batch(stops, continues), generator())) == 0


def test_bootstrap_leaves_an_empty_batch_as_it_is() -> None:
    assert len(bootstrap_stops(np.empty(0, dtype=np.int64), generator())) == 0


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 1.5])
def test_bootstrap_makes_the_ratio_asked_for(ratio: float) -> None:
    added = bootstrap_stops(batch(10, 100), generator(), ratio=ratio)
    assert 10 + len(added) == 100 * ratio


def test_bootstrap_draws_with_replacement() -> None:
    actions = batch(3, 100)
    drawn, counts = np.unique(bootstrap_stops(actions, generator()), return_counts=True)
    assert set(drawn) == set(np.flatnonzero(actions == 0))
    assert counts.max() > 1


def test_bootstrap_draws_every_stop_equally_often() -> None:
    actions = batch(4, 40_004)
    _, counts = np.unique(bootstrap_stops(actions, generator()), return_counts=True)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(40_000 * 0.25 * 0.75)  # five sd


def test_bootstrap_gives_integers_that_index_the_batch() -> None:
    for actions in (batch(2, 9), batch(0, 9)):
        assert bootstrap_stops(actions, generator()).dtype == np.int64


def test_bootstrap_of_one_generator_state_is_always_the_same() -> None:
    first, again = (bootstrap_stops(batch(5, 60), generator(3)) for _ in range(2))
    assert first.tolist() == again.tolist()


def test_bootstrap_differs_between_seeds() -> None:
    one, other = (bootstrap_stops(batch(5, 60), generator(seed)) for seed in (3, 4))
    assert one.tolist() != other.tolist()
