"""The figure of what a simulator hides, and what a rule remembers of it."""

import numpy as np
import pytest
import torch

from callbacks.hidden import _explained, hidden_figure
from datamodules import ChangePointData, FatigueData
from lit_ios.modules import IQS


class Knows:
    """A rule that remembers twice the damage, and stops when it reaches the limit."""

    threshold = torch.tensor(0.0)

    def __init__(self, data):
        self.data = data

    def remember(self, batch):
        worn = np.exp(1.2 * batch.columns[:, 0].numpy()) / 40
        steps, damage = batch.step.numpy(), np.empty(len(worn))
        for row, step in enumerate(steps):
            damage[row] = worn[row] + (damage[row - 1] if step else 0)
        return batch.columns, torch.from_numpy(2 * damage)[:, None]

    def scan(self, batch):
        _, h = self.remember(batch)
        stop = h[:, 0] >= 2 - 1e-9
        return type("Decided", (), {"first_stop": stop})


def test_rule_that_remembers_the_damage_explains_it_and_the_state_alone_does_not():
    data = FatigueData(paths=40, test_paths=12)
    train, _, test = data.splits
    guess, share = _explained(Knows(data), train, test, data, True)
    assert share == pytest.approx(1)
    np.testing.assert_allclose(guess, data.hidden(test)[1], atol=1e-9)
    assert _explained(Knows(data), train, test, data, False)[1] < 0.7


def test_figure_draws_load_damage_and_both_stops():
    data = FatigueData(paths=40, test_paths=12)
    figure = hidden_figure(Knows(data), data, shown=2)
    above, below = figure.axes[0], figure.axes[2]
    np.testing.assert_allclose(below.lines[0].get_ydata(), below.lines[1].get_ydata(), atol=1e-9)
    assert len(above.lines) == 3  # the load, the expert's stop and the policy's
    assert above.lines[1].get_xdata()[0] == above.lines[2].get_xdata()[0]
    assert "explains 100.0% of the damage" in figure.get_suptitle()


@pytest.mark.parametrize("options", [{"memory": "accumulate", "members": 2}, {}])
def test_figure_can_be_drawn_of_any_rule(options):
    data = FatigueData(paths=20, test_paths=6)
    hidden_figure(IQS.for_data(data, **options).rule.eval(), data)


def test_most_data_hide_nothing_that_is_known():
    data = ChangePointData(problem="CP1", paths=10, test_paths=2)
    assert data.hidden(data.splits.test) is None


def test_fit_on_fatigue_writes_the_figure(run_train, tmp_path):
    cli = run_train("fit", "--trainer.max_epochs=1", data="fatigue", model="iqs")
    assert (tmp_path / "runs/fatigue/iqs/version_0/figures/memory.png").is_file()
    assert cli.datamodule.name == "fatigue"
