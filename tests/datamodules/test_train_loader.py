"""What an epoch of training batches holds, against a loop over the paths' rows.

Every row has a number of its own as first coordinate, so a batch tells which rows it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from datamodules.loaders import TrainLoader
from lit_ios.batches import TrainBatch
from lit_ios.trajectories import Trajectory, TrajectorySet

torch.set_num_threads(1)

LENGTHS = (6, 1, 3, 9, 1, 4, 12, 2, 7, 5)
CENSORED = (2, 4, 5, 9)  # path 4 has one row only: no transition at all

both_ways = pytest.mark.parametrize("batch_by", ["rows", "paths"])
with_synthetic = pytest.mark.parametrize("synthetic", [0, 17])


class Row(NamedTuple):
    """A transition as the loop finds it."""

    action: int
    next_number: float  # 0 for the cemetery
    step: int
    synthetic: bool = False


def numbered_paths() -> TrajectorySet:
    """Return paths whose states are (number, −number / 2), numbers from 1."""
    numbers = count(1)
    return TrajectorySet.from_paths(
        Trajectory(
            np.array([[n, -n / 2] for n in islice(numbers, length)]),
            stopped=i not in CENSORED,
        )
        for i, length in enumerate(LENGTHS)
    )


def numbered_synthetic(rows: int) -> np.ndarray | None:
    """Return synthetic states numbered from −1 down; None for none."""
    numbers = -np.arange(1, rows + 1, dtype=np.float32)
    return np.stack([numbers, -numbers / 2], axis=1) if rows else None


class CopyingLoader(TrainLoader):
    """Holds each row as often as it counts, instead of its number of copies."""

    def __iter__(self) -> Iterator[TrainBatch]:
        return map(with_copies, super().__iter__())


def with_copies(batch: TrainBatch) -> TrainBatch:
    rows = torch.arange(len(batch.state)).repeat_interleave(batch.copies.long())
    return TrainBatch(*(column[rows] for column in batch[:6]))


def make(
    batch_by: str = "rows", synthetic: int = 0, cls: type = CopyingLoader, **options: Any
) -> TrainLoader:
    options = {"batch_size": 12, **options}
    return cls(numbered_paths(), numbered_synthetic(synthetic), batch_by=batch_by, **options)


def transitions(synthetic: int = 0) -> dict[float, Row]:
    """Return every transition by the number of its row."""
    found = {}
    for path in numbered_paths():
        numbers = path.states[:, 0].tolist()
        for t in range(len(numbers) - 1):
            found[numbers[t]] = Row(1, numbers[t + 1], t)
        if path.stopped:
            found[numbers[-1]] = Row(0, 0.0, len(numbers) - 1)
    made = {-float(n): Row(0, 0.0, 0, True) for n in range(1, synthetic + 1)}
    return found | made


def numbers(batch: TrainBatch) -> list[float]:
    return batch.state[:, 0].tolist()


def numbers_of(loader: TrainLoader) -> list[float]:
    return [number for batch in loader for number in numbers(batch)]


# Both ways --------------------------------------------------------------------------------------


@both_ways
@with_synthetic
@pytest.mark.parametrize("batch_size", [1, 5, 12, 1000])
@pytest.mark.parametrize("epoch", [0, 3])
def test_epoch_holds_every_transition_once(
    batch_by: str, synthetic: int, batch_size: int, epoch: int
) -> None:
    loader = make(batch_by, synthetic, batch_size=batch_size)
    loader.set_epoch(epoch)
    assert sorted(numbers_of(loader)) == sorted(transitions(synthetic))


@both_ways
def test_last_rows_of_censored_paths_are_no_transitions(batch_by: str) -> None:
    paths = numbered_paths()
    ends = paths.states[paths.last_rows[~paths.stopped], 0]
    assert len(ends) == len(CENSORED)
    assert set(numbers_of(make(batch_by))).isdisjoint(ends)


@both_ways
@with_synthetic
def test_action_is_zero_at_stops_and_one_elsewhere(batch_by: str, synthetic: int) -> None:
    expected = transitions(synthetic)
    for batch in make(batch_by, synthetic):
        assert batch.action.tolist() == [expected[n].action for n in numbers(batch)]


@both_ways
@with_synthetic
def test_next_state_is_the_next_row_of_the_path_and_zero_after_a_stop(
    batch_by: str, synthetic: int
) -> None:
    expected = transitions(synthetic)
    for batch in make(batch_by, synthetic):
        following = [expected[n].next_number for n in numbers(batch)]
        assert batch.next_state.tolist() == [[n, -n / 2] for n in following]


@both_ways
@with_synthetic
def test_synthetic_rows_and_no_others_are_flagged(batch_by: str, synthetic: int) -> None:
    expected = transitions(synthetic)
    for batch in make(batch_by, synthetic):
        assert batch.synthetic.tolist() == [expected[n].synthetic for n in numbers(batch)]


@both_ways
def test_step_is_the_row_of_the_path(batch_by: str) -> None:
    expected = transitions()
    for batch in make(batch_by):
        assert batch.step.tolist() == [expected[n].step for n in numbers(batch)]


@both_ways
def test_state_is_the_whole_row(batch_by: str) -> None:
    for batch in make(batch_by, 17):
        assert batch.state.tolist() == [[n, -n / 2] for n in numbers(batch)]


@both_ways
def test_batch_columns_are_float32_and_steps_integers(batch_by: str) -> None:
    for batch in make(batch_by, 17):
        columns = (batch.state, batch.action, batch.next_state, batch.synthetic)
        assert {column.dtype for column in columns} == {torch.float32}
        assert batch.step.dtype == torch.int64


@both_ways
@with_synthetic
@pytest.mark.parametrize("batch_size", [1, 5, 12, 1000])
def test_number_of_batches_is_the_length_in_every_epoch(
    batch_by: str, synthetic: int, batch_size: int
) -> None:
    loader = make(batch_by, synthetic, batch_size=batch_size)
    for epoch in range(5):
        loader.set_epoch(epoch)
        assert sum(1 for _ in loader) == len(loader)


@pytest.mark.parametrize("batch_size", [3, 10, 12, 20])
def test_batches_by_rows_differ_by_at_most_one_row(batch_size: int) -> None:
    sizes = [len(batch.state) for batch in make("rows", 17, batch_size=batch_size)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("batch_size", [2, 9, 21])
def test_batches_by_rows_have_the_size_asked_for_where_it_divides_the_rows(batch_size: int) -> None:
    rows = 126
    paths = TrajectorySet.from_paths([Trajectory(np.ones((rows, 1)))])
    sizes = [len(batch.state) for batch in TrainLoader(paths, batch_size=batch_size)]
    assert sizes == [batch_size] * (rows // batch_size)


@both_ways
def test_one_batch_is_enough_for_a_batch_size_beyond_the_rows(batch_by: str) -> None:
    assert len(make(batch_by, batch_size=1000)) == 1


@pytest.mark.parametrize("batch_size", [0, -3])
def test_batch_size_below_one_is_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match=rf"batch_size.*{batch_size}"):
        make(batch_size=batch_size)


# Whole paths ------------------------------------------------------------------------------------


def test_batches_by_rows_say_nothing_of_where_paths_begin() -> None:
    assert all(batch.first_row is None for batch in make("rows", cls=TrainLoader))


@with_synthetic
@pytest.mark.parametrize("batch_size", [1, 12, 1000])
@pytest.mark.parametrize("bootstrap_ratio", [None, 1.0])
def test_epoch_by_paths_holds_every_row_of_every_path_once(
    synthetic: int, batch_size: int, bootstrap_ratio: float | None
) -> None:
    loader = make(
        "paths", synthetic, TrainLoader, batch_size=batch_size, bootstrap_ratio=bootstrap_ratio
    )
    rows = [n for n in numbers_of(loader) if n > 0]
    assert sorted(rows) == list(range(1, sum(LENGTHS) + 1))


@with_synthetic
def test_paths_of_a_batch_are_whole_and_in_order_and_come_first(synthetic: int) -> None:
    whole = {path.states[0, 0]: path.states.tolist() for path in numbered_paths()}
    for batch in make("paths", synthetic, TrainLoader):
        state = batch.state.tolist()
        while state and state[0][0] > 0:
            path = whole[state[0][0]]
            assert state[: len(path)] == path
            state = state[len(path) :]
        assert all(number < 0 for number, _ in state)


@with_synthetic
def test_first_row_points_to_where_the_path_begins_in_the_batch(synthetic: int) -> None:
    for batch in make("paths", synthetic, TrainLoader):
        first, current = [], 0
        for i, step in enumerate(batch.step.tolist()):
            current = i if step == 0 else current
            first.append(current)
        assert batch.first_row.tolist() == first


@with_synthetic
def test_rows_that_are_no_transitions_have_no_copies(synthetic: int) -> None:
    for batch in make("paths", synthetic, TrainLoader):
        known = transitions(synthetic)
        assert batch.copies.tolist() == [float(n in known) for n in numbers(batch)]


def test_synthetic_rows_are_dealt_out_evenly_to_the_batches_by_paths() -> None:
    counts = [int(batch.synthetic.sum()) for batch in make("paths", 17)]
    assert max(counts) - min(counts) <= 1


# Local bootstrap --------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("batch_size", [6, 12, 25])
def test_bootstrap_makes_stops_equal_continues_in_each_batch_with_a_stop(
    batch_by: str, batch_size: int
) -> None:
    seen = 0
    for epoch in range(5):
        plain = make(batch_by, batch_size=batch_size)
        drawn = make(batch_by, batch_size=batch_size, bootstrap_ratio=1.0)
        plain.set_epoch(epoch)
        drawn.set_epoch(epoch)
        for before, after in zip(plain, drawn, strict=True):
            if 0 < (before.action == 0).sum() <= (before.action == 1).sum():
                seen += 1
                assert (after.action == 0).sum() == (after.action == 1).sum()
    assert seen > 5


@both_ways
def test_bootstrap_adds_to_each_batch_only_stops_of_the_batch(batch_by: str) -> None:
    plain, drawn = make(batch_by), make(batch_by, bootstrap_ratio=1.0)
    for before, after in zip(plain, drawn, strict=True):
        added = Counter(numbers(after)) - Counter(numbers(before))
        assert not Counter(numbers(before)) - Counter(numbers(after))
        assert set(added) <= {n for n in numbers(before) if transitions()[n].action == 0}


@both_ways
def test_bootstrap_leaves_batches_without_a_stop_as_they_are(batch_by: str) -> None:
    quiet = 0
    plain = make(batch_by, batch_size=4)
    drawn = make(batch_by, batch_size=4, bootstrap_ratio=1.0)
    for before, after in zip(plain, drawn, strict=True):
        if (before.action == 1).all():
            quiet += 1
            assert numbers(after) == numbers(before)
    assert quiet > 0


@both_ways
@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_bootstrap_draws_to_the_ratio_asked_for(batch_by: str, ratio: float) -> None:
    (batch,) = make(batch_by, batch_size=1000, bootstrap_ratio=ratio)
    continues = int((batch.action == 1).sum())
    assert (batch.action == 0).sum() == round(ratio * continues)


@both_ways
def test_bootstrap_draws_differ_between_epochs(batch_by: str) -> None:
    loader = make(batch_by, batch_size=1000, bootstrap_ratio=1.0)
    counts = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        counts.append(Counter(numbers_of(loader)))
    assert counts[0] != counts[1] != counts[2]


@both_ways
def test_rows_drawn_again_are_transitions_like_their_source(batch_by: str) -> None:
    expected = transitions()
    for batch in make(batch_by, bootstrap_ratio=1.0):
        assert batch.action.tolist() == [expected[n].action for n in numbers(batch)]
        assert batch.next_state[batch.action == 0].eq(0).all()
        assert batch.synthetic.eq(0).all()


# What members see -------------------------------------------------------------------------------


def random_seen(members: int = 4) -> np.ndarray:
    """Return how often members see the paths: some not at all, some several times."""
    return np.random.default_rng(3).poisson(1.2, size=(members, len(LENGTHS))).astype(np.float32)


def loop_seen(batch: TrainBatch, seen: np.ndarray) -> list[list[float]]:
    """Look up each row's path; synthetic rows, which belong to none, are seen by all."""
    paths = numbered_paths()
    owner = dict(zip(paths.states[:, 0].tolist(), paths.path_of_row.tolist(), strict=True))
    return [[float(own[owner[n]]) if n > 0 else 1.0 for n in numbers(batch)] for own in seen]


