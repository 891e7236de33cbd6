"""SMOTE: how many rows, where they lie, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from imblearn.over_sampling import SMOTE
from sklearn.neighbors import NearestNeighbors

from lit_ios.sampling import OversamplingError, oversampling, smote_stops, synthetic_confidence
from lit_ios.trajectories import CONTINUE, STOP


def rows(
    stops: int, continues: int, dim: int = 3, dtype: type = np.float32, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return shuffled states and actions; stops lie around 1, continues around 0."""
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((stops + continues, dim))
    actions = rng.permutation(np.repeat([0, 1], [stops, continues]))
    states[actions == 0] += 1
    return states.astype(dtype), actions


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def distance_to_segments(points: np.ndarray, ends: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Distance of each point to the nearest segment; (N, D), (M, D), (M, D) → (N,)."""
    nearest = np.full(len(points), np.inf)
    for a, b in zip(ends.astype(float), others.astype(float), strict=True):
        along = np.clip((points - a) @ (b - a) / max((b - a) @ (b - a), 1e-300), 0, 1)
        gaps = np.linalg.norm(points - a - along[:, None] * (b - a), axis=1)
        nearest = np.minimum(nearest, gaps)
    return nearest


def neighbour_segments(stops: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Segments from each stop to its k nearest other stops, by brute force."""
    gaps = np.linalg.norm(stops[:, None].astype(float) - stops[None], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    neighbours = np.argsort(gaps, axis=1)[:, :k]
    return np.repeat(stops, k, axis=0), stops[neighbours.ravel()]


# How many ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stops", "continues"), [(2, 30), (5, 6), (20, 200), (13, 14)])
@pytest.mark.parametrize("kind", ["regular", "borderline"])
def test_smote_makes_stops_and_continues_equal(stops: int, continues: int, kind: str) -> None:
    made = smote_stops(*rows(stops, continues), generator(), kind=kind)
    assert stops + len(made) == continues


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.8, 1.0, 1.5])
@pytest.mark.filterwarnings("ignore:After over-sampling")  # imblearn, ratio > 1
def test_smote_makes_the_ratio_asked_for(ratio: float) -> None:
    made = smote_stops(*rows(10, 100), generator(), ratio=ratio)
    assert 10 + len(made) == 100 * ratio


@pytest.mark.parametrize(("stops", "continues", "ratio"), [(7, 7, 1), (9, 4, 1), (30, 100, 0.3)])
def test_smote_makes_nothing_where_there_are_stops_enough(
    stops: int, continues: int, ratio: float
) -> None:
    made = smote_stops(*rows(stops, continues), generator(), ratio=ratio)
    assert made.shape == (0, 3)


@pytest.mark.parametrize("stops", [0, 1])
@pytest.mark.parametrize("continues", [0, 40])
def test_smote_refuses_fewer_than_two_stops_and_says_how_many(stops: int, continues: int) -> None:
    with pytest.raises(
        OversamplingError, match=rf"oversampling needs at least 2 stop rows.*got {stops}\b"
    ):
        smote_stops(*rows(stops, continues), generator())


@pytest.mark.parametrize("ratio", [0, -1.0])
def test_smote_refuses_a_ratio_that_is_not_positive(ratio: float) -> None:
    with pytest.raises(ValueError, match=rf"ratio.*{ratio}"):
        smote_stops(*rows(5, 40), generator(), ratio=ratio)


def test_smote_refuses_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="kind"):
        smote_stops(*rows(5, 40), generator(), kind="bordeline")


# Where ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stops", "kind"),
    [(2, "regular"), (3, "regular"), (13, "regular"), (40, "regular"), (40, "borderline")],
)
def test_smote_rows_lie_between_a_stop_and_one_of_its_nearest_stops(stops: int, kind: str) -> None:
    states, actions = rows(stops, 200)
    made = smote_stops(states, actions, generator(), kind=kind)
    segments = neighbour_segments(states[actions == 0], min(12, stops - 1))
    assert distance_to_segments(made, *segments).max() < 1e-5


@pytest.mark.parametrize("neighbors", [1, 3])
def test_smote_takes_no_more_neighbours_than_asked_for(neighbors: int) -> None:
    states, actions = rows(30, 400)
    made = smote_stops(states, actions, generator(), neighbors=neighbors)
    segments = neighbour_segments(states[actions == 0], neighbors)
    assert distance_to_segments(made, *segments).max() < 1e-5


def test_smote_takes_twelve_neighbours_by_default() -> None:
    states, actions = rows(30, 3000)
    made = smote_stops(states, actions, generator())
    eleven = neighbour_segments(states[actions == 0], 11)
    assert distance_to_segments(made, *eleven).max() > 1e-3  # some need the twelfth


