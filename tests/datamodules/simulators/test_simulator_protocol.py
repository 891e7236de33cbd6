"""What holds for all seven data sets alike."""

import numpy as np
import pytest

from datamodules.simulators import BoundaryExit, ChangePoint, GainStopping, Simulator
from lit_ios.trajectories import Trajectory, TrajectorySet

SIMULATORS = [
    GainStopping("bmG"),
    GainStopping("bmgG"),
    ChangePoint("CP1"),
    ChangePoint("CP2"),
    ChangePoint("CP3"),
    BoundaryExit("radial"),
    BoundaryExit("star"),
]
every = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda s: s.problem)


@every
def test_simulate_repeats_with_its_seed_and_differs_with_another(simulator: Simulator):
    first, same, other = (simulator.simulate(20, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.states, same.states)
    np.testing.assert_array_equal(first.times, same.times)
    assert first.states.shape != other.states.shape or (first.states != other.states).any()


@every
def test_simulate_gives_the_asked_number_of_float64_paths(simulator: Simulator):
    paths = simulator.simulate(17, np.random.default_rng(0))
    assert len(paths) == 17
    assert paths.states.dtype == np.float64
    assert paths.feature_names == simulator.feature_names
    np.testing.assert_array_equal(paths.times, np.rint(paths.times))


@every
def test_oracle_does_not_look_ahead(simulator: Simulator):
    paths = simulator.simulate(20, np.random.default_rng(0))
    scores = simulator.oracle(paths)
    for i, path in enumerate(paths):
        rows = max(1, len(path) - 1)
        cut = Trajectory(path.states[:rows], path.times[:rows], stopped=False)
        start = paths.offsets[i]
        alone = simulator.oracle(TrajectorySet.from_paths([cut]))
        np.testing.assert_allclose(alone, scores[start : start + rows], rtol=0, atol=1e-12)


@every
def test_every_path_is_stopped_by_default(simulator: Simulator):
    assert simulator.simulate(50, np.random.default_rng(0)).stopped.all()
