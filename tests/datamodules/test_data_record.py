"""What a model gets of its data: the record, what its members see, and who judges what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from given_data import GivenData, elapsed_states, random_paths
from torch import Tensor

from datamodules import PathsData, TableData
from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError
from lit_ios.data_record import Inputs, TableColumns
from lit_ios.recognition import fingerprints
from lit_ios.rule import ColumnEncoder, Encoder
from lit_ios.trajectories import TrajectorySet

both_ways = pytest.mark.parametrize("batch_by", ["rows", "paths"])


def seen_by_path(data: GivenData) -> np.ndarray:
    """Return how often members see each training path, as the batches of an epoch say; (K, P)."""
    train = data.training_paths
    owner = {row.tobytes(): path for row, path in zip(train.states, train.path_of_row, strict=True)}
    found: dict[int, set[tuple[float, ...]]] = {}
    for batch in data.train_batches():
        for row, seen in zip(batch.state.numpy(), batch.seen.T.tolist(), strict=True):
            found.setdefault(owner[row.tobytes()], set()).add(tuple(seen))
    assert all(len(columns) == 1 for columns in found.values())  # the same in all its rows
    return np.array([found[path].copy().pop() for path in range(len(train))]).T


def judges_by_path(data: GivenData) -> np.ndarray:
    """Return which members judge each validation path; (K, P)."""
    batches = list(data.val_dataloader())
    assert torch.cat([b.number for b in batches]).tolist() == list(range(len(data.splits.val)))
    return torch.cat([batch.judges for batch in batches], dim=1).numpy()


# The record -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"lags": 2, "include_time": False}])
def test_record_says_what_a_state_is_made_of(options: dict[str, Any]) -> None:
    record = GivenData(**options).prepare_for()
    columns = {"columns": ["heat", "speed"], "categories": {}}
    spec = {"class_path": "lit_ios.rule.encoders.ColumnEncoder", "init_args": columns}
    assert record.inputs == Inputs(spec, **options)


def test_record_has_the_statistics_of_the_training_states() -> None:
    data = GivenData()
    states = elapsed_states(data.given.train)
    found = data.prepare_for().statistics
    np.testing.assert_allclose(found.mean, states.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.scale, states.std(axis=0), rtol=1e-12)


def test_record_has_the_usual_time_between_two_rows() -> None:
    data = GivenData()
    gaps = [gap for path in data.given.train for gap in np.diff(path.times)]
    assert data.prepare_for().time_step == pytest.approx(np.median(gaps), rel=1e-12)


def test_record_identifies_training_and_validation_paths() -> None:
    data = GivenData()
    record = data.prepare_for()
    assert record.training == fingerprints(data.given.train)
    assert record.validation == fingerprints(data.given.val)


@pytest.mark.parametrize(
    "options", [{"lags": 3}, {"include_time": False}, {"oversampling": "smote"}]
)
def test_paths_are_identified_by_what_was_read_whatever_states_are_made_of_it(
    options: dict[str, Any],
) -> None:
    assert GivenData(**options).prepare_for().training == GivenData().prepare_for().training


@pytest.mark.parametrize(
    ("oversampling", "synthetic"),
    [
        ("none", False),
        ("bootstrap", False),
        ("smote", True),
        ("imblearn.over_sampling.RandomOverSampler", True),
    ],
)
def test_record_says_whether_rows_belong_to_no_path(oversampling: str, synthetic: bool) -> None:
    assert GivenData(oversampling=oversampling).prepare_for().synthetic == synthetic


def test_record_names_the_data_and_no_table_where_there_is_none() -> None:
    record = GivenData().prepare_for()
    assert record.name == "given"
    assert record.table == TableColumns()


# Members ----------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(("members", "bootstrap"), [(1, True), (1, False), (3, False)])
def test_members_without_bootstrap_see_all_paths_alike(
    batch_by: str, members: int, bootstrap: bool
) -> None:
    data = GivenData(batch_by=batch_by)
    data.prepare_for(members, bootstrap)
    assert all(batch.seen is None for batch in data.train_batches())
    assert all(batch.judges is None for batch in data.val_dataloader())


@both_ways
def test_members_see_bootstrap_samples_of_the_training_paths(batch_by: str) -> None:
    data = GivenData(batch_by=batch_by, batch_size=32)
    data.prepare_for(members=5)
    seen = seen_by_path(data)
    assert seen.shape == (5, 20)
    assert seen.sum(axis=1).tolist() == [20.0] * 5  # as many draws as there are paths
    assert len(np.unique(seen, axis=0)) == 5


def test_members_of_bootstrap_samples_all_judge_all_validation_paths() -> None:
    data = GivenData()
    data.prepare_for(members=5)
    assert all(batch.judges is None for batch in data.val_dataloader())


def test_bootstrap_samples_of_members_follow_the_seed() -> None:
    found = []
    for seed in (1, 1, 2):
        data = GivenData(seed=seed)
        data.prepare_for(members=3)
        found.append(seen_by_path(data))
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_data_are_dealt_out_anew_to_another_model() -> None:
    data = GivenData()
    data.prepare_for(members=3)
    data.prepare_for(members=1)
    assert all(batch.seen is None for batch in data.train_batches())


@both_ways
def test_stops_of_each_member_match_its_continues_after_bootstrap(batch_by: str) -> None:
    data = GivenData(
        random_paths(40, seed=0), oversampling="bootstrap", batch_by=batch_by, batch_size=60
    )
    data.prepare_for(members=4)
    short = 0
    for batch in data.train_batches():
        for stops, continues, wanted in member_sums(batch):
            if 0 < stops < continues:
                short += 1
                assert wanted == pytest.approx(continues, rel=1e-5)
    assert short > 5


def member_sums(batch: TrainBatch) -> list[tuple[float, float, float]]:
    """Return, of each member, the stops and continues it sees, and what its stops weigh."""
    stop = batch.action == 0
    return [
        (seen[stop].sum().item(), seen[~stop].sum().item(), copies[stop].sum().item())
        for seen, copies in zip(batch.seen, batch.copies, strict=True)
    ]


# Folds ------------------------------------------------------------------------------------------


def with_folds(members: int = 6, folds: int = 3, **options: Any) -> GivenData:
    data = GivenData(folds=folds, **options)
    data.prepare_for(members)
    return data


def test_folds_train_on_training_and_validation_paths_together() -> None:
    data = with_folds()
    known = [*data.given.train, *data.given.val]
    for paths in (data.splits.train, data.splits.val):
        assert np.array_equal(paths.states, np.concatenate([path.states for path in known]))
        assert paths.stopped.tolist() == [path.stopped for path in known]
    assert data.splits.test is data.given.test


def test_folds_take_the_statistics_of_all_known_paths() -> None:
    data = with_folds()
    both = (data.given.train, data.given.val)
    states = np.concatenate([elapsed_states(paths) for paths in both])
    np.testing.assert_allclose(data.statistics.mean, states.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.statistics.scale, states.std(axis=0), rtol=1e-12)


@both_ways
def test_members_see_the_paths_that_they_do_not_judge(batch_by: str) -> None:
    data = with_folds(batch_by=batch_by, batch_size=32)
    judges = judges_by_path(data)
    assert judges.shape == (6, 26)
    assert judges.dtype == np.bool_
    assert np.array_equal(seen_by_path(data), (~judges).astype(float))


def test_every_path_is_judged_by_as_many_members() -> None:
    assert judges_by_path(with_folds()).sum(axis=0).tolist() == [2] * 26


def test_folds_of_each_deal_share_no_path_and_leave_none_out() -> None:
    judges = judges_by_path(with_folds())
    for deal in (judges[:3], judges[3:]):
        assert deal.sum(axis=0).tolist() == [1] * 26
    assert not np.array_equal(judges[:3], judges[3:])


def test_judges_of_the_first_paths_are_theirs() -> None:
    data = with_folds()
    batch, names = data.first_paths("val", most=5)
    assert len(names) == 5
    assert np.array_equal(batch.judges.numpy(), judges_by_path(data)[:, :5])


def test_test_paths_are_judged_by_all_members() -> None:
    data = with_folds()
    assert all(batch.judges is None for batch in data.test_dataloader())
    assert data.first_paths("test")[0].judges is None


def test_number_of_folds_that_does_not_divide_the_members_is_refused() -> None:
    with pytest.raises(UserError, match=r"folds \(3\) must divide .*members \(4\)"):
        with_folds(members=4)


@pytest.mark.parametrize("oversampling", ["smote", "imblearn.over_sampling.ADASYN"])
def test_folds_with_rows_made_of_all_folds_are_refused(oversampling: str) -> None:
    with pytest.raises(UserError, match="folds cannot be used with oversampling"):
        GivenData(folds=3, oversampling=oversampling)


@pytest.mark.parametrize("folds", [1, 0, -2])
def test_fewer_than_two_folds_are_refused(folds: int) -> None:
    with pytest.raises(ValueError, match=rf"folds.*{folds}"):
        GivenData(folds=folds)


# Encoders ---------------------------------------------------------------------------------------


class HeatAlone(Encoder):
    """A user's own encoder: a multiple of one column."""

    def __init__(self, columns: Any, categories: Any = None, factor: float = 1.0) -> None:
        super().__init__(columns, categories)
        self.factor, self.feature_names = factor, ("warmth",)

    @property
    def arguments(self) -> dict[str, Any]:
        return super().arguments | {"factor": self.factor}

    def forward(self, values: Tensor) -> Tensor:
        return self.factor * values[:, :1]


