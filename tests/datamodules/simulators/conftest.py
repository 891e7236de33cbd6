from collections.abc import Callable

import numpy as np
import pytest

from lit_ios.trajectories import TrajectorySet


def _balanced_accuracy(paths: TrajectorySet, scores: np.ndarray) -> float:
    caught, stops, quiet, continues = 0, 0, 0, 0
    for i, path in enumerate(paths):
        policy_stopped = False
        for row in range(len(path)):
            policy_stopped = policy_stopped or scores[paths.offsets[i] + row] >= 0
            if path.stopped and row == len(path) - 1:
                stops += 1
                caught += policy_stopped
            else:
                continues += 1
                quiet += not policy_stopped
    return 0.5 * (caught / stops + quiet / continues)


@pytest.fixture
def balanced_accuracy() -> Callable[[TrajectorySet, np.ndarray], float]:
    """M1, row by row."""
    return _balanced_accuracy