def test_smote_takes_all_other_stops_as_neighbours_where_they_are_few() -> None:
    states, actions = rows(4, 400)
    made = smote_stops(states, actions, generator())
    stops = states[actions == 0]
    for i in range(4):
        for j in range(i):
            gap = distance_to_segments(made, stops[[i]], stops[[j]])
            assert gap.min() < 1e-5, f"no row between stops {i} and {j}"


def test_smote_never_mixes_in_continue_rows() -> None:
    states, actions = rows(20, 300)
    moved = states.copy()
    moved[actions == 1] = 1e6  # where the continue rows are makes no difference
    same = smote_stops(moved, actions, generator())
    assert np.array_equal(same, smote_stops(states, actions, generator()))


def test_smote_borderline_starts_from_stops_near_continue_rows() -> None:
    # 30 stops far from everything, 6 amid the continue rows
    rng = generator(1)
    far, near = rng.normal(50, 1, (30, 2)), rng.normal(0, 1, (6, 2))
    continues = rng.normal(0, 1, (100, 2))
    states = np.concatenate([far, near, continues])
    actions = np.repeat([0, 0, 1], [30, 6, 100])
    _, nearest = NearestNeighbors(n_neighbors=11).fit(states).kneighbors(near)
    continue_share = (actions[nearest[:, 1:]] == 1).mean(axis=1)
    danger = near[(continue_share >= 0.5) & (continue_share < 1)]
    assert len(danger) > 0
    made = smote_stops(states, actions, generator(), kind="borderline", neighbors=3)
    stops = states[actions == 0]
    ends, others = neighbour_segments(stops, 3)
    from_danger = (ends[:, None] == danger[None]).all(axis=-1).any(axis=1)
    assert distance_to_segments(made, ends[from_danger], others[from_danger]).max() < 1e-6


def test_smote_borderline_refuses_stops_of_which_none_is_near_continue_rows() -> None:
    # the ratio cannot be reached, and to go on without synthetic rows would go unnoticed
    states, actions = rows(20, 60)
    states[actions == 0] += 1000
    with pytest.raises(OversamplingError, match="borderline"):
        smote_stops(states, actions, generator(), kind="borderline")


def test_smote_rows_are_spread_as_those_of_imblearn() -> None:
    states, actions = rows(25, 4025, dim=2)
    made = smote_stops(states, actions, generator())
    enlarged, _ = SMOTE(k_neighbors=12, random_state=99).fit_resample(states, actions)
    other = enlarged[len(states) :]
    error = 6 * other.std(axis=0) * np.sqrt(2 / len(other))  # six standard errors
    assert (np.abs(made.mean(axis=0) - other.mean(axis=0)) < error).all()


# Types and randomness ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("continues", [4, 40])
def test_smote_keeps_the_float_type(dtype: type, continues: int) -> None:
    assert smote_stops(*rows(8, continues, dtype=dtype), generator()).dtype == dtype


def test_smote_leaves_its_input_unchanged() -> None:
    states, actions = rows(8, 40)
    before = states.copy(), actions.copy()
    smote_stops(states, actions, generator())
    assert np.array_equal(states, before[0])
    assert np.array_equal(actions, before[1])


