"""lit_ios.fit: from a table to a rule, and what it says to likely mistakes."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import torch
from repository import ROOT

import lit_ios
from lit_ios import StoppingPolicy, training
from lit_ios.checks import UserError
from lit_ios.data_record import TableColumns
from lit_ios.policy.tables import as_arrow
from lit_ios.readers import TableRoles
from lit_ios.readers.table import open_table, source_paths

ROLES = {"path": "patient", "time": "day", "stop": "died"}


def make_table(paths=24, seed=0, gap=False):
    """Patients whose heat walks up until it passes their limit, or who leave after 12 days."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(paths):
        heat = np.cumsum(rng.normal(0.2, 0.5, size=12))
        over = np.flatnonzero(heat >= rng.uniform(1, 2))
        length = over[0] + 1 if len(over) else 12
        parts.append(
            pd.DataFrame(
                {
                    "patient": f"s{seed}-{number}",
                    "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(length), "D"),
                    "heat": heat[:length],
                    "ward": rng.choice(["east", "west"], size=length),
                    "fasting": rng.random(length) < 0.5,
                    "died": [0] * (length - 1) + [int(len(over) > 0)],
                }
            )
        )
    table = pd.concat(parts, ignore_index=True)
    if gap:
        table.loc[[0, 5], "heat"] = np.nan
    return table


TABLE = make_table()
FRESH = make_table(seed=1)
STOPPED = int(TABLE["died"].sum())


def fit_quickly(table=TABLE, **arguments):
    known = ROLES | {"quick": "model" not in arguments, "epochs": 2, "progress": False}
    return lit_ios.fit(table, **known | arguments)


@pytest.fixture(scope="module")
def rule():
    return fit_quickly(epochs=5, time_unit="days")


def test_new_tables_need_no_column_names(rule):
    found = rule.predict(FRESH.drop(columns="died"))
    assert isinstance(found, pd.DataFrame)
    assert found[["patient", "day"]].equals(FRESH[["patient", "day"]])
    assert np.isfinite(found["margin"]).all()


def test_repr_says_what_the_rule_is(rule):
    assert repr(rule) == (
        f"StoppingPolicy: gru on heat, ward, fasting; 24 paths ({STOPPED} stopped) of 'patient' "
        f"over 'day'; 8 members; held-out balanced accuracy {rule.held_out:.2f}; "
        f"threshold {rule.threshold:.4g}"
    )
    assert 0.5 < rule.held_out <= 1


def test_rule_is_saved_and_loaded_as_it_is(rule, tmp_path):
    rule.save(tmp_path / "rule.ckpt")
    again = StoppingPolicy.load(tmp_path / "rule.ckpt")
    assert repr(again) == repr(rule)
    assert again.predict(FRESH).equals(rule.predict(FRESH))
    assert again.table == TableColumns("patient", "day", "died", time_unit="days", dates=True)


def test_calibrated_rule_keeps_its_promise_in_the_file(rule, tmp_path):
    fresh = make_table(paths=60, seed=2)
    rule.save(tmp_path / "before.ckpt")
    own = StoppingPolicy.load(tmp_path / "before.ckpt")
    promised = own.calibrate(fresh, max_event_miss_rate=0.2)
    own.save(tmp_path / "after.ckpt")
    again = StoppingPolicy.load(tmp_path / "after.ckpt")
    assert (again.threshold, again.calibration) == (own.threshold, promised)


def test_training_paths_are_refused_for_calibration(rule):
    with pytest.raises(UserError, match="24 of the 24 calibration paths were trained on"):
        rule.calibrate(TABLE)


def test_rule_streams_and_exports(rule, tmp_path):
    path = FRESH[FRESH["patient"] == "s1-3"]
    stream = rule.stream()
    live = [
        stream.step({"heat": row.heat, "ward": row.ward, "fasting": row.fasting}, row.day).margin
        for row in path.itertuples()
    ]
    assert np.allclose(live, rule.predict(path)["margin"], atol=1e-9)
    assert rule.export(tmp_path / "rule.pt2").is_file()


@pytest.mark.parametrize(
    "convert",
    [polars.from_pandas, pa.Table.from_pandas, lambda table: table.to_dict("list"),
     lambda table: table.astype({"ward": "category"})],
    ids=["polars", "pyarrow", "dictionary", "category"],
)  # fmt: skip
def test_every_kind_of_table_gives_the_same_rule(rule, convert):
    other = fit_quickly(convert(TABLE), epochs=5, time_unit="days")
    assert repr(other) == repr(rule)
    assert np.array_equal(
        np.asarray(other.predict(convert(FRESH))["margin"]), rule.predict(FRESH)["margin"]
    )


