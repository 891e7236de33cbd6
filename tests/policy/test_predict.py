"""Tables of all kinds in, the same kind out, every row where it was."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from policies import make_policy, random_paths

from lit_ios import StoppingPolicy
from lit_ios.batches import path_batch
from lit_ios.checkpoints import write_checkpoint
from lit_ios.checks import UserError
from lit_ios.sampling import fit_familiarity


def as_frame(paths, seed=None):
    frame = pd.DataFrame(paths.states, columns=["a", "b"])
    frame["unit"] = np.repeat(paths.names, paths.lengths)
    frame["day"] = paths.times
    return frame if seed is None else frame.sample(frac=1, random_state=seed)


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_rows_stay_where_they_were_and_have_the_margins_of_their_paths(variant):
    policy, paths = make_policy(variant), random_paths(12)
    expected = dict(zip(zip(np.repeat(paths.names, paths.lengths), paths.times, strict=True),
                        policy.margins(paths), strict=True))  # fmt: skip
    frame = as_frame(paths, seed=3)
    found = policy.predict(frame, path="unit", time="day", sort=True)
    assert isinstance(found, pd.DataFrame)
    assert found["unit"].tolist() == frame["unit"].tolist()
    assert found["day"].tolist() == frame["day"].tolist()
    for row in found.itertuples():
        margin = expected[row.unit, row.day]
        assert row.margin == pytest.approx(margin)
        assert row.stop == (margin >= policy.threshold)
        shifted = (margin - policy.threshold) / policy.epsilon
        assert row.probability == pytest.approx(1 / (1 + np.exp(-shifted)))
        assert row.stop == (row.probability >= 0.5)
    for _, part in found.sort_values("day").groupby("unit"):
        stops = np.flatnonzero(part["stop"])
        assert np.flatnonzero(part["first_stop"]).tolist() == stops[:1].tolist()


def test_kind_of_table_does_not_matter(tmp_path):
    policy, frame = make_policy(members=3), as_frame(random_paths())
    names = {"path": "unit", "time": "day"}
    expected = policy.predict(frame, **names)
    file = tmp_path / "table.csv"
    frame.to_csv(file, index=False)
    columns = {name: frame[name].tolist() for name in frame}
    for table in (pl.from_pandas(frame), pa.table(columns), columns, file, str(file)):
        found = policy.predict(table, **names)
        kind = pl.DataFrame if isinstance(table, pl.DataFrame) else pa.Table
        assert isinstance(found, kind)
        assert np.allclose(np.asarray(found["margin"]), expected["margin"])
        assert np.allclose(np.asarray(found["margin_spread"]), expected["margin_spread"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="b"), "no column 'b'; name one of 'a', 'unit', 'day'"),
        (lambda f: f.assign(b=np.nan), "column 'b', path 'p0', row 1: missing or infinite value"),
        (lambda f: f.assign(day=0.0), "the same time 0"),
        (lambda f: f.assign(a="x"), "column 'a': numbers needed, the paths hold text"),
        (lambda f: 7, "a table must be a DataFrame"),
    ],
)
def test_tables_that_do_not_fit_are_refused_with_the_place(change, message):
    with pytest.raises(UserError, match=message):
        make_policy().predict(change(as_frame(random_paths())), path="unit", time="day")


def test_index_of_a_data_frame_is_kept():
    policy, frame = make_policy(), as_frame(random_paths(), seed=2)
    frame.loc[frame.index[3], "a"] = np.nan
    last = frame.groupby("unit")["day"].transform("max") == frame["day"]
    frame = frame[~(frame["a"].isna() & last)]
    found = policy.predict(frame, path="unit", time="day", sort=True, missing="drop")
    assert found.index.tolist() == frame.index[frame["a"].notna()].tolist()
    assert (found["unit"] == frame.loc[found.index, "unit"]).all()


def test_single_precision_tables_are_judged_as_their_rows_live():
    policy, paths = make_policy("do_iqs_lb"), random_paths()
    single = paths.with_states(paths.states.astype(np.float32))
    single = replace(single, times=(single.times - 100) * 1_234_567.1)
    policy.rule.time_step.fill_(1e6)
    policy.rule.scaler.scale[-1] = 1e6
    margins = policy.margins(single)
    for i, path in enumerate(single):
        stream = policy.stream()
        for row, (x, time) in enumerate(zip(path.states, path.times, strict=True)):
            expected = margins[single.offsets[i] + row]
            assert stream.step(x, time).margin == pytest.approx(expected, abs=1e-9)


def test_policy_can_be_pickled():
    policy, paths = make_policy("do_iqs_lb", members=2), random_paths()
    again = pickle.loads(pickle.dumps(policy))
    assert np.array_equal(again.margins(paths), policy.margins(paths))
    assert again.stream().step([1.0, 2.0]) == policy.stream().step([1.0, 2.0])


def test_unknown_arguments_and_empty_tables_are_refused():
    frame = as_frame(random_paths())
    with pytest.raises(UserError, match="there is no argument stopp"):
        make_policy().predict(frame, path="unit", time="day", stopp="died")
    with pytest.raises(UserError, match="has no rows"):
        make_policy().predict(frame[:0], path="unit", time="day")


def test_columns_must_be_named_where_training_did_not():
    with pytest.raises(UserError, match="name the columns"):
        make_policy().predict(as_frame(random_paths()))


def test_many_rows_are_judged_by_parts_as_at_once(monkeypatch):
    from lit_ios.policy import judging as module

    policy, frame = make_policy(), as_frame(random_paths(30))
    names = {"path": "unit", "time": "day"}
    expected = policy.predict(frame, **names)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    pd.testing.assert_frame_equal(policy.predict(frame, **names), expected, rtol=1e-9)


def test_checkpoint_can_be_read_by_whoever_may_read_files(tmp_path):
    plain, saved = tmp_path / "plain", tmp_path / "policy.ckpt"
    plain.touch()
    write_checkpoint({}, saved)
    assert saved.stat().st_mode == plain.stat().st_mode
    saved.chmod(0o640)
    write_checkpoint({}, saved)
    assert saved.stat().st_mode & 0o777 == 0o640
    with pytest.raises(UserError, match="there is no folder"):
        write_checkpoint({}, tmp_path / "nowhere/policy.ckpt")


def test_checkpoint_of_something_else_is_refused(tmp_path):
    for name, content in {"a": {"weights": 1}, "b": {"state_dict": {}}}.items():
        write_checkpoint(content, tmp_path / name)
        with pytest.raises(UserError, match="is not a lit-ios checkpoint"):
            StoppingPolicy.load(tmp_path / name)
    (tmp_path / "c").write_text("text")
    with pytest.raises(UserError, match="is not a lit-ios checkpoint"):
        StoppingPolicy.load(tmp_path / "c")
    with pytest.raises(UserError, match=r"there is no file .*d: give a run folder or a checkpoint"):
        StoppingPolicy.load(tmp_path / "d")
    with pytest.raises(UserError, match=r"there is no file .*best\.ckpt: give a run folder"):
        StoppingPolicy.load(tmp_path)


def test_deciding_in_part_leaves_gradients_on():
    policy, paths = make_policy("iqs"), random_paths()
    next(iter(policy.decide(paths)))
    assert not torch.is_inference_mode_enabled()


def test_rows_in_other_units_are_marked_with_their_feature_and_said_once():
    policy, known = make_policy("iqs", include_time=False), random_paths(100)
    scaled = policy.rule.scaler(torch.from_numpy(known.states)).numpy()
    policy.rule.familiarity.set(fit_familiarity([known.with_states(scaled)]))
    frame = as_frame(known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert policy.predict(frame, path="unit", time="day")["familiar"].mean() > 0.95
    frame["a"] = frame["a"] * 100 + 1e4
    with pytest.warns(UserWarning, match=r"100 of 100 paths have rows unlike .* \(a\)"):
        found = policy.predict(frame, path="unit", time="day")
    assert not found["familiar"].any()
    assert set(found["unfamiliar"]) == {"a"}


@pytest.mark.filterwarnings("ignore:.* paths have rows unlike those of training")
def test_rows_are_unfamiliar_by_the_coordinates_that_the_rule_names():
    policy, paths = make_policy("iqs"), random_paths(60)
    names = policy.rule.current_names
    rows = policy.rule.states(path_batch(paths)).numpy()
    policy.rule.familiarity.set(fit_familiarity([paths.with_states(0.6 * rows, names)]))
    (decided,) = policy.decide(paths)
    columns = as_frame(paths).to_dict("list")
    found = policy.predict(columns, path="unit", time="day").to_pydict()
    expected = [
        ", ".join(names[i] for i in row if i >= 0) or None for row in decided.responsible.tolist()
    ]
    assert len(set(expected)) > 3  # familiar rows, and several ways of being unlike them
    assert found["unfamiliar"] == expected
    assert found["familiar"] == [one is None for one in expected]


def test_gains_of_continuing_are_those_of_the_memory_and_margins_the_same_without_them():
    policy, paths = make_policy("do_iqs_lb"), random_paths(12)
    rule, batch = policy.rule, path_batch(paths)
    (decided,), (plain,) = policy.decide(paths), policy.decide(paths, details=False)
    with torch.no_grad():
        gain = rule.memory.gain(rule.remember(batch).state)
    assert torch.equal(decided.continuation_gain, gain)
    assert torch.equal(decided.margin, plain.margin)
    assert plain.continuation_gain is None