HEAT = {"class_path": f"{__name__}.HeatAlone", "init_args": {"factor": 2.0}}


def test_columns_are_the_features_by_default() -> None:
    data = GivenData()
    assert data.columns == data.feature_names == ("heat", "speed")


def test_encoder_of_ones_own_makes_the_features() -> None:
    data = GivenData(encoder=HEAT, include_time=False)
    assert data.columns == ("heat", "speed")
    assert data.feature_names == ("warmth",)
    for paths in data.splits:
        assert np.array_equal(data.states(paths).states, 2 * paths.states[:, :1])


def test_statistics_are_those_of_what_the_encoder_makes() -> None:
    data = GivenData(encoder=HEAT, include_time=False)
    heat = 2 * data.given.train.states[:, 0]
    np.testing.assert_allclose(data.statistics.mean, [heat.mean()], rtol=1e-12)
    np.testing.assert_allclose(data.statistics.scale, [heat.std()], rtol=1e-12)


def test_encoder_is_made_again_from_the_inputs_of_the_data() -> None:
    data, other = GivenData(encoder=HEAT), GivenData(random_paths(9, seed=7))
    other.read_as(data.inputs.plain())
    assert other.inputs == data.inputs
    paths = other.splits.train
    assert np.array_equal(other.states(paths).states[:, 0], 2 * paths.states[:, 0])


