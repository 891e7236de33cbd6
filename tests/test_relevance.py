"""Which features are worth looking at."""

from dataclasses import replace

import numpy as np
from sklearn.metrics import roc_auc_score

from lit_ios.relevance import area, telling_features
from lit_ios.trajectories import Trajectory, TrajectorySet


def made(paths=60, seed=0):
    """Return paths of noise, a feature that rises to the stop, a constant, and one that falls."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(paths):
        n = int(rng.integers(5, 15))
        rise = np.linspace(0, 1, n) + rng.normal(0, 0.05, n)
        fall = -np.linspace(0, 1, n) + rng.normal(0, 0.3, n)
        kind = (np.arange(n) == n - 1) * 2.0  # the code of a category seen at stops alone
        states = np.stack([rng.normal(size=n), rise, np.ones(n), fall, kind], axis=1)
        found.append(Trajectory(states, stopped=True, name=str(i)))
    names = ["noise", "rise", "constant", "fall", "kind"]
    paths = TrajectorySet.from_paths(found, names)
    return replace(paths, categories={"kind": ("a", "b", "c")})


def test_the_area_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 6, 200).astype(float)  # with ties
    stop = rng.random(200) < 0.2
    assert np.isclose(area(values, stop), roc_auc_score(stop, values))


def test_missing_values_are_left_out():
    values = np.array([1.0, np.nan, 3.0, 2.0])
    assert area(values, np.array([False, True, True, False])) == 1.0
    assert area(np.full(4, np.nan), np.array([True, False, False, True])) == 0.5


def test_what_tells_stops_comes_first_whichever_way_it_points():
    order = [made().feature_names[i] for i in telling_features(made())]
    assert order[:3] == ["kind", "rise", "fall"]
    assert order[-1] == "constant"


def test_without_stops_the_order_is_the_tables():
    rng = np.random.default_rng(2)
    paths = TrajectorySet.from_paths([Trajectory(rng.normal(size=(6, 3)), stopped=False)])
    assert telling_features(paths).tolist() == [0, 1, 2]


def test_of_many_rows_some_are_drawn_and_every_stop_stays(monkeypatch):
    monkeypatch.setattr("lit_ios.relevance.MOST_NUMBERS", 1)
    monkeypatch.setattr("lit_ios.relevance.FEWEST_ROWS", 50)
    paths = made()
    assert paths.feature_names[telling_features(paths)[0]] == "kind"
