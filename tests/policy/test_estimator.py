"""The estimator behaves as scikit-learn expects, and as the variants do."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lit_ios import PathFolds, StoppingClassifier
from lit_ios.checks import UserError


def make_rows(paths=40, seed=0, first=0):
    """Walks in the plane that stop on leaving the unit disc, or are censored after 15 rows."""
    rng = np.random.default_rng(seed)
    x, y, groups = [], [], []
    for group in rng.permutation(paths):
        walk = np.cumsum(rng.normal(0, 0.35, size=(15, 2)), axis=0)
        outside = np.flatnonzero(np.hypot(*walk.T) >= 1)
        length = outside[0] + 1 if len(outside) else 15
        x += walk[:length].tolist()
        y += [0] * (length - 1) + [int(len(outside) > 0)]
        groups += [first + group] * length
    return np.array(x), np.array(y), np.array(groups)


X, Y, GROUPS = make_rows()
FRESH = make_rows(seed=1, first=100)


@pytest.fixture(scope="module")
def fitted():
    return StoppingClassifier("iqs", epochs=30).fit(X, Y, GROUPS)


def test_learns_the_region(fitted):
    assert fitted.score(*FRESH) > 0.85


def test_score_is_the_balanced_accuracy_of_rows_stopped_from_the_first_stop_on(fitted):
    x, y, groups = FRESH
    row_by_row = fitted.predict(x, groups)
    stopped = np.array(
        [row_by_row[: i + 1][groups[: i + 1] == groups[i]].max() for i in range(len(y))]
    )
    assert fitted.score(x, y, groups) == pytest.approx(balanced_accuracy_score(y, stopped))


def test_a_model_that_never_stops_still_ranks_rows(fitted):
    x, y, groups = FRESH
    never = copy.deepcopy(fitted)
    never.policy_.threshold = np.inf
    assert not never.predict(x, groups).any()
    ranked = [roc_auc_score(y, model.decision_function(x, groups)) for model in (fitted, never)]
    assert ranked[0] == ranked[1]


def test_predictions_agree_with_each_other(fitted):
    x, _, groups = FRESH
    margin, probability = fitted.decision_function(x, groups), fitted.predict_proba(x, groups)
    assert (fitted.predict(x, groups) == (margin >= 0)).all()
    assert np.allclose(probability.sum(axis=1), 1)
    assert ((probability[:, 1] >= 0.5) == (margin >= 0)).all()
    assert fitted.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("variant", ["iqs", "do_iqs_lb"])
def test_order_of_groups_does_not_matter_but_that_of_rows_does(variant):
    model = StoppingClassifier(variant, epochs=2, lags=1).fit(X, Y, GROUPS)
    x, _, groups = FRESH
    together = model.decision_function(x, groups)
    order = np.concatenate([np.flatnonzero(groups == g) for g in np.unique(groups)[::-1]])
    assert np.allclose(model.decision_function(x[order], groups[order]), together[order])
    mixed = np.random.default_rng(0).permutation(np.unique(groups))
    shuffled = np.concatenate([np.flatnonzero(groups == g) for g in mixed])
    assert np.allclose(model.decision_function(x[shuffled], groups[shuffled]), together[shuffled])


def test_same_seed_same_model_and_global_randomness_is_left_alone():
    torch.manual_seed(5)
    first = StoppingClassifier("iqs", epochs=2).fit(X, Y, GROUPS).decision_function(X, GROUPS)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    second = StoppingClassifier("iqs", epochs=2).fit(X, Y, GROUPS).decision_function(X, GROUPS)
    assert torch.rand(1) == expected
    assert (first == second).all()


def test_parameters_can_be_read_set_and_cloned():
    model = StoppingClassifier("classifier", epochs=3, hidden=(8,), model_args={"gamma": 0.9})
    copy = clone(model).set_params(epochs=4)
    assert copy.get_params() == model.get_params() | {"epochs": 4}
    assert copy.fit(X, Y, GROUPS).policy_.rule.gamma == 0.9


@pytest.mark.parametrize("variant", ["classifier_smote", "iqs_cs_smote", "do_iqs_lb"])
def test_grid_search_over_groups_in_a_pipeline(variant):
    x = np.column_stack([X, GROUPS])
    model = StoppingClassifier(variant, epochs=2, group_column=-1)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {"stoppingclassifier__hidden": [(4,), (8, 8)]},
        cv=GroupKFold(2), error_score="raise",
    ).fit(x, Y, groups=GROUPS)  # fmt: skip
    assert search.predict(x).shape == Y.shape
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_columns_by_name_are_no_features():
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(unit=GROUPS)
    frame["day"] = frame.groupby("unit").cumcount() * 3.0
    model = StoppingClassifier("iqs", epochs=2, group_column="unit", time_column="day")
    model.fit(frame, Y)
    assert model.policy_.columns == ("u", "v")
    assert float(model.policy_.rule.time_step) == 3.0
    given = StoppingClassifier("iqs", epochs=2).fit(X, Y, GROUPS, frame["day"])
    expected = given.decision_function(X, GROUPS, frame["day"])
    assert np.allclose(model.decision_function(frame), expected)


def test_without_groups_paths_end_at_stops():
    ended = np.concatenate([np.flatnonzero(g == GROUPS) for g in np.unique(GROUPS)
                            if Y[g == GROUPS].any()])  # fmt: skip
    model = StoppingClassifier("iqs", epochs=2).fit(X[ended], Y[ended])
    grouped = StoppingClassifier("iqs", epochs=2).fit(X[ended], Y[ended], GROUPS[ended])
    assert model.score(X[ended], Y[ended]) == grouped.score(X[ended], Y[ended], GROUPS[ended])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variant": "svm"}, "there is no variant 'svm'"),
        ({"group_column": "unit"}, "X has no column 'unit'; there are x0, x1"),
        ({"group_column": 0, "time_column": "x0"}, "group_column and time_column are the same"),
        ({"margin": "best"}, "margin"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_wrong_parameters_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        StoppingClassifier(**{"epochs": 1} | change).fit(
            X, Y, None if change.get("group_column") else GROUPS
        )


def test_model_fitted_to_groups_asks_for_them(fitted):
    for method in (fitted.predict, fitted.decision_function, fitted.predict_proba):
        with pytest.raises(UserError, match="give groups here too"):
            method(X)
    with pytest.raises(UserError, match="give groups here too"):
        fitted.score(X, Y)


def test_fitted_model_can_be_pickled(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X, GROUPS), fitted.predict(X, GROUPS))


def test_labels_may_be_text_and_the_larger_one_stops():
    labels = np.where(Y == 1, "stop", "go")
    model = StoppingClassifier("iqs", epochs=2).fit(X, labels, GROUPS)
    assert set(model.predict(X, GROUPS)) <= {"go", "stop"}
    with pytest.raises(UserError, match=r"follow after its stop \(class run\)"):
        StoppingClassifier("iqs", epochs=2).fit(X, np.where(Y == 1, "fail", "run"), GROUPS)


def test_folds_train_on_all_paths():
    model = StoppingClassifier("iqs", epochs=2, members=4, folds=2).fit(X, Y, GROUPS)
    assert model.policy_.validates_on_training_paths
    with pytest.raises(UserError, match="must divide"):
        StoppingClassifier("iqs", epochs=2, folds=2).fit(X, Y, GROUPS)


def test_random_state_may_be_none_or_a_generator():
    for state in (None, np.random.RandomState(0)):
        StoppingClassifier("iqs", epochs=1, random_state=state).fit(X, Y, GROUPS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": [1.0]}, "times of shape"),
        ({"groups": [0]}, "groups of shape"),
        ({"groups": np.full(len(Y), np.nan)}, "a group is missing"),
    ],
)
def test_groups_and_times_must_fit_the_rows(arguments, message):
    with pytest.raises(UserError, match=message):
        StoppingClassifier("iqs", epochs=1).fit(X, Y, **({"groups": GROUPS} | arguments))


def test_rows_after_a_stop_are_refused():
    y = Y.copy()
    y[np.flatnonzero(GROUPS[0] == GROUPS)[0]] = 1
    with pytest.raises(UserError, match=f"row 0: rows of group {GROUPS[0]} follow after its stop"):
        StoppingClassifier("iqs", epochs=1).fit(X, y, GROUPS)
    with pytest.raises(UserError, match="two classes"):
        StoppingClassifier("iqs", epochs=1).fit(X, np.zeros_like(Y), GROUPS)


def test_grids_of_numpy_numbers_can_be_searched():
    grid = {
        "epochs": np.arange(1, 3), "learning_rate": np.logspace(-3, -2, 2),
        "lags": np.array([1]), "hidden": [tuple(np.array([8, 8]))],
        "model_args": [{"gamma": np.float64(0.9)}],
    }  # fmt: skip
    frame = np.column_stack([X, GROUPS])
    search = GridSearchCV(
        StoppingClassifier("iqs", group_column=-1), grid, cv=GroupKFold(2), error_score="raise"
    )
    search.fit(frame, Y, groups=GROUPS)
    assert search.best_estimator_.policy_.rule.window.lags == 1
    with pytest.raises(UserError, match="whole number"):
        StoppingClassifier("iqs", epochs=1.5).fit(X, Y, GROUPS)


def test_by_default_candidates_are_trained_and_the_best_one_is_taken():
    model = StoppingClassifier(epochs=2).fit(X, Y, GROUPS)
    assert sorted(model.scores_) == ["accumulate", "gru", "lags", "none"]
    assert model.scores_[model.candidate_] == max(model.scores_.values())
    lags = {"lags": 4}.get(model.candidate_, 0)
    assert model.policy_.rule.window.lags == lags
    assert 0.5 < model.score(X, Y, GROUPS) <= 1


def test_auto_needs_some_stopped_paths():
    few = np.isin(GROUPS, np.unique(GROUPS)[:3])
    with pytest.raises(ValueError, match="at least 4 stopped paths"):
        StoppingClassifier(epochs=1).fit(X[few], Y[few], GROUPS[few])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"margin": "zero"}, "set margin='validated'"),
        ({"lags": 0}, "auto chooses lags"),
        ({"model_args": {"memory": "gru"}}, "auto chooses memory"),
    ],
)
def test_auto_refuses_what_would_make_its_candidates_alike(given, message):
    with pytest.raises(ValueError, match=message):
        StoppingClassifier(epochs=1, **given).fit(X, Y, GROUPS)


# DataFrames ---------------------------------------------------------------------------------------


def as_frame(x, groups):
    """Return rows with text, categories, true and false, text groups and dates."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(x, columns=["u", "v"])
    frame["unit"] = [f"unit {group}" for group in groups]
    frame["colour"] = rng.choice(["red", "blue"], size=len(x))
    frame["shape"] = pd.Categorical(rng.choice(["round", "square"], size=len(x)))
    frame["open"] = rng.random(len(x)) < 0.5
    steps = frame.groupby("unit").cumcount()
    return frame.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(2 * steps, "D"))