def test_reading_as_another_encoder_forgets_what_was_made_before() -> None:
    data = GivenData(include_time=False)
    assert len(data.statistics.mean) == 2
    data.read_as(GivenData(encoder=HEAT).inputs.plain())
    heat = 2 * data.given.train.states[:, 0]
    np.testing.assert_allclose(data.statistics.mean, [heat.mean()], rtol=1e-12)


def test_encoder_of_a_package_that_is_not_trusted_is_refused() -> None:
    with pytest.raises(UserError, match="strange_package"):
        _ = GivenData(encoder="strange_package.Encoder").encoder


def coloured_paths() -> TrajectorySet:
    paths = random_paths(20, seed=0)
    codes = np.random.default_rng(1).integers(3, size=(len(paths.states), 1))
    return TrajectorySet(
        states=np.concatenate([paths.states, codes], axis=1),
        times=paths.times,
        offsets=paths.offsets,
        stopped=paths.stopped,
        names=paths.names,
        feature_names=("heat", "speed", "colour"),
        categories={"colour": ("red", "blue", "green")},
    )


def test_paths_in_memory_keep_the_categories_of_their_codes() -> None:
    data = PathsData(coloured_paths(), include_time=False)
    assert data.columns == ("heat", "speed", "colour")
    assert data.feature_names == ("heat", "speed", "colour=red", "colour=blue", "colour=green")
    for paths in data.splits:
        assert paths.categories == {"colour": ("red", "blue", "green")}
        codes = np.argmax(data.states(paths).states[:, 2:], axis=1)
        assert np.array_equal(codes, paths.states[:, 2])


