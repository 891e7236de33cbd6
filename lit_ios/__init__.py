"""Inverse optimal stopping: learn when to stop from experts who stopped.

Importing this package loads neither torch nor Lightning; its subpackages do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lit_ios.trajectories import Trajectory, TrajectoryError, TrajectorySet

if TYPE_CHECKING:
    from lit_ios.estimator import StoppingClassifier
    from lit_ios.fitting import fit
    from lit_ios.folds import PathFolds
    from lit_ios.policy import StoppingPolicy

__all__ = [
    "PathFolds",
    "StoppingClassifier",
    "StoppingPolicy",
    "Trajectory",
    "TrajectoryError",
    "TrajectorySet",
    "fit",
]

_LATER = {  # where names are that need torch, Lightning or scikit-learn
    "PathFolds": "lit_ios.folds",
    "StoppingClassifier": "lit_ios.estimator",
    "StoppingPolicy": "lit_ios.policy",
    "fit": "lit_ios.fitting",
}


def __getattr__(name: str) -> Any:
    """Load what needs them when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
