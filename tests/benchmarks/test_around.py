"""The pieces of a run add up to the run."""

import pytest

from benchmarks import around
from benchmarks.one_run import Meter


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def meter(clock):
    return Meter(clock)


def test_a_piece_within_another_does_not_count_twice(clock, meter):
    clock.wait(1)
    with meter.piece("outer"):
        clock.wait(2)
        with meter.piece("inner"):
            clock.wait(4)
        clock.wait(8)
    clock.wait(16)
    with meter.piece("outer"):
        clock.wait(32)
    assert meter.seconds == {"rest": 17, "outer": 42, "inner": 4}


def test_a_method_and_an_iterator_are_measured_and_do_what_they_did(clock, meter):
    class Some:
        def double(self, value):
            clock.wait(3)
            return 2 * value

        def __iter__(self):
            for i in range(2):
                clock.wait(5)
                yield i

    meter.wrap(Some, "double", "method")
    meter.wrap(Some, "absent", "method")
    meter.wrap_iterator(Some, "elements")
    made = Some()
    assert made.double(value=4) == 8
    assert [clock.wait(7) or one for one in made] == [0, 1]
    meter._turn()
    assert meter.seconds == {"rest": 14, "method": 3, "elements": 10}


def test_a_whole_run_is_all_but_its_start_up():
    runs = [{"start-up": 3.0, "steps": s, "loop": 1.0} for s in (2.0, 9.0, 4.0)]
    found = around.summed_up([*runs[:2], runs[2] | {"figures": 1.0}])
    assert found == {
        "whole, start-up apart": 6.0, "steps": 4.0, "start-up": 3.0, "loop": 1.0, "figures": 0.0,
    }  # fmt: skip


def test_pieces_of_a_short_run_are_found(tmp_path):
    found = around.run(around.ROOT, tmp_path, "iqs", "CP1", "never", 2)
    assert found.keys() >= {
        "start-up", "steps", "batches", "validation", "checkpoints", "curves", "figures", "loop",
        "test", "report",
    }  # fmt: skip
    assert all(seconds >= 0 for seconds in found.values())
    assert found["steps"] > 0.01
