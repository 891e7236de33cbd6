"""Files from strangers: a few trials of what benchmarks/hostile.py tries in full."""

import random

import pytest

from benchmarks.hostile import CHECKS
from benchmarks.hostile_checks.outcome import attempts
from benchmarks.hostile_checks.trees import damaged

FEW = {
    "strangers_modules": 3, "shadowed_modules": 2, "outside_writes": 4, "hidden_code": 120,
    "yaml_bombs": 8, "generated_settings": 3, "stream_states": 500, "monitor_states": 200,
    "exported_metadata": 100, "damaged_records": 80, "resumed_states": 3,
    "table_bytes": 300,
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_a_few_trials_of_each_check_go_well(name):
    found = CHECKS[name][0](FEW[name], 0)
    assert found.bad == 0, found.note
    assert found.trials == FEW[name]


def test_every_check_but_the_largest_has_a_short_form():
    assert set(CHECKS) - set(FEW) == {"table_bombs"}  # tests/readers/test_limits.py has small ones


def test_what_is_raised_has_gone_wrong(capsys):
    def attempt(rng, number):
        if number == 4:
            raise KeyError("x")
        return "wrong" if number == 5 else None

    found = attempts("table_bytes", 3, 3, attempt)
    assert found.bad == 2
    said = capsys.readouterr().err
    assert "seed 4: KeyError" in said
    assert "table_bytes --trials 1 --seed 5" in said


def test_damage_follows_the_seed_and_spares_the_original():
    tree = {"a": [1, 2, {"b": "c"}], "d": 5}
    first, second = (repr(damaged(tree, random.Random(7))) for _ in range(2))
    assert first == second
    assert tree == {"a": [1, 2, {"b": "c"}], "d": 5}
