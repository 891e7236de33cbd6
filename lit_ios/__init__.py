"""Inverse optimal stopping: learn when to stop from experts who stopped.

Importing this package loads nothing but itself; what is asked for is loaded then.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lit_ios.estimator import StoppingClassifier
    from lit_ios.fitting import fit
    from lit_ios.folds import PathFolds
    from lit_ios.policy import StoppingPolicy
    from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet

__version__ = "0.1.0"

_PLACES = {
    "PathFolds": "lit_ios.folds",
    "StoppingClassifier": "lit_ios.estimator",
    "StoppingPolicy": "lit_ios.policy",
    "Trajectory": "lit_ios.trajectories",
    "TrajectoryError": "lit_ios.trajectories",
    "TrajectorySet": "lit_ios.trajectories",
    "fit": "lit_ios.fitting",
}
__all__ = [
    "PathFolds",
    "StoppingClassifier",
    "StoppingPolicy",
    "Trajectory",
    "TrajectoryError",
    "TrajectorySet",
    "__version__",
    "fit",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