FRAME = as_frame(X, GROUPS)
TEXT = StoppingClassifier(
    "iqs", epochs=2, group_column="unit", time_column="day", time_unit="days"
)  # fmt: skip


@pytest.fixture(scope="module")
def framed():
    return clone(TEXT).fit(FRAME, Y)


def test_frames_with_text_give_the_model_of_the_coded_array(framed):
    coded = np.column_stack([
        X, FRAME["colour"] == "blue", FRAME["colour"] == "red",
        FRAME["shape"] == "round", FRAME["shape"] == "square", FRAME["open"],
    ]).astype(float)  # fmt: skip
    times = FRAME.groupby("unit").cumcount() * 2.0
    plain = StoppingClassifier("iqs", epochs=2).fit(coded, Y, FRAME["unit"], times)
    assert framed.policy_.rule.encoder.feature_names == (
        "u", "v", "colour=blue", "colour=red", "shape=round", "shape=square", "open",
    )  # fmt: skip
    expected = plain.decision_function(coded, FRAME["unit"], times)
    assert np.allclose(framed.decision_function(FRAME), expected)
    assert float(framed.policy_.rule.time_step) == 2.0


def test_policy_of_a_frame_knows_its_columns(framed):
    fresh = as_frame(FRESH[0], FRESH[2])
    margin = framed.policy_.predict(fresh)["margin"] - framed.policy_.threshold
    assert np.allclose(margin, framed.decision_function(fresh))


