"""How Lightning writes and reads the checkpoints of our modules: whole, with a checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_fabric.plugins import CheckpointIO, TorchCheckpointIO
from pytorch_lightning import Trainer

from lit_ios.checkpoints import load_sealed, write_checkpoint
from lit_ios.checks import UserError


class SealedCheckpointIO(CheckpointIO):
    """Writes a checkpoint whole or not at all, and verifies its checksum whenever it is loaded.

    Lightning's own writes to the temporary folder, from where the file is copied over the good one
    if that is another file system, and loads whatever bits are there.

    Args:
        durable: wait until a checkpoint is on the disk.
    """

    def __init__(self, durable: bool = True) -> None:
        self.durable = durable
        self._made: set[Path] = set()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint; its folder is made once, and missed if it is removed later."""
        folder = Path(path).parent
        if folder not in self._made:
            folder.mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        write_checkpoint(checkpoint, path, durable=self.durable)

    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint, running no code of it, whatever `weights_only` says."""
        return load_sealed(path, map_location)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint, if it is there."""
        Path(path).unlink(missing_ok=True)


def seal_checkpoints(trainer: Trainer) -> None:
    """Let a trainer write and read checkpoints in our way; refuse one that is told another."""
    strategy: Any = trainer.strategy
    known = strategy.checkpoint_io
    if isinstance(known, SealedCheckpointIO):
        return
    if type(known) is not TorchCheckpointIO:
        raise UserError(
            f"{type(known).__name__} writes checkpoints without the checksum they are verified by: "
            "leave it out of trainer.plugins"
        )
    strategy.checkpoint_io = SealedCheckpointIO()
