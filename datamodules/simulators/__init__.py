"""Simulated stopping problems: pure NumPy, one frozen dataclass a simulator."""

from datamodules.simulators.base import Horizon, MarginRegion, Simulator
from datamodules.simulators.boundary_exit import BoundaryExit, ExitProblem
from datamodules.simulators.change_points import ChangePoint, ChangeProblem
from datamodules.simulators.fatigue import Fatigue
from datamodules.simulators.gain_stopping import Expert, GainProblem, GainStopping
from datamodules.simulators.satisficing import Satisficing

__all__ = [
    "BoundaryExit",
    "ChangePoint",
    "ChangeProblem",
    "ExitProblem",
    "Expert",
    "Fatigue",
    "GainProblem",
    "GainStopping",
    "Horizon",
    "MarginRegion",
    "Satisficing",
    "Simulator",
]
