"""LightningDataModules: trajectory splits, SMOTE and local bootstrap, batches from memory."""

from datamodules.azure import AzureData
from datamodules.base import Oversampling, TrajectoryDataModule
from datamodules.declared import NamedRows, Splits
from datamodules.loaders import PathLoader, Shard, TrainLoader
from datamodules.memory import PathsData
from datamodules.simulated import (
    BoundaryExitData,
    ChangePointData,
    FatigueData,
    GainStoppingData,
    SatisficingData,
    SimulatedData,
)
from datamodules.table import TableData
from datamodules.turbofan import TurbofanData

__all__ = [
    "AzureData",
    "BoundaryExitData",
    "ChangePointData",
    "FatigueData",
    "GainStoppingData",
    "NamedRows",
    "Oversampling",
    "PathLoader",
    "PathsData",
    "SatisficingData",
    "Shard",
    "SimulatedData",
    "Splits",
    "TableData",
    "TrainLoader",
    "TrajectoryDataModule",
    "TurbofanData",
]
