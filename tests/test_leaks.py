"""Features that give the stop away are named; honest ones are not."""

import time
from dataclasses import replace

import numpy as np
import pytest

from datamodules import ChangePointData, FatigueData, GainStoppingData
from lit_ios.checks import UserError
from lit_ios.leaks import Leak, find_leaks, refuse_leaks, static_names
from lit_ios.trajectories import Trajectory, TrajectorySet


def honest_paths(count=60, seed=0, censored=True):
    """Return paths of one feature that means nothing; every third is censored, if wanted."""
    rng = np.random.default_rng(seed)
    return TrajectorySet.from_paths(
        Trajectory(
            rng.normal(size=(n, 1)),
            times=rng.uniform(0, 100) + np.arange(n) * 2.0,
            stopped=not censored or i % 3 > 0,
            name=f"p{i}",
        )
        for i, n in enumerate(rng.integers(8, 30, count))
    )


def with_feature(paths, values, name="suspect", categories=()):
    states = np.column_stack([paths.states, values])
    known = {name: tuple(categories)} if categories else {}
    return replace(paths, states=states, feature_names=("noise", name), categories=known)


def per_row(paths, of_path):
    return np.repeat(np.asarray(of_path, dtype=float), paths.lengths)


def remaining(paths):
    return per_row(paths, paths.times[paths.last_rows]) - paths.times


def flags(paths):
    at = np.zeros(len(paths.states))
    at[paths.last_rows[paths.stopped]] = 1
    return at


def durations(paths):
    return paths.times[paths.last_rows] - paths.times[paths.offsets[:-1]]


def kinds(paths, **options):
    return {leak.feature: leak.kind for leak in find_leaks(paths, **options)}


def test_feature_that_means_nothing_is_not_named():
    assert find_leaks(honest_paths()) == []


@pytest.mark.parametrize("scale", [1.0, -3.0, 1e-30, 1e200])
def test_remaining_life_is_named_whatever_its_unit(scale):
    paths = honest_paths(censored=False)
    assert kinds(with_feature(paths, scale * remaining(paths))) == {"suspect": "determines"}


def test_share_of_life_is_named():
    paths = honest_paths(censored=False)
    share = 1 - remaining(paths) / per_row(paths, durations(paths))
    assert kinds(with_feature(paths, share)) == {"suspect": "determines"}


def test_score_of_a_determining_feature_is_that_of_paths_left_out():
    """A feature that is right on all paths but some, on which it says nothing."""
    paths = honest_paths(200, censored=False)
    life = remaining(paths)
    life[np.repeat(np.arange(200) % 100 == 0, paths.lengths)] = 50.0
    (leak,) = find_leaks(with_feature(paths, life))
    assert leak.score == pytest.approx(1 - 0.5 * 2 / 200, abs=0.003)
    assert "0.99" in leak.sentence
    assert "low values" in leak.sentence


def test_outcome_flag_of_the_last_row_is_named():
    paths = honest_paths()
    assert kinds(with_feature(paths, flags(paths))) == {"suspect": "last row"}


def test_outcome_that_is_known_of_some_stops_only_is_named():
    paths = honest_paths()
    seldom = flags(paths) * per_row(paths, np.arange(60) % 4 == 0)
    assert kinds(with_feature(paths, seldom)) == {"suspect": "last row"}


@pytest.mark.parametrize("missing_at_the_stop", [True, False])
def test_value_that_is_missing_or_known_at_the_last_row_only_is_named(missing_at_the_stop):
    paths = honest_paths()
    missing = flags(paths) == missing_at_the_stop
    paths = with_feature(paths, flags(paths) * 0)
    states = np.where(missing[:, None] & (np.arange(2) == 1), np.nan, paths.states)
    assert kinds(unchecked(paths, states)) == {"suspect": "last row"}


def unchecked(paths, states):
    """Put in states with missing values, which may be refused elsewhere."""
    result = replace(paths)
    object.__setattr__(result, "states", states)
    return result


def test_outcome_of_the_path_on_all_its_rows_is_named():
    paths = honest_paths()
    assert kinds(with_feature(paths, per_row(paths, paths.stopped))) == {"suspect": "outcome"}


