"""Schedules are pure functions of the epoch."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from callbacks import ConfidenceDecay, EpsilonDecay, ExponentialSchedule


def module_with(confidence=1.0, epsilon=0.1):
    """Return a module with the buffers of a model, and a dictionary of what it logs."""
    module, logged = nn.Module(), {}
    module.register_buffer("confidence", torch.tensor(confidence))
    module.rule = nn.Module()
    module.rule.register_buffer("epsilon", torch.tensor(epsilon))
    module.hparams, module.log_once = {"epsilon": epsilon}, logged.update
    return module, logged


def test_confidence_is_099_times_095_to_the_epoch():
    schedule = ConfidenceDecay()
    assert [schedule.value(e) for e in (0, 1, 10)] == pytest.approx(
        [0.99, 0.99 * 0.95, 0.99 * 0.95**10]
    )


def test_schedule_sets_the_buffer_in_place_and_logs_it():
    module, logged = module_with()
    buffer = module.confidence
    ConfidenceDecay().on_train_epoch_start(SimpleNamespace(current_epoch=3), module)
    ConfidenceDecay().on_train_epoch_end(SimpleNamespace(current_epoch=3), module)
    assert module.confidence is buffer
    assert float(buffer) == pytest.approx(0.99 * 0.95**3)
    assert logged == {"schedule/confidence": pytest.approx(0.99 * 0.95**3)}


def test_buffer_of_the_rule_is_logged_by_its_last_word():
    module, logged = module_with()
    schedule = ExponentialSchedule("rule.epsilon", initial=0.4, decay=0.5)
    schedule.on_train_epoch_start(SimpleNamespace(current_epoch=1), module)
    schedule.on_train_epoch_end(SimpleNamespace(current_epoch=1), module)
    assert float(module.rule.epsilon) == pytest.approx(0.2)
    assert logged == {"schedule/epsilon": pytest.approx(0.2)}


def test_epsilon_starts_from_the_models_own_value():
    module, _ = module_with(epsilon=0.1)
    schedule = EpsilonDecay(decay=0.5)
    schedule.on_fit_start(SimpleNamespace(), module)
    schedule.on_train_epoch_start(SimpleNamespace(current_epoch=2), module)
    assert float(module.rule.epsilon) == pytest.approx(0.025)


def test_value_does_not_depend_on_the_epochs_before():
    fresh, used = (ExponentialSchedule("confidence", 0.8, 0.9) for _ in range(2))
    module, _ = module_with()
    for epoch in range(5):
        used.on_train_epoch_start(SimpleNamespace(current_epoch=epoch), module)
    assert fresh.value(5) == used.value(5) == pytest.approx(0.8 * 0.9**5)


def test_schedule_of_a_buffer_that_is_not_there_is_an_error():
    module, _ = module_with()
    with pytest.raises(AttributeError, match="temperature"):
        ExponentialSchedule("rule.temperature", 0.8, 0.9).on_train_epoch_start(
            SimpleNamespace(current_epoch=0), module
        )


@pytest.mark.parametrize("decay", [0.0, 1.1, -1.0])
def test_bad_decay_is_an_error(decay):
    with pytest.raises(ValueError, match="decay"):
        EpsilonDecay(decay)


def test_bad_confidence_is_an_error():
    with pytest.raises(ValueError, match="initial"):
        ConfidenceDecay(initial=1.5)
