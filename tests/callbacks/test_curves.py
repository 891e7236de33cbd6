"""Curves and figures of a run go to TensorBoard as it reads them."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from callbacks import StoppingFigures
from callbacks.run_folder import EpochLogger
from lit_ios.checks import UserError
from lit_ios.files import drawing


@pytest.fixture
def logger(tmp_path):
    made = EpochLogger(tmp_path, "run", default_hp_metric=False)
    yield made
    made.finalize("success")


def read(logger):
    logger.save()
    return EventAccumulator(logger.log_dir, {"scalars": 0, "images": 0}).Reload()


def test_scalars_are_read_back_at_their_epochs(logger):
    for epoch in (3, 4):
        logger.log_metrics({"val/a": 0.5 * epoch, "val/b": torch.tensor(2.0), "epoch": epoch}, 99)
    logger.log_metrics({"test/c": np.float32(0.25)}, step=7)
    known = read(logger)
    found = {
        tag: [(event.step, event.value) for event in known.Scalars(tag)]
        for tag in known.Tags()["scalars"]
    }
    assert found == {
        "val/a": [(3, 1.5), (4, 2.0)], "val/b": [(3, 2.0), (4, 2.0)], "test/c": [(7, 0.25)],
    }  # fmt: skip


def test_a_figure_is_read_back_as_it_was_drawn(logger):
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1], [1, 0])
    png = drawing(figure)
    logger.log_figure("test/line", png, 5)
    (shown,) = read(logger).Images("test/line")
    assert (shown.step, shown.width, shown.height) == (5, *Image.open(io.BytesIO(png)).size)
    assert shown.encoded_image_string == png


def test_curves_are_on_the_disk_when_a_checkpoint_is(logger):
    logger.log_metrics({"val/a": 1.0}, 0)
    logger.after_save_checkpoint(None)
    known = EventAccumulator(logger.log_dir).Reload()  # without saving
    assert [event.value for event in known.Scalars("val/a")] == [1.0]


@pytest.mark.parametrize(("every", "shown"), [(0, []), (2.5, [2, 5, 8]), (1, range(9))])
def test_figures_are_drawn_when_it_is_time(every, shown, logger, monkeypatch):
    now, drawn = [100.0], []
    monkeypatch.setattr("callbacks.figures.monotonic", lambda: now[0])
    figures = StoppingFigures(every_seconds=every)
    monkeypatch.setattr(figures, "_figures", lambda *_: {})
    monkeypatch.setattr(figures, "_show", lambda trainer, *_: drawn.append(trainer.current_epoch))
    trainer = SimpleNamespace(logger=logger)
    figures.on_train_start(trainer, None)
    for trainer.current_epoch in range(9):
        now[0] += 1.0
        figures.on_train_epoch_end(trainer, None)
    assert drawn == list(shown)


def test_a_time_below_zero_is_refused():
    with pytest.raises(UserError, match="every_seconds"):
        StoppingFigures(every_seconds=-1)
