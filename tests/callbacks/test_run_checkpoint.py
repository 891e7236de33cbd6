"""RunCheckpoint knows its best epoch again, wherever the run's folder is now."""

from types import SimpleNamespace

import pytest
import torch

from callbacks import RunCheckpoint
from lit_ios.checks import UserError

SCORE = torch.tensor(0.75)


def saved_state(folder):
    """Return what a run in this folder, spelled so, saves of its best epoch."""
    best = f"{folder}/best.ckpt"
    return {
        "monitor": "val/balanced_accuracy",
        "best_model_score": SCORE,
        "best_model_path": best,
        "current_score": SCORE,
        "dirpath": str(folder),
        "best_k_models": {best: SCORE},
        "kth_best_model_path": best,
        "kth_value": SCORE,
        "last_model_path": "",
    }


def resumed_in(folder, state):
    """Return the callback of a run in this folder that has taken over a state."""
    callback = RunCheckpoint(filename="best", monitor="val/balanced_accuracy", mode="max")
    callback.dirpath = str(folder)  # as Lightning sets it from the logger, without a word
    callback.load_state_dict(state)
    return callback


@pytest.mark.parametrize("before", ["elsewhere/checkpoints", "/gone/checkpoints"])
def test_best_epoch_is_known_again_in_a_folder_of_another_spelling(before, tmp_path):
    (tmp_path / "best.ckpt").touch()
    callback = resumed_in(tmp_path, saved_state(before))
    best = str(tmp_path / "best.ckpt")
    assert (callback.best_model_path, callback.best_model_score) == (best, SCORE)
    assert (callback.kth_best_model_path, callback.kth_value) == (best, SCORE)
    assert callback.best_k_models == {best: SCORE}


@pytest.mark.parametrize("now", ["checkpoints", "./checkpoints"])
def test_best_epoch_is_known_again_however_the_folder_is_spelled_now(now, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/best.ckpt").touch()
    callback = resumed_in(now, saved_state(tmp_path / "checkpoints"))
    assert callback.best_model_score == SCORE
    assert list(callback.best_k_models.values()) == [SCORE]


def test_folder_of_the_same_spelling_is_taken_as_it_is(tmp_path):
    state = saved_state(tmp_path)
    callback = resumed_in(tmp_path, state)
    assert callback.best_model_path == state["best_model_path"]
    assert callback.best_k_models == state["best_k_models"]


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_best_epoch_of_a_run_whose_checkpoints_are_not_here_does_not_count(tmp_path):
    callback = resumed_in(tmp_path, saved_state("/gone/checkpoints"))
    assert callback.best_model_score is None
    assert callback.best_k_models == {}


def test_state_itself_is_left_alone(tmp_path):
    (tmp_path / "best.ckpt").touch()
    state = saved_state("/gone/checkpoints")
    resumed_in(tmp_path, state)
    assert state == saved_state("/gone/checkpoints")


@pytest.fixture
def saved_epochs(monkeypatch):
    """Return a function that says which epochs a callback saves."""

    def find(callback, epochs, seconds, **trainer):
        """Let each epoch take some seconds."""
        now, saved = [0.0], []
        monkeypatch.setattr("callbacks.checkpoints.time.monotonic", lambda: now[0])
        monkeypatch.setattr(
            "pytorch_lightning.callbacks.ModelCheckpoint.on_train_epoch_end",
            lambda self, trainer, module: saved.append(trainer.current_epoch),
        )
        usual = {"max_epochs": epochs, "max_steps": -1, "global_step": 0, "should_stop": False}
        run = SimpleNamespace(**usual | {"world_size": 1} | trainer)
        callback.on_train_start(run, None)
        for epoch in range(epochs):
            now[0] += seconds
            run.current_epoch = epoch
            callback.on_train_epoch_end(run, None)
        return saved

    return find


@pytest.mark.parametrize(
    ("every", "seconds", "saved"),
    [(0, 1, [0, 1, 2, 3, 4, 5, 6]), (2, 5, [0, 1, 2, 3, 4, 5, 6]), (3, 1, [0, 3, 6]),
     (4, 1.5, [0, 3, 6]), (100, 1, [0, 6])],
)  # fmt: skip
def test_first_and_last_epochs_are_saved_and_others_when_it_is_time(
    every, seconds, saved, saved_epochs
):
    assert saved_epochs(RunCheckpoint(every_seconds=every), 7, seconds) == saved


@pytest.mark.parametrize(
    "ends", [{"should_stop": True}, {"max_steps": 30, "global_step": 30}, {"max_epochs": 2}]
)
def test_an_epoch_after_which_training_ends_is_saved(ends, saved_epochs):
    assert 1 in saved_epochs(RunCheckpoint(every_seconds=100), 3, 1, **ends)


def test_processes_save_what_the_first_one_saves(saved_epochs):
    told = iter([False, True, False])
    several = {"world_size": 2, "strategy": SimpleNamespace(broadcast=lambda due: next(told))}
    assert saved_epochs(RunCheckpoint(every_seconds=100), 3, 1, **several) == [1]


def test_the_best_epoch_is_not_left_to_time():
    with pytest.raises(UserError, match="the best epoch could be left out"):
        RunCheckpoint(every_seconds=5, monitor="val/balanced_accuracy")
