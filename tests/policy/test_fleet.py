"""Many live paths at once: as if each were alone, whatever joins, ends or is wrong."""

import json

import numpy as np
import pytest
from policies import SETTINGS, make_policy, random_paths

from lit_ios.checks import UserError


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_many_paths_that_join_and_end_at_their_own_times_are_as_if_alone(variant, settings):
    policy, paths = make_policy(variant, **settings), random_paths(30, longest=12)
    margins = policy.margins(paths)
    rng = np.random.default_rng(2)
    starts = rng.integers(0, 10, size=len(paths))
    many, found = policy.stream_many(), {}
    for now in range(25):
        if now % 7 == 3:
            many = policy.stream_many(json.loads(json.dumps(many.state())))
        rows = {i: now - starts[i] for i in rng.permutation(len(paths))}
        live = [i for i, row in rows.items() if 0 <= row < paths.lengths[i]]
        if not live:
            continue
        at = [paths.offsets[i] + rows[i] for i in live]
        result = many.step([f"p{i}" for i in live], paths.states[at], paths.times[at])
        assert result.t.tolist() == [rows[i] for i in live]
        assert (result.stop == (result.margin >= policy.threshold)).all()
        found |= dict(zip(at, result.margin, strict=True))
        many.end([f"p{i}" for i in live if rows[i] == paths.lengths[i] - 1])
    assert len(many) == 0
    assert np.allclose([found[row] for row in range(len(margins))], margins, atol=1e-9)


def test_memory_of_many_streams_follows_the_live_paths_not_all_there_ever_were():
    many = make_policy("do_iqs_lb").stream_many()
    for i in range(200):
        many.step([i], [[0.0, 1.0]])
        many.end([i])
    assert len(many._carry) <= 2


def test_wrong_use_of_many_streams_is_refused():
    many = make_policy("iqs").stream_many()
    with pytest.raises(UserError, match="a name is there twice"):
        many.step(["p", "p"], np.ones((2, 2)))
    with pytest.raises(UserError, match="2 paths, but 1 observations"):
        many.step(["p", "q"], np.ones((1, 2)))
    with pytest.raises(UserError, match="no live path 'p'"):
        many.end(["p"])


@pytest.mark.parametrize("saved", ["{}", {"rule": "FINGERPRINT"}, {"rule": "FINGERPRINT", "t": 1}])
def test_what_is_no_saved_state_is_refused(saved):
    policy = make_policy("iqs")
    if isinstance(saved, dict):
        saved = saved | {"rule": policy.rule.fingerprint}
    for restore in (policy.stream, policy.stream_many):
        with pytest.raises(UserError, match="saved state"):
            restore(saved)


def test_names_of_paths_survive_a_restart_whatever_they_are():
    policy = make_policy("iqs")
    many = policy.stream_many()
    names = [*np.array([3, 4]), ("a", 1), "text"]
    many.step(names, np.ones((4, 2)))
    again = policy.stream_many(json.loads(json.dumps(many.state())))
    assert again.paths == [3, 4, ("a", 1), "text"]


def test_a_tick_without_rows_is_fine_and_ending_is_all_or_nothing():
    many = make_policy("iqs").stream_many()
    assert len(many.step([], []).margin) == 0
    many.step(["p"], [[1.0, 1.0]])
    with pytest.raises(UserError, match="no live path 'q'"):
        many.end(["p", "q"])
    assert "p" in many
    with pytest.raises(UserError, match="single mapping"):
        many.step(["p"], {"a": 1.0, "b": 1.0})
    with pytest.raises(UserError, match="must be numbers"):
        many.step(["p"], [["x", "y"]])


def test_ending_a_path_named_twice_gives_its_place_back_once():
    many = make_policy("iqs").stream_many()
    many.step(["p", "q"], np.ones((2, 2)))
    many.end(["p", "p"])
    assert many.paths == ["q"]
    assert len(many._free) + len(many._slot) == len(many._carry)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("unit7", [[1.0, 1.0]]), "a list of names"),
        ((["p"], None), "a row for each path"),
        ((["p"], [[1.0, 1.0]], 3.0), "1 times are needed"),
    ],
)
def test_what_is_no_list_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        make_policy("iqs").stream_many().step(*arguments)
