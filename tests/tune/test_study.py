"""Trials in a journal: each done once, whoever is killed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from repository import ROOT

pytest.importorskip("optuna", reason="the extra tune is not installed")

from study_tasks import DEFAULTS, KNOBS, score, study_in, work

from lit_ios.tune.study import JOURNAL


def in_process(folder, *numbers):
    words = [sys.executable, "-m", "study_tasks", str(folder), *map(str, numbers)]
    path = f"{ROOT / 'tests'}:{ROOT}"
    return subprocess.Popen(words, env={"PYTHONPATH": path, "PATH": ""}, cwd=ROOT)


def values_of(folder):
    return [(one.number, one.values, one.score) for one in study_in(folder).done()]


def test_the_first_trial_has_the_defaults_and_the_others_do_not(tmp_path):
    work(tmp_path, 4)
    done = study_in(tmp_path).done()
    assert done[0].values == DEFAULTS
    assert len({str(one.values) for one in done}) == 4
    assert [one.number for one in done] == [0, 1, 2, 3]


def test_defaults_outside_of_the_space_stay_as_they_are(tmp_path):
    study = study_in(tmp_path)
    study.defaults = {"x": 7.0, "kind": "none"}
    with study.claim(9) as claim:
        assert claim.values == {"kind": "none"}
        study.tell(claim, "complete", 0.5)
    with study.claim(9) as claim:
        assert claim.values.keys() == {"x", "kind"}


def test_no_more_trials_are_claimed_than_there_are_to_be(tmp_path):
    study, other = study_in(tmp_path), study_in(tmp_path)
    with study.claim(2) as first, other.claim(2) as second, study.claim(2) as third:
        assert (first.number, second.number, third) == (0, 1, None)


def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path):
    work(tmp_path / "whole", 16)
    assert in_process(tmp_path / "cut", 16, 13).wait() == -9
    assert len(study_in(tmp_path / "cut").done()) == 13
    work(tmp_path / "cut", 16)
    assert values_of(tmp_path / "cut") == values_of(tmp_path / "whole")


def test_several_processes_do_each_trial_once(tmp_path):
    study_in(tmp_path)
    started = [in_process(tmp_path, 24) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    done = study_in(tmp_path).done()
    assert [one.number for one in done] == list(range(24))
    assert all(one.score == score(one.values) for one in done)


def test_a_trial_is_not_lost_if_who_takes_it_over_is_killed_as_well(tmp_path, monkeypatch):
    one, other, heir = (study_in(tmp_path) for _ in range(3))
    begun = one.claim(4)
    first = begun.__enter__()
    with other.claim(4) as second:
        other.tell(second, "complete", 0.5)
    begun.__exit__(None, None, None)  # as if its process had been killed: it has said nothing
    monkeypatch.setattr(heir, "_begin", lambda *known: 1 / 0)
    with pytest.raises(ZeroDivisionError), heir.claim(4):
        pass
    with study_in(tmp_path).claim(4) as again:
        assert (again.number, again.values) == (first.number, first.values) == (0, first.values)
    work(tmp_path, 4)
    assert [trial.number for trial in study_in(tmp_path).done()] == [0, 1, 2, 3]


def test_a_trial_that_ends_while_it_is_looked_at_was_not_killed(tmp_path, monkeypatch):
    one, other = study_in(tmp_path), study_in(tmp_path)
    begun = one.claim(4)
    first = begun.__enter__()
    is_alive = other._is_alive

    def end_first(number):
        one.tell(first, "complete", 0.5)
        begun.__exit__(None, None, None)
        return is_alive(number)

    monkeypatch.setattr(other, "_is_alive", end_first)
    with other.claim(4) as second:
        assert (first.number, second.number) == (0, 1)
    assert [done.number for done in other.done()] == [0]


def test_a_half_written_line_is_dropped(tmp_path):
    work(tmp_path, 3)
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b'{"op_code":4,"worker')
    work(tmp_path, 5)
    assert [one.number for one in study_in(tmp_path).done()] == [0, 1, 2, 3, 4]


def test_threads_of_one_process_do_not_share_a_trial(tmp_path):
    study_in(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: work(tmp_path, 12), range(4)))
    assert [one.number for one in study_in(tmp_path).done()] == list(range(12))


def test_a_trial_that_does_worse_than_most_is_told_to_end(tmp_path):
    study = study_in(tmp_path)
    for level in [0.9] * 8 + [0.5]:
        with study.claim(20) as claim:
            early, late = (study.should_end(claim, epoch, level) for epoch in (5, 40))
            study.tell(claim, "complete", level)
    assert (early, late) == (False, True)


def test_the_search_finds_the_better_values_and_what_matters(tmp_path):
    work(tmp_path, 30)
    study = study_in(tmp_path)
    best = study.best()
    assert best.score > 0.99
    assert best.values["kind"] == "none"
    shares = study.importance()
    assert shares.keys() == {knob.name for knob in KNOBS}
    assert sum(shares.values()) == pytest.approx(1)