# Tables -----------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Write twenty paths of numbers and text, and return the file."""
    words = ("red", "blue", "green")
    rows = [
        f"p{i},{t},{i + 0.1 * t},{words[(i + t) % 3]}" for i in range(20) for t in range(3 + i % 4)
    ]
    file = tmp_path / "own.csv"
    file.write_text("\n".join(["unit,day,heat,colour", *rows]) + "\n")
    return str(file)


def table_data(file: str, **options: Any) -> TableData:
    return TableData(file=file, path="unit", time="day", **options)


def test_table_gives_columns_and_one_feature_per_category(table: str) -> None:
    data = table_data(table)
    assert data.columns == ("heat", "colour")
    assert data.feature_names == ("heat", "colour=blue", "colour=green", "colour=red")
    assert data.splits.train.feature_names == data.columns


def test_record_of_a_table_names_its_columns(table: str) -> None:
    record = table_data(table, time_unit="days").prepare_for()
    assert record.name == "own"
    assert record.table == TableColumns("unit", "day", time_unit="days")


def test_table_read_as_another_is_coded_by_the_categories_of_that_one(
    table: str, tmp_path: Path
) -> None:
    first = table_data(table)
    rows = [f"q{i},{t},green,{i}" for i in range(20) for t in range(4)]
    (tmp_path / "other.csv").write_text("\n".join(["unit,day,colour,heat", *rows]) + "\n")
    other = table_data(str(tmp_path / "other.csv"), include_time=False)
    other.read_as(first.inputs.plain())
    assert other.columns == first.columns
    paths = other.splits.train
    assert paths.categories == {"colour": ("blue", "green", "red")}
    assert other.states(paths).states[:, 1:].tolist() == [[0.0, 1.0, 0.0]] * len(paths.states)


def shuffled(table: str, folder: Path) -> tuple[str, list[list[str]]]:
    """Write the rows in another order; return the file and its cells."""
    header, *lines = Path(table).read_text().splitlines()
    lines = [lines[i] for i in np.random.default_rng(5).permutation(len(lines))]
    file = folder / "shuffled.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    return str(file), [line.split(",") for line in lines]


def test_rows_to_predict_are_named_as_they_stand_in_the_file(table: str, tmp_path: Path) -> None:
    file, cells = shuffled(table, tmp_path)
    data = table_data(file, sort=True)
    data.for_prediction()
    paths = data.splits.test
    named, position = data.named_rows(paths)
    assert named.column_names == ["unit", "day"]
    assert sorted(position) == list(range(len(cells)))
    found = zip(named["unit"].to_pylist(), named["day"].to_pylist(), position, strict=True)
    for (unit, day, at), heat in zip(found, paths.states[:, 0], strict=True):
        assert [unit, str(day), str(heat)] == [*cells[at][:2], str(float(cells[at][2]))]


def test_rows_of_other_data_are_named_by_path_and_time() -> None:
    data = GivenData()
    paths = data.given.val
    named, position = data.named_rows(paths)
    assert named.column_names == ["path", "time"]
    assert named["path"].to_pylist() == [paths.names[i] for i in paths.path_of_row]
    assert named["time"].to_pylist() == paths.times.tolist()
    assert position.tolist() == list(range(len(paths.states)))


def test_every_data_module_encodes_by_its_own_columns(table: str) -> None:
    for data in (GivenData(), PathsData(coloured_paths()), table_data(table)):
        encoder = data.encoder
        assert isinstance(encoder, ColumnEncoder)
        assert encoder.columns == data.columns
