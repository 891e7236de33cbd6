"""Samplers named by their class: only added stop rows are taken, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imblearn.base import BaseSampler
from imblearn.over_sampling import ADASYN, SMOTE

from lit_ios.checks import UserError
from lit_ios.sampling import OversamplingError, sample_stops

RANDOM = "imblearn.over_sampling.RandomOverSampler"
ADAPTIVE = "imblearn.over_sampling.ADASYN"
BETWEEN = "imblearn.over_sampling.SMOTE"
ADDERS = [RANDOM, ADAPTIVE, BETWEEN, "imblearn.over_sampling.SVMSMOTE"]


def rows(stops: int = 15, continues: int = 100, dtype: type = np.float32) -> Any:
    """Return shuffled states and actions; stops lie around 1, continues around 0."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((stops + continues, 3))
    actions = rng.permutation(np.repeat([0, 1], [stops, continues]))
    states[actions == 0] += 1
    return states.astype(dtype), actions


def spec(sampler: str | type, **arguments: Any) -> dict[str, Any]:
    path = sampler if isinstance(sampler, str) else f"{sampler.__module__}.{sampler.__qualname__}"
    return {"class_path": path, "init_args": arguments}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def distance_to_segments(points: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Distance of each point to the nearest segment between two of the ends."""
    nearest = np.full(len(points), np.inf)
    for i, a in enumerate(ends.astype(float)):
        for b in ends[:i].astype(float):
            along = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
            gaps = np.linalg.norm(points - a - along[:, None] * (b - a), axis=1)
            nearest = np.minimum(nearest, gaps)
    return nearest


class OwnSampler(BaseSampler):
    """Adds zeros to the rows it was given, as stops."""

    _sampling_type = "bypass"
    _parameter_constraints: dict[str, Any] = {}  # noqa: RUF012 (as scikit-learn has it)
    label = 0

    def __init__(self) -> None:
        super().__init__()

    def _fit_resample(self, states: np.ndarray, actions: np.ndarray, **_: Any) -> Any:
        states, actions = self.change(states, actions)
        extra = np.zeros((5, states.shape[1]))
        return np.concatenate([states, extra]), np.append(actions, [self.label] * 5)

    def change(self, states: np.ndarray, actions: np.ndarray) -> Any:
        return states, actions


class ContinueMaker(OwnSampler):
    label = 1


class Reverser(OwnSampler):
    def change(self, states: np.ndarray, actions: np.ndarray) -> Any:
        return states[::-1], actions[::-1]


class Stretcher(OwnSampler):
    def change(self, states: np.ndarray, actions: np.ndarray) -> Any:
        return states * 1.5, actions


class Dropper(OwnSampler):
    def change(self, states: np.ndarray, actions: np.ndarray) -> Any:
        return states[2:], actions[2:]  # fewer, though rows are added


# What is made -----------------------------------------------------------------------------------


def test_random_sampler_gives_stop_rows_as_they_are() -> None:
    states, actions = rows()
    made = sample_stops(states, actions, generator(), spec(RANDOM))
    stops = {tuple(stop) for stop in states[actions == 0]}
    assert len(made) == 100 - 15
    assert {tuple(row) for row in made} <= stops


@pytest.mark.parametrize("sampler", [ADAPTIVE, BETWEEN])
def test_interpolated_rows_lie_between_stops(sampler: str) -> None:
    states, actions = rows()
    made = sample_stops(states, actions, generator(), spec(sampler))
    assert len(made) > 0
    assert distance_to_segments(made, states[actions == 0]).max() < 1e-5


@pytest.mark.parametrize("sampler", [ADASYN, SMOTE])
def test_sampled_rows_are_those_that_imblearn_puts_after_the_originals(sampler: type) -> None:
    states, actions = rows()
    found = sample_stops(states, actions, generator(), spec(sampler, random_state=7))
    enlarged, labels = sampler(sampling_strategy={0: 100}, random_state=7).fit_resample(
        states, actions
    )
    assert np.array_equal(enlarged[:115], states)
    assert (labels[115:] == 0).all()
    assert np.array_equal(found, enlarged[115:])


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0])
def test_sampled_rows_make_the_ratio_asked_for(ratio: float) -> None:
    made = sample_stops(*rows(), generator(), spec(RANDOM), ratio=ratio)
    assert 15 + len(made) == ratio * 100


@pytest.mark.parametrize("ratio", [0.15, 1.0])
def test_sampler_may_be_given_a_strategy_of_its_own(ratio: float) -> None:
    sampler = spec(RANDOM, sampling_strategy=0.4)
    assert 15 + len(sample_stops(*rows(), generator(), sampler, ratio=ratio)) == 40


@pytest.mark.parametrize(("stops", "continues", "ratio"), [(7, 7, 1), (9, 4, 1), (30, 100, 0.3)])
def test_nothing_is_made_where_there_are_stops_enough(
    stops: int, continues: int, ratio: float
) -> None:
    made = sample_stops(*rows(stops, continues), generator(), spec(RANDOM), ratio=ratio)
    assert made.shape == (0, 3)


def test_sampler_of_ones_own_is_taken() -> None:
    made = sample_stops(*rows(), generator(), spec(OwnSampler))
    assert made.tolist() == [[0.0] * 3] * 5


@pytest.mark.parametrize("sampler", ADDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_rows_keep_the_float_type(sampler: str, dtype: type) -> None:
    assert sample_stops(*rows(dtype=dtype), generator(), spec(sampler)).dtype == dtype


@pytest.mark.parametrize("sampler", ADDERS)
def test_sampler_leaves_its_input_unchanged(sampler: str) -> None:
    states, actions = rows()
    before = states.copy(), actions.copy()
    sample_stops(states, actions, generator(), spec(sampler))
    assert np.array_equal(states, before[0])
    assert np.array_equal(actions, before[1])


# Randomness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ADDERS)
def test_sampled_rows_of_one_generator_state_are_always_the_same(sampler: str) -> None:
    first, again = (sample_stops(*rows(), generator(4), spec(sampler)) for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("sampler", ADDERS)
def test_sampled_rows_differ_between_seeds(sampler: str) -> None:
    one, other = (sample_stops(*rows(), generator(seed), spec(sampler)) for seed in (4, 5))
    assert not np.array_equal(one, other)


def test_random_state_of_the_arguments_comes_before_the_generator() -> None:
    sampler = spec(RANDOM, random_state=3)
    one, other = (sample_stops(*rows(), generator(seed), sampler) for seed in (4, 5))
    assert np.array_equal(one, other)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler",
    [
        spec("imblearn.under_sampling.RandomUnderSampler", sampling_strategy="auto"),
        spec("imblearn.combine.SMOTETomek"),
        spec("imblearn.combine.SMOTEENN"),
        spec(Reverser),
        spec(Stretcher),
        spec(Dropper),
    ],
    ids=lambda sampler: sampler["class_path"].rpartition(".")[2],
)
def test_sampler_that_drops_moves_or_changes_rows_is_refused(sampler: dict[str, Any]) -> None:
    with pytest.raises(OversamplingError, match="does not keep the original rows first") as error:
        sample_stops(*rows(), generator(), sampler)
    assert str(error.value).startswith(sampler["class_path"])


def test_sampler_that_takes_stops_away_is_refused_by_name() -> None:
    with pytest.raises(OversamplingError, match="RandomUnderSampler"):
        sample_stops(*rows(), generator(), spec("imblearn.under_sampling.RandomUnderSampler"))


def test_sampler_that_makes_continue_rows_is_refused() -> None:
    with pytest.raises(OversamplingError, match="ContinueMaker makes continue rows"):
        sample_stops(*rows(), generator(), spec(ContinueMaker))


@pytest.mark.parametrize("stops", [0, 1])
def test_sampler_is_refused_fewer_than_two_stops(stops: int) -> None:
    with pytest.raises(OversamplingError, match=rf"oversampling needs at least 2.*got {stops}\b"):
        sample_stops(*rows(stops), generator(), spec(RANDOM))


def test_sampler_that_finds_too_few_neighbours_is_refused_by_name() -> None:
    with pytest.raises(OversamplingError, match=r"over_sampling\.SMOTE: .*n_neighbors"):
        sample_stops(*rows(3), generator(), spec(BETWEEN, k_neighbors=5))


def test_sampler_that_finds_no_stop_near_continue_rows_is_refused_by_name() -> None:
    states, actions = rows()
    states[actions == 0] += 1000
    with pytest.raises(OversamplingError, match=r"over_sampling\.ADASYN: "):
        sample_stops(states, actions, generator(), spec(ADAPTIVE))


def test_argument_that_a_sampler_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"oversampling: .*RandomOverSampler .*'neighbours'"):
        sample_stops(*rows(), generator(), spec(RANDOM, neighbours=3))


def test_class_that_is_no_sampler_is_refused() -> None:
    with pytest.raises(UserError, match=r"must be a subclass of imblearn\.base\.BaseSampler"):
        sample_stops(*rows(), generator(), spec("torch.nn.Linear"))


def test_class_of_a_package_that_is_not_trusted_is_refused_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from imblearn.over_sampling import RandomOverSampler as Strange\n"
    (tmp_path / "strange_samplers.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"samplers\.Strange .* allow=\['strange_samplers'\]"):
        sample_stops(*rows(), generator(), spec("strange_samplers.Strange"))
    assert "strange_samplers" not in sys.modules