def loop_balanced(plain: TrainBatch, seen: list[list[float]], ratio: float) -> list[list[float]]:
    """Weigh each member's stops, drawn for all, to match the continues it sees."""
    known, weights = transitions(10_000), []
    actions = [known[n].action if n in known else None for n in numbers(plain)]
    for own in seen:
        stops = sum(s for s, a in zip(own, actions, strict=True) if a == 0)
        wanted = ratio * sum(s for s, a in zip(own, actions, strict=True) if a == 1)
        copies = [s * c for s, c in zip(own, plain.copies.tolist(), strict=True)]
        drawn = sum(c for c, a in zip(copies, actions, strict=True) if a == 0)
        for i, action in enumerate(actions):
            if action == 0:
                copies[i] = copies[i] * wanted / drawn if 0 < stops < wanted else own[i]
        weights.append(copies)
    return weights


def test_batches_say_nothing_of_members_who_see_the_same() -> None:
    for batch in make(cls=TrainLoader, bootstrap_ratio=1.0):
        assert batch.seen is None
        assert batch.copies.shape == batch.action.shape


@both_ways
@with_synthetic
@pytest.mark.parametrize("bootstrap_ratio", [None, 1.0])
def test_seen_is_how_often_members_see_the_rows_path(
    batch_by: str, synthetic: int, bootstrap_ratio: float | None
) -> None:
    seen = random_seen()
    options = {"seen": seen, "bootstrap_ratio": bootstrap_ratio}
    for batch in make(batch_by, synthetic, TrainLoader, **options):
        assert batch.seen.tolist() == loop_seen(batch, seen)


