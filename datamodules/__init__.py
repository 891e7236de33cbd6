"""LightningDataModules: trajectory splits, SMOTE and local bootstrap, batches from memory."""

from datamodules.base import Oversampling, Splits, TrajectoryDataModule
from datamodules.loaders import PathLoader, Shard, TrainLoader
from datamodules.simulated import (
    BoundaryExitData,
    ChangePointData,
    GainStoppingData,
    SimulatedData,
)
from datamodules.table import TableData

__all__ = [
    "BoundaryExitData",
    "ChangePointData",
    "GainStoppingData",
    "Oversampling",
    "PathLoader",
    "Shard",
    "SimulatedData",
    "Splits",
    "TableData",
    "TrainLoader",
    "TrajectoryDataModule",
]
