"""Decisions for every row of every path, as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytorch_lightning as pl
from pytorch_lightning.callbacks import BasePredictionWriter

from callbacks.run_folder import run_folder
from lit_ios.batches import PathBatch
from lit_ios.checkpoints import read_checkpoint
from lit_ios.policy.decision_tables import (
    check_ending,
    decision_table,
    refuse_own_table,
    warn_of_strangers,
    write_decisions,
)
from lit_ios.policy.forecast_columns import forecast_columns
from lit_ios.policy.forecasts import read_forecast
from lit_ios.rule import Decisions
from lit_ios.trajectories import FloatArray


class PredictionWriter(BasePredictionWriter):
    """Writes what `predict` says of every row, and the first stop of every path.

    The columns are those of `StoppingPolicy.predict`, the rows in the order of the user's file. A
    second file, `…_paths`, has one line per path: its rows and the time of its first stop,
    empty if there is none. With several processes each writes the paths it was given, to
    files that end in its number.

    Args:
        output: a .csv or .parquet file; null for predictions.csv in the run folder.
        safe_csv: mark text in a .csv file that a spreadsheet would take for a formula.
    """

    def __init__(self, output: str | None = None, safe_csv: bool = False) -> None:
        super().__init__("epoch")
        self.output, self.safe_csv = output, safe_csv

    @property
    def output(self) -> str | None:
        """The file of decisions, if it is not in the run folder."""
        return self._output

    @output.setter
    def output(self, file: str | None) -> None:
        if file is not None:
            check_ending(Path(file))
        self._output = file

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse to write onto the table that is read, before anything is judged."""
        read = getattr(getattr(trainer, "datamodule", None), "file", None)
        if stage == "predict" and self.output is not None and read is not None:
            refuse_own_table(Path(self.output), read)

    def write_on_epoch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        predictions: Sequence[tuple[PathBatch, Decisions]],
        batch_indices: Sequence[Any],
    ) -> None:
        """Write all batches."""
        data = trainer.datamodule  # type: ignore[attr-defined]
        paths = data.predict_dataloader().paths
        named = data.named_rows(paths)
        at = np.concatenate([
            paths.offsets[(batch.number[batch.path]).cpu().numpy()] + batch.step.cpu().numpy()
            for batch, _ in predictions
        ])  # fmt: skip
        rows = named.table.take(pa.array(at))
        order = np.argsort(named.position[at], kind="stable")
        rule: Any = pl_module.rule
        found = [decisions for _, decisions in predictions]
        left = self._left(trainer, rule, predictions)
        decided = decision_table(rows, found, rule.current_names, order, left)
        warn_of_strangers(decided)
        file = self._file(trainer)
        if file is not None:
            for target in write_decisions(decided, file, self.safe_csv):
                print(f"  decisions    {target}")

    @staticmethod
    def _left(
        trainer: pl.Trainer, rule: Any, predictions: Sequence[tuple[PathBatch, Decisions]]
    ) -> dict[str, FloatArray]:
        """Return how long is left at each row, if the checkpoint knows that."""
        if trainer.ckpt_path is None:
            return {}
        forecast = read_forecast(read_checkpoint(trainer.ckpt_path)["lit_ios"], rule)
        threshold = float(rule.threshold)
        parts = [forecast_columns(forecast, b, [d], threshold) for b, d in predictions]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _file(self, trainer: pl.Trainer) -> Path | None:
        if self.output is not None:
            file = Path(self.output)
            file.parent.mkdir(parents=True, exist_ok=True)
        else:
            folder = run_folder(trainer)
            if folder is None:
                return None
            file = folder / "predictions.csv"
        several = trainer.world_size > 1
        return file.with_stem(f"{file.stem}_{trainer.global_rank}") if several else file
