"""Inverse optimal stopping: learn when to stop from experts who stopped.

Importing this package loads neither torch nor Lightning; its subpackages do.
"""

from typing import TYPE_CHECKING, Any

from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.estimator import StoppingClassifier
    from lit_ios.policy import StoppingPolicy

__all__ = [
    "StoppingClassifier",
    "StoppingPolicy",
    "Trajectory",
    "TrajectoryError",
    "TrajectorySet",
]


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is first asked for."""
    if name == "StoppingPolicy":
        from lit_ios.policy import StoppingPolicy

        return StoppingPolicy
    if name == "StoppingClassifier":
        from lit_ios.estimator import StoppingClassifier

        return StoppingClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