def test_polars_frames_are_taken(framed):
    other = clone(TEXT).fit(polars.from_pandas(FRAME), polars.Series(Y))
    assert np.array_equal(other.predict_proba(FRAME), framed.predict_proba(FRAME))
    assert other.score(polars.from_pandas(FRAME), Y) == framed.score(FRAME, Y)


def test_columns_of_a_frame_must_be_those_of_fit(framed):
    with pytest.raises(ValueError, match="feature names"):
        framed.predict(FRAME[FRAME.columns[::-1]])
    with pytest.raises(UserError, match=r"column 'colour'.*'green'"):
        framed.predict(as_frame(FRESH[0], FRESH[2]).assign(colour="green"))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(TEXT).fit(FRAME, Y[:-1])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("u", np.nan, "column 'u', path 'unit .*', row 4: missing or infinite value; fill it in"),
        ("colour", None, "column 'colour', path 'unit .*', row 4: missing"),
        ("unit", None, "a group is missing"),
        ("day", pd.NaT, "column 'day'.*no time"),
    ],
)
def test_gaps_of_a_frame_are_refused_with_their_place(column, value, message):
    frame = FRAME.copy()
    frame.loc[3, column] = value
    with pytest.raises(UserError, match=message):
        clone(TEXT).fit(frame, Y)


