"""Simulated stopping problems: pure NumPy, one frozen dataclass a simulator."""

from datamodules.simulators.base import Horizon, MarginRegion, Simulator
from datamodules.simulators.boundary_exit import BoundaryExit
from datamodules.simulators.change_points import ChangePoint
from datamodules.simulators.gain_stopping import GainStopping

__all__ = [
    "BoundaryExit",
    "ChangePoint",
    "GainStopping",
    "Horizon",
    "MarginRegion",
    "Simulator",
]
