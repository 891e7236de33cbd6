"""Decisions for every row of every path, as a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import BasePredictionWriter

from callbacks.run_folder import run_folder


class PredictionWriter(BasePredictionWriter):
    """Writes what `predict` says of every row to predictions.csv in the run folder.

    Columns: path, time, margin, stop_probability, stop, and the gains the variant has. With
    several processes each writes the paths it was given, to predictions_<rank>.csv.
    """

    def __init__(self) -> None:
        super().__init__("epoch")

    def write_on_epoch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        predictions: Sequence[Any],
        batch_indices: Sequence[Any],
    ) -> None:
        """Write all batches to one file."""
        folder = run_folder(trainer)
        if folder is None:
            return
        names = trainer.datamodule.predict_dataloader().paths.names  # type: ignore[attr-defined]
        part = f"_{trainer.global_rank}" if trainer.world_size > 1 else ""
        file = folder / f"predictions{part}.csv"
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(predictions[0])
            for columns in predictions:
                values = [column.tolist() for column in columns.values()]
                for path, *row in zip(*values, strict=True):
                    writer.writerow(
                        [names[path], *(int(v) if v is True or v is False else v for v in row)]
                    )
        print(f"  predictions  {file}")
