"""What every threshold does, against a loop over thresholds, paths and rows."""

import math

import pytest
import torch
from worlds import counts, drawn, first_stops, make_paths

from lit_ios.functional.frontier import balanced_margin
from lit_ios.functional.outcomes import measure
from lit_ios.promises import Balanced, Cost, Sweep
from lit_ios.promises.choice import choose


@pytest.mark.parametrize("lead", [0.0, 1.5, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_misses_and_alarms_are_those_of_a_loop(seed, lead):
    margin, batch = drawn(seed, lead=lead)
    sweep = Sweep(margin, batch)
    for at, threshold in enumerate(sweep.threshold.tolist()):
        missed, alarms = counts(margin, batch, threshold)
        assert (float(sweep.missed[at]), float(sweep.false_alarms[at])) == (missed, alarms)
    assert (sweep.events, sweep.censored) == (20, 10)


@pytest.mark.parametrize("seed", range(4))
def test_totals_are_those_of_a_loop(seed):
    margin, batch = drawn(seed)
    generator = torch.Generator().manual_seed(seed)
    at_row = torch.randn(len(margin), generator=generator, dtype=torch.double)
    never = torch.randn(len(batch.stopped), generator=generator, dtype=torch.double)
    sweep = Sweep(margin, batch)
    total = sweep.total(at_row, never)
    some = torch.arange(len(never)) % 2 == 0
    part = sweep.among(some).repeated(3).total(at_row, never)
    for at, threshold in enumerate(sweep.threshold.tolist()):
        values = [
            float(never[path] if row is None else at_row[row])
            for path, row in enumerate(first_stops(margin, batch, threshold))
        ]
        assert float(total[at]) == pytest.approx(sum(values))
        assert float(part[at]) == pytest.approx(3 * sum(values[::2]))


@pytest.mark.parametrize("lead", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(6))
def test_cheapest_threshold_costs_no_more_than_any_other(seed, lead):
    margin, batch = drawn(seed, lead=lead)
    goal = Cost(miss=3.0, time=0.7, alarm=0.4)

    def cost(threshold):
        total = 0.0
        for path, row in enumerate(first_stops(margin, batch, threshold)):
            end = float(batch.time[batch.last_row[path]])
            left = None if row is None else end - float(batch.time[row])
            if batch.stopped[path]:
                total += 3.0 if left is None or left < lead - 1e-9 else 0.7 * left
            elif left is not None:
                total += 0.4 + 0.7 * left
        return total

    found = choose(Sweep(margin, batch), [goal]).threshold
    assert cost(found) == pytest.approx(min(cost(b) for b in [*margin.tolist(), math.inf]))


@pytest.mark.parametrize("lead", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(6))
def test_best_balance_is_that_of_training(seed, lead):
    margin, batch = drawn(seed, lead=lead)
    sweep = Sweep(margin, batch)
    found = choose(sweep, [Balanced()]).threshold
    assert found == pytest.approx(float(balanced_margin(margin, batch)))
    prices = Balanced().price(sweep, None)
    for at, threshold in enumerate(sweep.threshold.tolist()):
        accuracy = measure(margin, batch, threshold).balanced_accuracy
        assert float(prices[at]) == pytest.approx(1 - accuracy, abs=1e-6)


def test_never_to_stop_is_best_where_margins_say_the_opposite():
    margin, batch = make_paths([[3.0, 1.0], [2.5, 0.5]], [True, True])
    assert choose(Sweep(margin, batch), [Balanced()]).threshold == math.inf
    assert choose(Sweep(margin, batch), [Cost(miss=0.1, time=1.0)]).threshold == math.inf
