"""What pruning would have done to trials that were trained to their ends."""

import pytest

pytest.importorskip("optuna", reason="the extra tune is not installed")

from benchmarks.pruning import Trained, replay


def trial(level, epochs=60):
    return Trained(level, epochs, dict.fromkeys(range(5, epochs + 1, 5), level))


def test_a_bad_trial_saves_the_epochs_after_it_was_ended():
    found = replay([*[trial(0.9)] * 9, trial(0.5)])
    assert found == (pytest.approx(40 / 600), 1.0, 0.0)  # ended at the twentieth epoch


def test_a_best_trial_that_begins_badly_is_lost():
    late = Trained(0.95, 60, {epoch: 0.5 if epoch < 50 else 0.95 for epoch in range(5, 61, 5)})
    found = replay([*[trial(0.9)] * 9, late])
    assert found == (pytest.approx(40 / 600), 0.0, pytest.approx(0.05))
    assert replay([late, *[trial(0.9)] * 9]) == (0.0, 1.0, 0.0)
