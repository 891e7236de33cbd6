"""Training paths are recognised, whatever was done to them; others are not."""

from dataclasses import replace

import numpy as np
import pytest

from lit_ios.recognition import fingerprints, join_fingerprints, recognised, row_hashes
from lit_ios.trajectories import Trajectory, TrajectorySet


def make(seed, number=30, discrete=0):
    """Return paths that all start in the same state, of normal or of a few different numbers."""
    rng = np.random.default_rng(seed)
    paths = []
    for i in range(number):
        states = rng.normal(size=(rng.integers(4, 40), 2)).cumsum(0)
        if discrete:
            states = rng.integers(discrete, size=states.shape).astype(float)
        states[0] = 0
        paths.append(Trajectory(states, name=f"p{seed}-{i}"))
    return TrajectorySet.from_paths(paths)


def cut(paths, first=0, last=0, renamed=True):
    return TrajectorySet.from_paths([
        Trajectory(path.states[first : len(path) - last], name="x" * renamed + path.name)
        for path in paths
    ])  # fmt: skip


TRAINED = make(0)
KNOWN = fingerprints(TRAINED)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (1, 0), (0, 1), (2, 1)])
@pytest.mark.parametrize("renamed", [False, True])
def test_renamed_and_cut_paths_are_recognised(first, last, renamed):
    paths = cut(TRAINED, first, last, renamed)
    if (first, last) == (2, 1):
        paths = paths.select(paths.lengths >= 10)  # of a path of four rows too little is left
    assert recognised(paths, KNOWN) == list(paths.names)


def test_single_precision_and_minus_zero_make_no_difference():
    assert recognised(TRAINED.with_states(TRAINED.states.astype(np.float32)), KNOWN)
    values = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    found = row_hashes(values)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("kept", [0.5, 0.7])
def test_the_last_part_of_a_long_path_is_recognised(kept):
    long = TRAINED.select(TRAINED.lengths >= 20)
    parts = TrajectorySet.from_paths(
        [Trajectory(p.states[-int(kept * len(p)) :], name=f"part of {p.name}") for p in long]
    )
    assert recognised(parts, KNOWN) == list(parts.names)


def rounded(kind, seed):
    """Return paths of numbers that are the same again by chance."""
    rng = np.random.default_rng(seed)
    draw = {
        "sensor": lambda n: np.round(20 + rng.normal(size=(n, 1)).cumsum(0) / 2, 1),
        "two sensors": lambda n: np.round(20 + rng.normal(size=(n, 2)).cumsum(0) / 3, 1),
        "counters": lambda n: rng.poisson(1, size=(n, 2)).cumsum(0).astype(float),
    }[kind]
    lengths = rng.integers(10, 40, size=100)
    return TrajectorySet.from_paths(
        [Trajectory(draw(n), name=f"{seed}-{i}") for i, n in enumerate(lengths)]
    )


@pytest.mark.parametrize("kind", ["sensor", "two sensors", "counters"])
def test_fresh_paths_of_rounded_numbers_are_not_recognised(kind):
    for seed in range(0, 10, 2):
        trained, fresh = rounded(kind, seed), rounded(kind, seed + 1)
        assert recognised(fresh, fingerprints(trained)) == []


@pytest.mark.parametrize("discrete", [0, 3, 10, 100])
def test_fresh_paths_are_not_recognised(discrete):
    known = fingerprints(make(0, 100, discrete))
    assert recognised(make(1, 100, discrete), known) == []


def test_paths_of_few_different_states_are_recognised_by_name_and_rows():
    trained = make(0, 50, discrete=3)
    assert recognised(trained, fingerprints(trained)) == list(trained.names)
    assert recognised(replace(trained, names=make(1, 50).names), fingerprints(trained)) == []


def test_known_paths_hidden_among_others_or_given_twice_are_named():
    mixed = make(3).followed_by(cut(TRAINED.select([4, 7])))
    mixed = mixed.followed_by(replace(cut(TRAINED.select([4])), names=("twice",)))
    assert recognised(mixed, KNOWN) == ["xp0-4", "xp0-7", "twice"]


def test_fingerprints_of_processes_add_up():
    parts = [fingerprints(TRAINED.select(np.arange(i, 30, 2))) for i in (0, 1)]
    assert recognised(cut(TRAINED), join_fingerprints(parts)) == list(cut(TRAINED).names)


def test_fingerprints_are_a_handful_of_rows_no_other_path_has():
    hashes = row_hashes(TRAINED.states)
    for i, rows in enumerate(KNOWN["rows"]):
        own = hashes[TRAINED.offsets[i] : TRAINED.offsets[i + 1]]
        others = np.delete(hashes, np.arange(TRAINED.offsets[i], TRAINED.offsets[i + 1]))
        expected = sorted(int(h) for h in set(own) - set(others))[:16]
        assert rows == expected
