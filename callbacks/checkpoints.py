"""Checkpoints of a run, which may have been moved or be called by another name since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pytorch_lightning.callbacks import ModelCheckpoint


class RunCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, which also knows its best epoch again in a moved folder.

    Lightning compares the spelling of folders: a resumed run whose folder is spelled otherwise
    would forget the best score, and overwrite the best epoch with a worse one.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state with paths as they are spelled now, none outside of the folder.

        Lightning removes the checkpoints that the state names, also `folder/../../other`.
        """
        if self.dirpath is not None:
            state_dict = self._moved(state_dict, str(self.dirpath))
        super().load_state_dict(state_dict)

    @staticmethod
    def _moved(state: dict[str, Any], folder: str) -> dict[str, Any]:
        def here(path: str) -> str:
            return os.path.join(folder, Path(path).name) if path else path  # spelled as it is

        there = Path(here(state["best_model_path"]) or "nowhere").is_file()
        if not there and state.get("dirpath") != folder:
            return state  # these are the checkpoints of another run: only the best one is taken
        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        moved = {name: here(state[name]) for name in paths}
        best = {here(path): score for path, score in state["best_k_models"].items()}
        return state | moved | {"dirpath": folder, "best_k_models": best}