def test_a_file_gives_the_same_rule(rule, tmp_path):
    TABLE.to_parquet(tmp_path / "my.parquet")
    other = fit_quickly(str(tmp_path / "my.parquet"), epochs=5, time_unit="days")
    assert repr(other) == repr(rule)


def test_auto_takes_the_candidate_of_the_highest_held_out_accuracy(monkeypatch):
    found = {}
    train = training.train_variant

    def remembered(paths, variant, **settings):
        found[variant.name] = train(paths, variant, **settings)
        return found[variant.name]

    monkeypatch.setattr(training, "train_variant", remembered)
    rule = fit_quickly(quick=False, epochs=1)
    assert list(found) == ["none", "lags", "accumulate", "gru"]
    assert rule.held_out == max(trained.held_out for trained in found.values())


@pytest.mark.parametrize("model", ["do_iqs_lb", "iqs_smote", "oti"])
def test_a_variant_can_be_named(model):
    rule = fit_quickly(model=model, epochs=1)
    assert repr(rule).startswith(f"StoppingPolicy: {model} on heat, ward, fasting; ")
    assert rule.validates_on_training_paths == (model != "iqs_smote")  # SMOTE and folds exclude


def test_arguments_reach_module_and_data():
    rule = fit_quickly(
        model="iqs", model_args={"hidden": [5], "gamma": 0.9}, data_args={"include_time": False}
    )
    assert rule.rule.gamma == 0.9
    assert rule.rule.state_dim == 4  # heat, two wards, fasting; no time


def test_roles_of_the_readers_are_passed_on():
    words = TABLE.assign(died=np.where(TABLE["died"] == 1, "dead", "alive"), note="x")
    rule = fit_quickly(words, drop=["note", "ward"], stop_value="dead")
    assert rule.columns == ("heat", "fasting")
    assert f"({STOPPED} stopped)" in repr(rule)


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.int64(1)])
def test_a_stop_value_may_be_a_number(value):
    rule = fit_quickly(TABLE, stop_value=value, model="iqs", epochs=1)
    assert f"({STOPPED} stopped)" in repr(rule)


def test_gaps_are_imputed_by_the_rule():
    with pytest.raises(UserError, match="missing"):
        fit_quickly(make_table(gap=True))
    rule = fit_quickly(make_table(gap=True), missing="impute")
    assert np.isfinite(rule.predict(make_table(seed=1, gap=True))["margin"]).all()