def test_value_that_only_stopped_paths_have_is_named():
    paths = honest_paths()
    own = per_row(paths, np.random.default_rng(2).normal(size=60))
    paths = with_feature(paths, own)
    for known_of in (paths.stopped, ~paths.stopped):
        missing = np.repeat(~known_of, paths.lengths)
        states = np.where(missing[:, None] & (np.arange(2) == 1), np.nan, paths.states)
        assert kinds(unchecked(paths, states)) == {"suspect": "outcome"}


@pytest.mark.parametrize("unit", [1.0, -24.0, 1e-9])
def test_length_of_the_path_is_named_whatever_its_unit(unit):
    paths = honest_paths()
    own = per_row(paths, 7.0 + unit * durations(paths))
    assert kinds(with_feature(paths, own)) == {"suspect": "length"}


def test_time_of_the_end_is_named_and_that_of_the_beginning_is_not():
    paths = honest_paths()
    end = per_row(paths, paths.times[paths.last_rows])
    assert kinds(with_feature(paths, end)) == {"suspect": "length"}
    begin = per_row(paths, paths.times[paths.offsets[:-1]] + 5.0)
    assert find_leaks(with_feature(paths, begin)) == []


def test_static_number_that_goes_with_the_length_but_does_not_say_it_is_not_named():
    paths = honest_paths()
    noise = np.random.default_rng(3).normal(size=60) * durations(paths).std() * 0.3
    assert find_leaks(with_feature(paths, per_row(paths, durations(paths) + noise))) == []


@pytest.mark.parametrize("since_the_beginning", [True, False])
def test_time_of_an_event_after_the_last_row_is_named(since_the_beginning):
    """As tables of patients have it on all rows: when they died, some time after the last visit."""
    paths = honest_paths()
    late = np.random.default_rng(5).exponential(durations(paths).std() * 0.4, 60)
    last = durations(paths) if since_the_beginning else paths.times[paths.last_rows]
    (leak,) = find_leaks(with_feature(paths, per_row(paths, last + late)))
    assert (leak.feature, leak.kind) == ("suspect", "later")
    assert 0.5 <= leak.score < 0.99
    before = per_row(paths, durations(paths) - late)  # goes with the length just as much
    assert find_leaks(with_feature(paths, before)) == []


@pytest.mark.parametrize(("wrong", "named"), [(0.06, True), (0.2, False)])
def test_number_of_the_path_that_tells_most_outcomes_is_named(wrong, named):
    """As the time of one event has it that is also the time of death where there was none."""
    paths = honest_paths(600)
    flipped = np.arange(600) % 100 < 100 * wrong
    noise = np.random.default_rng(6).uniform(size=600)
    own = per_row(paths, (paths.stopped ^ flipped) + 0.5 * noise)
    found = find_leaks(with_feature(paths, own))
    assert [leak.kind for leak in found] == (["outcome"] if named else [])
    assert not named or found[0].score == pytest.approx(1 - wrong, abs=0.02)


def test_text_that_determines_the_stop_is_named():
    """Two words at the end of stopped paths, others before; none of the words does it alone."""
    paths = honest_paths(censored=False)
    rng = np.random.default_rng(4)
    codes = np.where(flags(paths) == 1, rng.choice([1, 3], len(paths.states)), 0)
    codes = np.where(flags(paths) == 0, rng.choice([0, 2, 4], len(paths.states)), codes)
    words = ("ok", "broken", "fine", "gone", "well")
    (leak,) = find_leaks(with_feature(paths, codes, categories=words))
    assert (leak.feature, leak.kind) == ("suspect", "determines")
    assert "categories" in leak.sentence
    assert not any(word in leak.sentence for word in words)  # nothing of the data is shown


def test_text_of_the_path_that_tells_its_outcome_is_named():
    paths = honest_paths()
    codes = per_row(paths, np.where(paths.stopped, [0, 2, 2] * 20, 1))
    found = kinds(with_feature(paths, codes, categories=("died", "alive", "lost")))
    assert found == {"suspect": "outcome"}


def test_text_that_is_different_in_every_row_is_not_named():
    paths = honest_paths(censored=False)
    words = tuple(f"w{i}" for i in range(len(paths.states)))
    codes = np.random.default_rng(0).permutation(len(words))
    assert find_leaks(with_feature(paths, codes, categories=words)) == []


