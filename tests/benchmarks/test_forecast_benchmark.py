"""The models that forecasts are compared with."""

from typing import Any, cast

import numpy as np
import pytest

from benchmarks.forecast import Case, Hazard, Problem, summary
from datamodules import PathsData
from lit_ios.trajectories import Trajectory, TrajectorySet


def geometric_paths(count, rng, share=0.1):
    """Return paths that stop at each row with the same probability, whatever is measured."""
    return TrajectorySet.from_paths(
        Trajectory(rng.normal(size=(int(rng.geometric(share)), 1))) for _ in range(count)
    )


def test_hazard_model_of_geometric_lives_has_the_closed_form():
    rng = np.random.default_rng(0)
    data = PathsData(geometric_paths(400, rng), folds=4)
    case = Case(cast(Any, None), data, geometric_paths(200, rng), geometric_paths(100, rng))
    model = Hazard(case, Problem((), (0, 2, 5), 3, 1, False))
    within, low = model.forecasts()
    early = case.fresh.steps < 15
    for horizon in (0, 2, 5):
        assert within(horizon)[early].mean() == pytest.approx(1 - 0.9 ** (horizon + 1), abs=0.04)
    assert set(low[early]) <= {0.0, 1.0, 2.0}  # at most 1 row is passed with probability 0.9
    after = Hazard(case, Problem((), (1, 3), 3, 1, True)).forecasts()[0]
    assert after(1)[early].mean() == pytest.approx(0.1, abs=0.03)


def test_summary_has_the_mean_and_its_standard_error():
    found = summary([{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])
    assert found["x"]["mean"] == 3
    assert found["x"]["standard_error"] == pytest.approx(np.sqrt(7 / 3))
