"""Schedules are pure functions of the epoch."""

from types import SimpleNamespace

import pytest
import torch

from callbacks import ConfidenceDecay, EpsilonDecay, ExponentialSchedule


def module_with(**buffers):
    logged = {}
    values = {name: torch.tensor(value) for name, value in buffers.items()}
    return SimpleNamespace(**values, hparams={"epsilon": 0.1}, log=logged.__setitem__), logged


def test_confidence_is_099_times_095_to_the_epoch():
    schedule = ConfidenceDecay()
    assert [schedule.value(e) for e in (0, 1, 10)] == pytest.approx(
        [0.99, 0.99 * 0.95, 0.99 * 0.95**10]
    )


def test_schedule_sets_the_buffer_in_place_and_logs_it():
    module, logged = module_with(confidence=1.0)
    buffer = module.confidence
    ConfidenceDecay().on_train_epoch_start(SimpleNamespace(current_epoch=3), module)
    assert module.confidence is buffer
    assert float(buffer) == pytest.approx(0.99 * 0.95**3)
    assert logged == {"schedule/confidence": pytest.approx(0.99 * 0.95**3)}


def test_epsilon_starts_from_the_models_own_value():
    module, _ = module_with(epsilon=0.1)
    schedule = EpsilonDecay(decay=0.5)
    schedule.on_fit_start(SimpleNamespace(), module)
    schedule.on_train_epoch_start(SimpleNamespace(current_epoch=2), module)
    assert float(module.epsilon) == pytest.approx(0.025)


def test_value_does_not_depend_on_the_epochs_before():
    fresh, used = (ExponentialSchedule("confidence", 0.8, 0.9) for _ in range(2))
    module, _ = module_with(confidence=1.0)
    for epoch in range(5):
        used.on_train_epoch_start(SimpleNamespace(current_epoch=epoch), module)
    assert fresh.value(5) == used.value(5) == pytest.approx(0.8 * 0.9**5)


@pytest.mark.parametrize("decay", [0.0, 1.1, -1.0])
def test_bad_decay_is_an_error(decay):
    with pytest.raises(ValueError, match="decay"):
        EpsilonDecay(decay)


def test_bad_confidence_is_an_error():
    with pytest.raises(ValueError, match="initial"):
        ConfidenceDecay(initial=1.5)