@pytest.mark.parametrize("kind", ["regular", "borderline"])
def test_smote_of_one_generator_state_is_always_the_same(kind: str) -> None:
    first, again = (smote_stops(*rows(8, 80), generator(4), kind=kind) for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("kind", ["regular", "borderline"])
def test_smote_differs_between_seeds(kind: str) -> None:
    one, other = (smote_stops(*rows(8, 80), generator(seed), kind=kind) for seed in (4, 5))
    assert not np.array_equal(one, other)


def test_smote_does_not_touch_the_global_generator() -> None:
    first = smote_stops(*rows(8, 80), generator(4))
    np.random.seed(7)  # noqa: NPY002 (what must make no difference)
    assert np.array_equal(smote_stops(*rows(8, 80), generator(4)), first)


def two_clouds():
    """Return early stops around 0 and late ones around 10, continues between them."""
    rng = np.random.default_rng(0)
    early, late = rng.normal(0, 0.3, (10, 2)), rng.normal(10, 0.3, (10, 2))
    between = rng.normal(5, 0.3, (60, 2))
    states = np.concatenate([early, late, between]).astype(np.float32)
    actions = np.repeat([0, 0, 1], [10, 10, 60])
    steps = np.concatenate([rng.integers(0, 5, 10), rng.integers(40, 45, 10), np.full(60, 20)])
    return states, actions, steps


def test_windows_keep_smote_from_crossing_between_early_and_late_stops():
    states, actions, steps = two_clouds()
    options = {"neighbors": 12, "steps": steps}
    crossing = smote_stops(states, actions, generator(), **options)
    apart = smote_stops(states, actions, generator(), windows=2, **options)

    def between(rows):
        return ((rows > 2) & (rows < 8)).all(axis=1).sum()

    assert between(crossing) > 0
    assert between(apart) == 0
    assert len(apart) == len(crossing) == 40


def test_one_window_is_no_window():
    states, actions, steps = two_clouds()
    plain = smote_stops(states, actions, generator())
    np.testing.assert_array_equal(
        plain, smote_stops(states, actions, generator(), steps=steps, windows=1)
    )


def test_more_windows_than_pairs_of_stops_are_joined():
    states, actions, steps = two_clouds()
    made = smote_stops(states, actions, generator(), steps=steps, windows=50)
    assert len(made) == pytest.approx(40, abs=10)


@pytest.mark.parametrize("kind", ["neighbors", "discriminator"])
def test_learnt_confidence_is_high_among_stops_and_low_among_continues(kind):
    states, actions, _ = two_clouds()
    made = np.array([[0.0, 0.0], [10.0, 10.0], [5.0, 5.0]], dtype=np.float32)
    paths = np.arange(len(states)) % 7
    # boosted trees need some rows in a leaf
    many = [np.repeat(x, 10, axis=0) for x in (states, actions, paths)]
    found = synthetic_confidence(made, *many, kind)
    assert found.dtype == np.float32
    assert (found[:2] > 0.9).all()
    assert found[2] < 0.1


def test_confidence_of_neighbors_is_the_balanced_share_of_a_loop():
    states, actions = rows(12, 40)
    made = smote_stops(states, actions, generator())
    found = synthetic_confidence(made, states, actions, np.arange(52), "neighbors", neighbors=5)
    for row, value in zip(made, found, strict=True):
        near = np.argsort(np.linalg.norm(states.astype(float) - row, axis=1))[:5]
        stops, others = (actions[near] == 0).sum() / 12, (actions[near] == 1).sum() / 40
        assert value == pytest.approx(stops / (stops + others), rel=1e-5)


def test_all_synthetic_rows_are_believed_unless_told_otherwise():
    states, actions = rows(12, 40)
    found = synthetic_confidence(states[:3], states, actions, np.arange(52), "one")
    assert found.tolist() == [1, 1, 1]


def test_discriminator_needs_stops_in_both_halves():
    states, actions = rows(1, 20)
    with pytest.raises(OversamplingError, match="both halves"):
        synthetic_confidence(states[:1], states, actions, np.arange(21), "discriminator")


# Many stops --------------------------------------------------------------------------------------


def test_few_features_or_stops_give_what_imbalanced_learn_gives_to_the_bit(monkeypatch):
    monkeypatch.setattr(oversampling, "EXACT_STOPS", 50)
    for stops, features in ((200, oversampling.TREE_DIMENSIONS), (50, 20)):
        rows = np.random.default_rng(0).normal(size=(3 * stops, features)).astype(np.float32)
        actions = np.repeat([STOP, CONTINUE, CONTINUE], stops)
        made = smote_stops(rows, actions, np.random.default_rng(1), neighbors=5)
        seed = int(np.random.default_rng(1).integers(2**31))
        theirs = SMOTE(sampling_strategy={STOP: 2 * stops}, k_neighbors=5, random_state=seed)
        assert np.array_equal(made, theirs.fit_resample(rows, actions)[0][3 * stops :])


@pytest.mark.parametrize("kind", ["regular", "borderline"])
def test_many_stops_of_many_features_are_taken_in_groups_of_bounded_size(kind, monkeypatch):
    monkeypatch.setattr(oversampling, "EXACT_STOPS", 100)
    monkeypatch.setattr(oversampling, "GROUP_STOPS", 40)
    rng = np.random.default_rng(0)
    stops = 210
    rows = rng.normal(size=(4 * stops, 8)).astype(np.float32)
    actions = np.repeat([STOP, CONTINUE, CONTINUE, CONTINUE], stops)
    sizes = []
    real = oversampling._interpolated

    def noted(states, actions, *args):
        sizes.append((int((actions == STOP).sum()), len(actions)))
        return real(states, actions, *args)

    monkeypatch.setattr(oversampling, "_interpolated", noted)
    with pytest.warns(UserWarning, match="neighbours of 210 stops in 6 random groups"):
        made = smote_stops(rows, actions, np.random.default_rng(1), kind=kind, neighbors=5)
    assert sizes == [(35, 140)] * 6
    assert len(made) == 2 * stops  # as many stops as continue rows
    with pytest.warns(UserWarning, match="random groups"):
        again = smote_stops(rows, actions, np.random.default_rng(1), kind=kind, neighbors=5)
    assert np.array_equal(made, again)
    inside = rows[actions == STOP]
    assert (made >= inside.min(0) - 1e-6).all()
    assert (made <= inside.max(0) + 1e-6).all()
