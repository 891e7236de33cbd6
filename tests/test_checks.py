"""The nearest name to a misspelt one."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_ios.checks import did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("pth", ["path", "time"], "path"),
        ("Time_Unit", ["--time-unit", "time"], "--time-unit"),
        ("CP9", ["CP3", "CP1", "radial"], "CP1"),  # of equals, the first
        ("zzzz", ["path", "time"], None),
        ("path", [], None),
    ],
)
def test_nearest_word_is_proposed_if_one_is_like_it(word, known, meant):
    assert nearest(word, known) == meant
    assert did_you_mean(word, known) == ("" if meant is None else f"; did you mean {meant!r}?")


@given(st.text("abc_-", min_size=1), st.lists(st.text("abc_", min_size=1), unique=True))
def test_nearest_word_is_as_like_as_that_of_the_standard_library(word, known):
    plain = [name.replace("_", "-") for name in known]
    like = difflib.SequenceMatcher(b=word.replace("_", "-"))

    def ratio(name):
        like.set_seq1(name)
        return like.ratio()

    expected = difflib.get_close_matches(word.replace("_", "-"), plain, n=1, cutoff=0.6)
    found = nearest(word, known)
    assert (found is None) == (not expected)
    if found is not None:
        assert ratio(found.replace("_", "-")) == ratio(expected[0])