def test_word_of_each_path_that_tells_its_outcome_on_that_path_alone_is_not_named():
    paths = honest_paths()
    words = tuple(f"w{i}" for i in range(60))
    assert find_leaks(with_feature(paths, per_row(paths, np.arange(60)), categories=words)) == []


def test_what_is_kept_is_not_asked_about():
    paths = honest_paths()
    suspicious = with_feature(paths, flags(paths))
    assert find_leaks(suspicious, keep=("suspect",)) == []
    assert kinds(suspicious, keep=("noise",)) == {"suspect": "last row"}


def test_paths_of_two_rows_whose_every_change_is_at_the_last_row_are_not_suspicious():
    rng = np.random.default_rng(0)
    paths = TrajectorySet.from_paths(Trajectory(rng.normal(size=(2, 3))) for _ in range(40))
    assert find_leaks(paths) == []


def test_single_rows_and_paths_without_stops_are_not_suspicious():
    rng = np.random.default_rng(0)
    single = TrajectorySet.from_paths(Trajectory(rng.normal(size=(1, 2))) for _ in range(30))
    assert find_leaks(single) == []
    never = replace(honest_paths(), stopped=np.zeros(60, dtype=bool))
    assert find_leaks(with_feature(never, remaining(never))) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: ChangePointData(problem="CP1", seed=seed),
        lambda seed: GainStoppingData(problem="bmG", seed=seed),
        lambda seed: FatigueData(seed=seed),
    ],
    ids=["CP1", "bmG", "fatigue"],
)
def test_features_of_simulators_are_not_named(make, seed):
    splits = make(seed).splits
    assert find_leaks(splits.train.followed_by(splits.val)) == []


def test_many_rows_and_features_take_seconds():
    rng = np.random.default_rng(0)
    rows, width = 300_000, 16
    paths = TrajectorySet(
        states=rng.normal(size=(rows, width)),
        times=np.tile(np.arange(100.0), rows // 100),
        offsets=np.arange(0, rows + 1, 100),
        stopped=np.ones(rows // 100, dtype=bool),
        names=tuple(map(str, range(rows // 100))),
    )
    start = time.process_time()
    assert find_leaks(paths) == []
    assert time.process_time() - start < 3


def test_error_explains_at_most_five_features_and_says_what_to_do_about_all():
    leaks = [Leak(f"f{i}", "last row", 1.0, f"f{i} changes") for i in range(7)]
    with pytest.raises(UserError) as caught:
        refuse_leaks(leaks)
    said = str(caught.value)
    assert "f4 changes (and 2 more)" in said
    assert "f5 changes" not in said
    everything = [f"f{i}" for i in range(7)]  # so that one answer is enough
    assert f"drop={everything}" in said
    assert f"keep={everything}" in said


def test_misspelt_feature_to_keep_is_refused():
    with pytest.raises(UserError, match=r"keep: there is no feature 'x'; did you mean 'x0'"):
        find_leaks(honest_paths(), keep=["x"])


def test_error_on_one_feature_is_one_sentence():
    with pytest.raises(UserError) as caught:
        refuse_leaks([Leak("rul", "determines", 1.0, "rul determines the stop")])
    assert str(caught.value) == (
        "possible leak: rul determines the stop: leave it out with drop=['rul'], or keep it with "
        "keep=['rul'] if it is known at the time of the decision"
    )
    refuse_leaks([])


@pytest.mark.parametrize("first", [0, 1, 1000])
def test_numbers_of_rows_are_named(first):
    paths = honest_paths()
    assert kinds(with_feature(paths, first + np.arange(len(paths.states)))) == {
        "suspect": "row number"
    }


def test_rows_counted_within_each_path_are_honest():
    paths = honest_paths()
    assert kinds(with_feature(paths, paths.steps)) == {}


def test_features_that_are_the_same_on_all_rows_of_a_path_are_listed():
    paths = honest_paths()
    clinic = with_feature(paths, per_row(paths, np.arange(len(paths)) % 3))
    assert static_names(clinic) == ["suspect"]
    assert static_names(with_feature(paths, np.ones(len(paths.states)))) == []
    gaps = per_row(paths, np.where(np.arange(len(paths)) % 3, np.nan, 1.0))
    assert static_names(with_feature(replace(paths, gaps=True), gaps)) == ["suspect"]