def test_groups_may_be_text_and_times_dates_beside_an_array():
    dates = FRAME["day"].to_numpy()
    for days in (dates, FRAME["day"], list(FRAME["day"].astype(str))):
        model = StoppingClassifier("iqs", epochs=1, time_unit="days")
        model.fit(X, Y, list(FRAME["unit"]), days)
        assert float(model.policy_.rule.time_step) == 2.0


def test_misspelt_column_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="X has no column 'unti'; did you mean 'unit'"):
        StoppingClassifier("iqs", group_column="unti").fit(FRAME, Y)


# Paths must stay whole ----------------------------------------------------------------------------

TORN = r"rows of group .* were split between training and scoring: use cv=PathFolds\(group_column="
SMALL = StoppingClassifier("iqs", epochs=1, group_column="unit")
GRID = {"hidden": [(4,), (8,)]}
PLAIN = FRAME[["u", "v", "unit"]]


@pytest.mark.parametrize("cv", [None, KFold(3), KFold(3, shuffle=True, random_state=0)], ids=str)
@pytest.mark.parametrize("scoring", [None, "roc_auc"])
def test_grid_search_that_splits_paths_is_refused(cv, scoring):
    search = GridSearchCV(SMALL, GRID, cv=cv, scoring=scoring, error_score="raise")
    with pytest.raises(UserError, match=TORN):
        search.fit(PLAIN, Y)


