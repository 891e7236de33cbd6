"""Figures of what was learnt, and the agreement of the region with the truth (M6)."""

from __future__ import annotations

from time import monotonic
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

from callbacks.grids import evaluating, stopping_grid
from callbacks.hidden import hidden_figure
from callbacks.run_folder import EpochLogger, run_folder
from lit_ios import plotting
from lit_ios.batches import PathBatch
from lit_ios.checks import check_number
from lit_ios.files import drawing, write_bytes
from lit_ios.functional import stopping_time, stops
from lit_ios.metrics import GridBalancedAccuracy, GridIoU
from lit_ios.policy.frontiers import frontier_curve
from lit_ios.variants import variant_name


class StoppingFigures(Callback):
    """Draws what was learnt, to TensorBoard during training and to `figures/` after testing.

    Two features: heat maps of Q(s,0), Q(s,1) and their difference at one time, and the true and
    recovered boundary at every time step. Always: the margin along sample paths with the
    expert's and the policy's stop; after testing also missed events against time to event for
    every threshold, and where the simulator hides what the expert goes by (fatigue's damage),
    what the policy remembers of it. Where the true region is known, testing also logs how well
    the recovered one agrees with it on the grid (M6).

    Args:
        every_seconds: figures go to TensorBoard after an epoch if this time has passed since the
            last ones, or since training began; 0 for never.
        time: time of the heat maps, since the path began.
        points: grid points along each axis.
        sample_paths: how many paths are drawn.
    """

    def __init__(
        self,
        every_seconds: float = 60.0,
        time: float = 25.0,
        points: int = 81,
        sample_paths: int = 6,
    ) -> None:
        check_number("every_seconds", every_seconds, at_least=0)
        self.every_seconds, self.time = every_seconds, time
        self.points, self.sample_paths = points, sample_paths
        self._drawn_at = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Wait from now on."""
        self._drawn_at = monotonic()

    @rank_zero_only
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Send figures to TensorBoard now and then."""
        due = self.every_seconds and monotonic() - self._drawn_at >= self.every_seconds
        if due and isinstance(trainer.logger, EpochLogger):
            self._show(trainer, self._figures(trainer, pl_module, "val"), "val")
            self._drawn_at = monotonic()

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log M6 where there is a true region."""
        datamodule = trainer.datamodule  # type: ignore[attr-defined]
        if not trainer.is_global_zero or datamodule.region is None:
            return
        grid = stopping_grid(pl_module, datamodule, self.points)
        if grid is None or grid.truth is None:
            return
        predicted = torch.from_numpy(grid.margin >= float(pl_module.rule.threshold))  # type: ignore[arg-type, union-attr]
        for name, metric in (
            ("grid_balanced_accuracy", GridBalancedAccuracy(sync_on_compute=False)),
            ("grid_iou", GridIoU(sync_on_compute=False)),
        ):
            metric.update(predicted, torch.from_numpy(grid.truth >= 0))
            pl_module.log(f"test/{name}", metric.compute(), rank_zero_only=True)

    @rank_zero_only
    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the figures of the tested checkpoint."""
        figures = self._figures(trainer, pl_module, "test")
        figures |= self._frontier(trainer, pl_module)
        if trainer.datamodule.hidden(trainer.datamodule.splits.test) is not None:  # type: ignore[attr-defined]
            with evaluating(pl_module):
                figures["memory"] = hidden_figure(pl_module.rule, trainer.datamodule)  # type: ignore[attr-defined]
        drawn = self._show(trainer, figures, "test")
        folder = run_folder(trainer)
        if folder is not None:
            (folder / "figures").mkdir(exist_ok=True)
            for name, png in drawn.items():
                write_bytes(folder / "figures" / f"{name}.png", png)

    @staticmethod
    def _show(trainer: pl.Trainer, figures: dict[str, Any], stage: str) -> dict[str, bytes]:
        """Draw figures, once for TensorBoard and files: most of their time goes there."""
        drawn = {name: drawing(figure) for name, figure in figures.items()}
        if isinstance(trainer.logger, EpochLogger):
            for name, png in drawn.items():
                trainer.logger.log_figure(f"{stage}/{name}", png, trainer.current_epoch)
        return drawn

    def _figures(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> dict[str, Any]:
        datamodule = trainer.datamodule  # type: ignore[attr-defined]
        threshold = float(pl_module.rule.threshold)
        figures = {"margins": self._margins(pl_module, datamodule, stage)}
        grid = stopping_grid(pl_module, datamodule, self.points)
        if grid is not None:
            at = int(np.argmin(np.abs(grid.times - self.time)))
            figures["q_values"] = plotting.q_heat_maps(
                grid.x,
                grid.y,
                grid.q[at],
                truth=None if grid.truth is None else grid.truth[at],
                threshold=threshold,
                time=grid.times[at],
                names=datamodule.feature_names,
                unit=_unit(datamodule),
            )
            figures["boundaries"] = plotting.boundaries(
                grid.x,
                grid.y,
                grid.margin,
                grid.times,
                truth=grid.truth,
                threshold=threshold,
                names=datamodule.feature_names,
                unit=_unit(datamodule),
            )
        return figures

    @staticmethod
    def _frontier(trainer: pl.Trainer, pl_module: Any) -> dict[str, Any]:
        """Draw missed events against time to event on the test paths, if any was stopped."""
        datamodule = trainer.datamodule  # type: ignore[attr-defined]
        batch, _ = datamodule.first_paths("test")
        if not batch.stopped.any():
            return {}
        name = variant_name(pl_module, datamodule, trainer.callbacks)  # type: ignore[attr-defined]
        margin = _margin(pl_module, datamodule, batch)
        curve = frontier_curve(margin, batch, float(pl_module.rule.threshold))
        return {"frontier": plotting.frontiers({name: curve}, _unit(datamodule))}

    def _margins(self, pl_module: Any, datamodule: Any, stage: str) -> Any:
        threshold = float(pl_module.rule.threshold)
        batch, names = datamodule.first_paths(stage, self.sample_paths)
        margin = _margin(pl_module, datamodule, batch)
        first = stopping_time(stops(margin, threshold), batch.step, batch.path, len(batch.stopped))
        paths = []
        for i, name in enumerate(names):
            rows = batch.path == i
            paths.append(
                plotting.PathMargins(
                    name=name,
                    time=batch.time[rows].numpy(),
                    margin=margin[rows].numpy(),
                    stopped=bool(batch.stopped[i]),
                    policy_stop=int(first[i]) if first[i] < rows.sum() else None,
                )
            )
        table = datamodule.table
        dates = table.time_unit if table.dates else None
        return plotting.margins_along_paths(paths, threshold, dates, _unit(datamodule))


def _unit(datamodule: Any) -> str:
    """Return the unit of times, without brackets."""
    return str(datamodule.table.time_name)


def _margin(pl_module: Any, datamodule: Any, batch: PathBatch) -> Tensor:
    """Judge a batch that lies on the CPU, and bring the margins back there."""
    there = datamodule.transfer_batch_to_device(batch, pl_module.device, 0)
    with evaluating(pl_module):
        margin: Tensor = pl_module(there).margin
    return margin.cpu()