def test_same_seed_same_rule_and_global_randomness_is_left_alone():
    state = torch.get_rng_state()
    margins = [fit_quickly(seed=seed).predict(FRESH)["margin"] for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(margins[0], margins[1])
    assert not np.array_equal(margins[0], margins[2])


def test_bar_goes_to_stderr_and_nothing_else_is_written(tmp_path):
    TABLE.to_parquet(tmp_path / "my.parquet")
    code = (
        "import lit_ios; lit_ios.fit('my.parquet', path='patient', time='day', stop='died', "
        "epochs=2, quick=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == ""
    assert "gru" in done.stderr
    assert all("epoch" in line or not line.strip() for line in done.stderr.split("\r"))
    assert [file.name for file in tmp_path.iterdir() if file.suffix] == ["my.parquet"]


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_quickly(epochs=5)


def test_constant_features_are_named_once():
    with pytest.warns(UserWarning, match="ignored: age") as caught:
        fit_quickly(TABLE.assign(age=70.0))
    assert len(caught) == 1


def test_interruption_is_an_interruption(monkeypatch):
    def interrupt(bar, accuracy):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Bar, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_quickly()


def few(stopped):
    """Return the table of so many stopped patients, and of all censored ones."""
    stops = TABLE[TABLE["died"] == 1]["patient"]
    return TABLE[~TABLE["patient"].isin(stops[stopped:])]


def test_few_stopped_paths_are_noted():
    with pytest.warns(UserWarning, match="only 6 stopped paths") as caught:
        fit_quickly(few(6), quick=False, epochs=1)  # four candidates say it once
    assert len([one for one in caught if "stopped" in str(one.message)]) == 1


def test_three_stopped_paths_are_too_few():
    with pytest.raises(UserError, match=r"3 of \d+ paths were stopped.* at least 4 .* give more"):
        fit_quickly(few(3))


def test_a_rule_that_never_stops_is_said_in_words(monkeypatch):
    train = training.train_variant

    def never(*args, **settings):
        trained = train(*args, **settings)
        trained.policy.threshold = np.inf
        return trained._replace(never_stops=True)

    monkeypatch.setattr(training, "train_variant", never)
    with pytest.warns(UserWarning, match="the rule stops none of the paths it was not trained on"):
        rule = fit_quickly()
    assert repr(rule).endswith("threshold inf (never stops)")


def test_whether_a_rule_ever_stops_is_measured_by_members_that_left_the_paths_out():
    roles = TableRoles(**ROLES)
    paths = source_paths(open_table(as_arrow(TABLE), roles), roles, training=True)[0]
    data = training.PathsData(paths, folds=2, oversampling="none")
    model = training.modules.IQS.for_data(data, members=2)
    model.take_over(data.prepare_for(2))
    policy = StoppingPolicy(model.rule)
    batch = data.first_paths("val")[0]
    largest = float(policy.rule.scan(batch, batch.judges).margin.max())
    for threshold, never in ((largest, False), (np.nextafter(largest, np.inf), True)):
        policy.threshold = threshold
        assert training._never_stops(policy, data) == never


def test_a_leak_is_asked_about():
    left = TABLE.groupby("patient").cumcount(ascending=False)
    censored = TABLE.groupby("patient")["died"].transform("max") == 0
    leaking = TABLE.assign(days_left=left.where(~censored, 99))
    with pytest.raises(
        UserError, match=r"possible leak: .*drop=\['days_left'\].*keep=\['days_left"
    ):
        fit_quickly(leaking)
    fit_quickly(leaking, keep=["days_left"], epochs=1)


def test_features_that_are_the_same_on_all_rows_are_asked_about():
    of_path = TABLE["patient"].astype("category").cat.codes % 3
    table = TABLE.assign(clinic=of_path, age=70.0)
    with pytest.warns(UserWarning, match=r"the same on all rows of a path: clinic; ") as caught:
        fit_quickly(table, model="iqs", epochs=1)
    assert len([one for one in caught if "of a path" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_quickly(table.drop(columns="age"), model="iqs", epochs=1, keep=["clinic"])


def test_misspelt_arguments_of_calibrate_are_answered_with_the_nearest(rule):
    with pytest.raises(UserError, match="max_mis_rate; did you mean 'max_event_miss_rate'"):
        rule.calibrate(FRESH, max_mis_rate=0.1)
    with pytest.raises(UserError, match="pth; did you mean 'path'"):
        rule.predict(FRESH, pth="patient")


MISTAKES = {
    "misspelt column": (TABLE, {"path": "pateint"}, "no column 'pateint'; did you mean 'patient'"),
    "no rows": (TABLE[:0], {}, "has no rows"),
    "list of paths": (TABLE, {"path": ["patient"]},
                      "path must be the name of one column, got a list of 1: path='…'"),
    "column for its name": (TABLE, {"path": TABLE["patient"]},
                            "path must be the name of one column, got a Series"),
    "a Series": (TABLE["heat"], {}, r"a single column \(Series\): give the DataFrame"),
    "a number": (3.5, {}, "a table must be a DataFrame, an Arrow table, .*, got float"),
    "stop in other words": (TABLE.assign(died=np.where(TABLE["died"] == 1, "dead", "alive")), {},
                            "column 'died'.*(dead|alive).*stop"),
    "time falls": (TABLE[::-1], {}, "column 'day'.*put the rows into order"),
    "same time twice": (pd.concat([TABLE[:1].assign(heat=0.5), TABLE]), {}, "the same time"),
    "index": (TABLE.set_index("patient"), {}, r"'patient' is the index .*df\.reset_index\(\)"),
    "two columns of one name": (pd.concat([TABLE, TABLE[["heat"]]], axis=1), {},
                                "more than one column is named 'heat'"),
    "two roles": (TABLE, {"time": "patient"}, "one column has two roles"),
    "unknown keyword": (TABLE, {"censord": "x"}, "no argument censord; did you mean 'censored'"),
    "misspelt path": (TABLE, {"path": None, "pth": "patient"},
                      "there is no argument pth; did you mean 'path'"),
    "no path": (TABLE, {"path": None}, "name the column of paths: fit"),
    "misspelt model": (TABLE, {"model": "do_iqs_bl"},
                       "there is no variant 'do_iqs_bl'; did you mean 'do_iqs"),
    "a class for a model": (TABLE, {"model": StoppingPolicy},
                            "model must be the name of a variant"),
    "features in one word": (TABLE, {"features": "heat"}, r"write features=\['heat'\]"),
    "epochs": (TABLE, {"epochs": 0}, "epochs must be an integer of at least 1"),
    "half an epoch": (TABLE, {"epochs": 2.5}, "epochs must be an integer of at least 1, got 2.5"),
    "seed below 0": (TABLE, {"seed": -1}, "seed must be an integer of at least 0, got -1"),
    "no seed": (TABLE, {"seed": None}, "seed must be an integer of at least 0, got None"),
    "grouped": (TABLE.groupby("patient"), {}, "must be a DataFrame, .*, got DataFrameGroupBy$"),
    "not yet read": (polars.from_pandas(TABLE).lazy(), {}, r"LazyFrame .*give table\.collect\(\)"),
    "records": (TABLE.to_dict("records"), {}, r"got list: pandas\.DataFrame\(…\) makes one"),
    "numbers and text": (TABLE.assign(heat=["high", *TABLE["heat"][1:]]), {},
                         "column 'heat' holds values of several kinds: make them one"),
    "durations": (TABLE.assign(day=pd.to_timedelta(range(len(TABLE)), "D")), {},
                  r"times must be numbers or dates, not duration.*; write numbers"),
    "the path as a feature": (TABLE, {"features": ["heat", "patient"]},
                              "'patient' says which path it is .* take it out of features"),
    "the outcome as a feature": (TABLE, {"features": ["heat", "died"]},
                                 "'died' says which path it is or how it ended"),
    "misspelt argument of the module": (TABLE, {"model": "iqs", "model_args": {"hiden": [4]}},
                                        "there is no argument hiden; did you mean 'hidden'"),
    "misspelt argument of the data": (TABLE, {"data_args": {"batchsize": 4}},
                                      "there is no argument batchsize; did you mean 'batch_size'"),
    "memory with auto": (TABLE, {"model_args": {"memory": "gru"}}, "auto chooses memory"),
    "lags with auto": (TABLE, {"data_args": {"lags": 2}}, "auto chooses lags"),
    "quick with a variant": (TABLE, {"model": "iqs", "quick": True},
                             "quick goes with model='auto'"),
    "no file": ("nowhere.csv", {}, "nowhere.csv"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_likely_mistake_ends_in_one_sentence(mistake):
    table, arguments, message = MISTAKES[mistake]
    with pytest.raises(UserError, match=message) as caught:
        fit_quickly(table, **arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 350


PAGE = (ROOT / "docs/policy.md").read_text()
BLOCKS = {
    heading: re.search(rf"## {heading}\n.*?```python\n({start}.*?)```", PAGE, re.S)[1]
    for heading, start in (("In Python", "import"), ("scikit-learn", "from lit_ios import Path"))
}


@pytest.mark.parametrize("heading", BLOCKS)
def test_examples_of_the_page_run(heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(lit_ios.fit.__kwdefaults__, "epochs", 1)
    made = lit_ios.StoppingClassifier.__init__
    monkeypatch.setattr(made, "__defaults__", ("auto", 1, *made.__defaults__[2:]))  # epochs
    fresh = make_table(paths=60, seed=2)
    names = {
        "df": TABLE, "new_df": FRESH.drop(columns="died"), "fresh_df": fresh,
        "table": TABLE.drop(columns="died").rename(columns={"patient": "unit"}), "y": TABLE["died"],
    }  # fmt: skip
    exec(compile(BLOCKS[heading], "docs/policy.md", "exec"), names)
    if heading == "In Python":
        assert len(names["decided"]) == len(FRESH)
        assert StoppingPolicy.load("rule.ckpt").calibration.level("MissRate") == 0.1
    else:
        assert np.isfinite(names["search"].cv_results_["mean_test_score"]).all()


def test_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(lit_ios.fit.__kwdefaults__, "epochs", 1)
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    named = {"patient": "unit", "day": "cycle", "died": "failed"}
    names = {"df": TABLE.rename(columns=named), "new_df": FRESH.rename(columns=named),
             "fresh_df": make_table(paths=60, seed=2).rename(columns=named)}  # fmt: skip
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["decisions"]) == len(FRESH)
    assert names["rule"].calibration.level("MissRate") == 0.05
