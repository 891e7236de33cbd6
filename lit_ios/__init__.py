"""Inverse optimal stopping: learn when to stop from experts who stopped.

Importing this package loads neither torch nor Lightning; its subpackages do.
"""

from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet

__all__ = ["Trajectory", "TrajectoryError", "TrajectorySet"]
