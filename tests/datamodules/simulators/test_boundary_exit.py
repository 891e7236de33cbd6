import numpy as np
import pytest
from matplotlib.path import Path

from datamodules.simulators import BoundaryExit
from datamodules.simulators.boundary_exit import star_margin


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def star_polygon(radius: float) -> Path:
    angles = 0.32 + np.arange(10) * np.pi / 5
    radii = np.where(np.arange(10) % 2 == 0, radius, radius / 2)
    corners = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    return Path(np.concatenate([corners, corners[:1]]), closed=True)


@pytest.mark.parametrize("t", [0, 13, 48])
def test_star_region_is_the_outside_of_the_polygon(t):
    radius = 0.5 + 0.05 * t
    points = radius * rng(t).uniform(-1.2, 1.2, (20_000, 2))
    stops = BoundaryExit("star").region.stops(points, np.full(20_000, float(t)))
    np.testing.assert_array_equal(stops, ~star_polygon(radius).contains_points(points))


def test_star_margin_is_the_distance_from_the_edge_near_its_middle():
    corners = star_polygon(0.5).vertices
    edges = np.roll(corners[:10], -1, axis=0) - corners[:10]
    outward = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    for distance in (-0.01, 0.01):
        points = corners[:10] + edges / 2 + distance * outward
        np.testing.assert_allclose(star_margin(points, np.full(10, 0.5)), distance, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_radial_paths_stop_at_the_first_row_outside_the_growing_ball(dim):
    paths = BoundaryExit("radial", dim=dim).simulate(400, rng())
    for path in paths:
        outside = np.sqrt((path.states**2).sum(axis=1)) >= 0.5 + 0.05 * path.times
        assert not outside[:-1].any()
        assert outside[-1] or path.times[-1] == 49
    assert paths.states.shape[1] == dim
    assert paths.feature_names == ("x0", "x1", "x2")[:dim]


@pytest.mark.parametrize("problem", ["radial", "star"])
@pytest.mark.parametrize("horizon", ["stop", "censor"])
def test_oracle_has_balanced_accuracy_one(problem, horizon, balanced_accuracy):
    simulator = BoundaryExit(problem, horizon=horizon)
    paths = simulator.simulate(200, rng())
    assert balanced_accuracy(paths, simulator.oracle(paths)) == 1


@pytest.mark.parametrize("problem", ["radial", "star"])
def test_region_holds_exactly_the_stop_rows(problem):
    simulator = BoundaryExit(problem)
    paths = simulator.simulate(300, rng())
    stops = simulator.region.stops(paths.states, paths.times)
    np.testing.assert_array_equal(stops, paths.actions == 0)


def test_censoring_horizon_marks_the_paths_still_inside_and_changes_no_row():
    stopping = BoundaryExit("radial").simulate(500, rng())
    censoring = BoundaryExit("radial", horizon="censor").simulate(500, rng())
    np.testing.assert_array_equal(stopping.states, censoring.states)
    assert stopping.stopped.all()
    last = np.linalg.norm(censoring.states[censoring.last_rows], axis=1)
    outside = last >= 0.5 + 0.05 * censoring.times[censoring.last_rows]
    np.testing.assert_array_equal(censoring.stopped, outside)
    assert (censoring.lengths[~censoring.stopped] == 50).all()
    assert 0 < (~censoring.stopped).sum() < 500


def test_star_refuses_three_dimensions():
    with pytest.raises(ValueError, match="dim must be 2 for problem 'star'; got 3"):
        BoundaryExit("star", dim=3)


@pytest.mark.parametrize(
    "wrong", [{"problem": "disc"}, {"horizon": "end"}, {"dim": 0}, {"steps": 0}, {"dt": -1.0}]
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        BoundaryExit(**{"problem": "radial", **wrong})
