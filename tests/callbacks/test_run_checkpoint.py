"""RunCheckpoint knows its best epoch again, wherever the run's folder is now."""

import pytest
import torch

from callbacks import RunCheckpoint

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
