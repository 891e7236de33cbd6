"""The measured table of complexities has a row for each method, and ratios to the classifier."""

from benchmarks import complexity
from benchmarks.methods import VARIANTS


def test_ratios_are_medians_over_turns_of_what_each_turn_took(monkeypatch):
    given = iter(range(1, 100))
    monkeypatch.setattr(complexity, "epoch_seconds", lambda *args, **options: next(given))
    monkeypatch.setattr(complexity, "_judge", lambda *args, **options: 1e-6)
    found = complexity.measure(turns=3)
    assert list(found) == [*VARIANTS, *complexity.MEMORIES]
    # turns begin at 1, 13 and 25; the second method takes one more than the first in each
    assert found["classifier"] == (13_000.0, 1.0, 1.0)
    assert found["classifier_smote"][1] == 14 / 13
    assert complexity.PAPER.keys() == VARIANTS.keys()