def test_grid_search_that_splits_paths_says_so_where_errors_become_nan():
    search = GridSearchCV(SMALL, GRID)
    with pytest.warns(UserWarning, match=TORN):
        search.fit(PLAIN, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


def test_predictions_of_split_paths_are_refused():
    with pytest.raises(UserError, match=TORN):
        cross_val_predict(SMALL, PLAIN, Y)


@pytest.mark.parametrize("column", ["unit", 2])
def test_grid_search_over_whole_paths_works(column):
    model = clone(SMALL).set_params(group_column=column)
    search = GridSearchCV(model, GRID, cv=PathFolds(3, column), error_score="raise")
    search.fit(PLAIN, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(cross_val_predict(model, PLAIN, Y, cv=PathFolds(3, column))) == len(Y)


@pytest.fixture(scope="module")
def known():
    """Return a fitted model, and the rows of a long path that was stopped."""
    model = clone(TEXT).fit(FRAME, Y)
    lengths = FRAME.groupby("unit")["u"].size()
    stopped = FRAME["unit"][Y == 1]
    path = FRAME[FRAME["unit"] == next(name for name in stopped if lengths[name] > 6)]
    return model, path.reset_index(drop=True)


def test_training_paths_may_come_back_whole_begun_continued_or_again(known):
    model, path = known
    longer = path.iloc[[-1]].assign(day=path["day"].iloc[-1] + pd.Timedelta("2D"), u=9.0)
    again = path.assign(day=path["day"] + pd.Timedelta("90D"), u=path["u"] + 1)
    for rows in (path, path[:3], path[:1], pd.concat([path, longer]), again):
        assert len(model.predict(rows)) == len(rows)


def test_torn_training_paths_are_refused(known):
    model, path = known
    for rows in (path[1:], path[2:4], path.drop(index=2), path[-1:]):
        with pytest.raises(UserError, match=TORN):
            model.predict(rows)


# PathFolds ----------------------------------------------------------------------------------------


def stops_and_paths(groups, y, rows):
    return y[rows].sum(), len(np.unique(groups[rows]))


@pytest.mark.parametrize("shuffle", [False, True])
def test_folds_keep_paths_whole_and_share_out_stops(shuffle):
    x, y, groups = make_rows(paths=37)
    x = np.column_stack([x, groups])
    folds = PathFolds(4, group_column=-1, shuffle=shuffle, random_state=0 if shuffle else None)
    splits = list(folds.split(x, y))
    assert len(splits) == folds.get_n_splits() == 4
    assert np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(len(y)))
    for train, test in splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert not np.intersect1d(groups[train], groups[test]).size
        stops, paths = stops_and_paths(groups, y, test)
        assert abs(stops - y.sum() / 4) < 1
        assert abs(paths - 37 / 4) < 1


def test_folds_are_repeatable_and_shuffled_by_their_seed():
    def dealt(**options):
        return [test.tolist() for _, test in PathFolds(4, **options).split(X, Y, GROUPS)]

    assert dealt(shuffle=True, random_state=1) == dealt(shuffle=True, random_state=1)
    assert dealt(shuffle=True, random_state=1) != dealt()


def test_folds_take_groups_from_the_argument_the_column_or_the_stops():
    ended = Y.cumsum() - Y
    own = [test.tolist() for _, test in PathFolds(3).split(X, Y)]
    assert own == [test.tolist() for _, test in PathFolds(3).split(X, Y, ended)]
    for frame in (PLAIN, polars.from_pandas(PLAIN)):
        by_name = [test.tolist() for _, test in PathFolds(3, "unit").split(frame, Y)]
        assert by_name == [test.tolist() for _, test in PathFolds(3).split(X, Y, GROUPS)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_splits": 1}, "n_splits must be a number of at least 2"),
        ({"n_splits": 41}, "40 paths cannot be dealt out to 41 folds: set n_splits lower"),
        ({"n_splits": 39}, "stopped paths cannot be dealt out to 39 folds"),
        ({"group_column": "unti"}, "did you mean 'unit'"),
    ],
)
def test_folds_refuse_what_cannot_be_dealt_out(options, message):
    with pytest.raises(UserError, match=message):
        next(PathFolds(**{"group_column": "unit"} | options).split(PLAIN, Y))
