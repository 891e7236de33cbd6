"""Decisions for every row of every path, as a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytorch_lightning as pl
from pytorch_lightning.callbacks import BasePredictionWriter

from callbacks.run_folder import run_folder
from lit_ios.checks import UserError


class PredictionWriter(BasePredictionWriter):
    """Writes what `predict` says of every row, and the first stop of every path.

    Columns of a row: path, time, margin, stop_probability, stop, first_stop and the gains the
    variant has. A second file, `…_paths`, has one line per path: its rows and the time of its
    first stop, empty if there is none. With several processes each writes the paths it was
    given, to files that end in its number.

    Args:
        output: a .csv or .parquet file; null for predictions.csv in the run folder.
    """

    def __init__(self, output: str | None = None) -> None:
        super().__init__("epoch")
        self.output = output

    @property
    def output(self) -> str | None:
        """The file of decisions, if it is not in the run folder."""
        return self._output

    @output.setter
    def output(self, file: str | None) -> None:
        if file is not None and Path(file).suffix not in (".csv", ".parquet"):
            raise UserError(f"output must end in .csv or .parquet, got {file!r}")
        self._output = file

    def write_on_epoch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        predictions: Sequence[Any],
        batch_indices: Sequence[Any],
    ) -> None:
        """Write all batches."""
        names = trainer.datamodule.predict_dataloader().paths.names  # type: ignore[attr-defined]
        columns = {
            name: np.concatenate([batch[name].cpu().numpy() for batch in predictions])
            for name in predictions[0]
        }
        rows, paths = tabulate(columns, names)
        written = trainer.datamodule.as_written  # type: ignore[attr-defined]
        rows = _replace(rows, "time", written)
        paths = _replace(paths, "first_stop_time", written)
        file = self._file(trainer)
        if file is None:
            return
        for table, target in ((rows, file), (paths, file.with_stem(f"{file.stem}_paths"))):
            _write(table, target)
            print(f"  predictions  {target}")

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


def tabulate(
    columns: dict[str, np.ndarray[Any, Any]], names: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Return the table of rows and the table of paths."""
    number = columns["path"]
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    lengths = np.diff(np.append(starts, len(number)))
    stops_so_far = np.cumsum(columns["stop"])
    before = np.repeat((stops_so_far - columns["stop"])[starts], lengths)
    first = (columns["stop"] == 1) & (stops_so_far - before == 1)
    path_names = pa.array(names).take(pa.array(number))
    others = {name: values for name, values in columns.items() if name != "path"}
    rows = pa.table({"path": path_names, **others, "first_stop": first.astype(np.int8)})
    times = np.full(len(starts), np.nan)
    times[np.searchsorted(starts, np.flatnonzero(first), side="right") - 1] = columns["time"][first]
    paths = {
        "path": path_names.take(pa.array(starts)),
        "rows": lengths,
        "first_stop_time": times,  # NaN where there is none
    }
    return rows, pa.table(paths)


def _replace(table: pa.Table, column: str, change: Callable[[Any], pa.Array]) -> pa.Table:
    at = table.column_names.index(column)
    return table.set_column(at, column, change(table[column].to_numpy()))


def _write(table: pa.Table, file: Path) -> None:
    if file.suffix == ".parquet":
        pa_parquet.write_table(table, file)
    else:
        pa_csv.write_csv(table, file, pa_csv.WriteOptions(quoting_style="needed"))