@both_ways
@with_synthetic
def test_copies_of_a_member_are_how_often_it_sees_a_transition(
    batch_by: str, synthetic: int
) -> None:
    seen, known = random_seen(), transitions(synthetic)
    for batch in make(batch_by, synthetic, TrainLoader, seen=seen):
        expected = [
            [s if n in known else 0.0 for s, n in zip(own, numbers(batch), strict=True)]
            for own in loop_seen(batch, seen)
        ]
        assert batch.copies.tolist() == expected


@both_ways
@with_synthetic
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("epoch", [0, 3])
def test_copies_of_a_member_after_bootstrap_equal_the_loop(
    batch_by: str, synthetic: int, ratio: float, epoch: int
) -> None:
    seen = random_seen()
    plain = make(batch_by, synthetic, TrainLoader, bootstrap_ratio=ratio)
    loader = make(batch_by, synthetic, TrainLoader, bootstrap_ratio=ratio, seen=seen)
    plain.set_epoch(epoch)
    loader.set_epoch(epoch)
    for without, batch in zip(plain, loader, strict=True):
        assert torch.equal(without.state, batch.state)
        expected = loop_balanced(without, loop_seen(batch, seen), ratio)
        np.testing.assert_allclose(batch.copies, expected, rtol=1e-5)


@both_ways
def test_members_do_not_change_the_order_of_the_rows(batch_by: str) -> None:
    plain = make(batch_by, 17, TrainLoader)
    loader = make(batch_by, 17, TrainLoader, seen=random_seen())
    assert numbers_of(plain) == numbers_of(loader)


@both_ways
def test_weights_of_members_are_float32(batch_by: str) -> None:
    seen = random_seen().astype(np.float64)
    for batch in make(batch_by, cls=TrainLoader, seen=seen, bootstrap_ratio=1.0):
        assert batch.seen.dtype == batch.copies.dtype == torch.float32
