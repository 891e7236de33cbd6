"""The variants as a scikit-learn classifier of rows that belong to paths."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from lit_ios.batches import path_batch
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.data_record import TableColumns
from lit_ios.functional.outcomes import measure
from lit_ios.recipe import folds_for, read_recipe
from lit_ios.rows import (
    Column,
    Rows,
    as_groups,
    as_times,
    beginnings,
    frame_rows,
    group_paths,
    groups_ended_by,
    is_frame,
    position_of,
    refuse_torn,
)
from lit_ios.times import TimeUnit
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet
from lit_ios.variants import find_variant, variant_of

if TYPE_CHECKING:
    from lit_ios.policy import StoppingPolicy
    from lit_ios.training import Trained


class StoppingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from rows of stopped paths when to stop.

    A path is the rows of one group, in their order; y is 1 (the larger class) on the row where the
    expert stopped, which is the path's last, and 0 on all others; a path without a stop is
    censored. Groups are given to the methods, or are a column of X (`group_column`), which also
    works inside GridSearchCV and Pipeline. Fitted with groups, all methods need them; without,
    `fit` and `score` end a path at each stop, and the others take X for the rows of one path.

    X is an array of numbers or a DataFrame of pandas or polars, in which features may be text
    (categories), true or false, groups text, and times dates. A group names one path: a path that
    was trained on must come back from its beginning, so that rows dealt out one by one, as
    scikit-learn does by default, are noticed. `PathFolds` deals out whole paths.

    Args:
        variant: `auto` trains candidates with and without memory and takes the best on paths left
            out; or one of the methods, e.g. do_iqs_lb.
        epochs: of training at the most; the best one by validation balanced accuracy is kept.
        group_column: column of X that says which path a row belongs to; it is no feature.
        time_column: column of X with the time of a row; it is no feature. By default rows are one
            unit of time apart.
        time_unit: unit of times that are given as dates.
        validation_share: share of the paths held out to choose the epoch.
        margin: `validated` also chooses the margin on the held-out paths; `zero` does not.
        lags: how many earlier rows are part of the state; by default those of the variant.
        include_time: whether the time since the path began is part of the state.
        hidden: layer sizes.
        members: networks trained together, the median of whose margins decides; by default those of
            the variant.
        folds: train on the held-out paths too: all paths are dealt out into this many folds, and
            each member leaves out one, on which it is validated; by default those of the variant.
            Must divide `members`.
        learning_rate: Adam's learning rate.
        batch_size: rows per batch; by default those of the variant.
        model_args: further arguments of the variant's module, by name.
        random_state: seed of splits, weights and batches.
    """

    def __init__(
        self,
        variant: str = "auto",
        epochs: int = 100,
        group_column: Column | None = None,
        time_column: Column | None = None,
        time_unit: TimeUnit = "hours",
        validation_share: float = 0.3,
        margin: str = "validated",
        lags: int | None = None,
        include_time: bool = True,
        hidden: tuple[int, ...] = (64, 64),
        members: int | None = None,
        folds: int | None = None,
        learning_rate: float = 0.01,
        batch_size: int | None = None,
        model_args: dict[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.variant, self.epochs = variant, epochs
        self.group_column, self.time_column = group_column, time_column
        self.time_unit = time_unit
        self.validation_share, self.margin = validation_share, margin
        self.lags, self.include_time = lags, include_time
        self.hidden, self.members, self.folds = hidden, members, folds
        self.learning_rate, self.batch_size = learning_rate, batch_size
        self.model_args, self.random_state = model_args, random_state

    def fit(
        self, X: Any, y: Any, groups: Any = None, times: Any = None  # noqa: N803
    ) -> StoppingClassifier:  # fmt: skip
        """Train on the rows of stopped paths."""
        if self.variant != "auto":
            find_variant(self.variant)
        check_number("epochs", self.epochs, above=0)
        if self.epochs != int(self.epochs):
            raise UserError(f"epochs must be a whole number, got {self.epochs}")
        check_choice("time_unit", self.time_unit, TimeUnit)
        X, y = self._validated(X, y, reset=True)  # noqa: N806
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            shown = ", ".join(map(str, self.classes_[:5]))
            raise UserError(
                f"y must have two classes, continues and stops (the larger), got {shown}"
            )
        self.grouped_ = groups is not None or self.group_column is not None
        self.__dict__.pop("policy_", None)
        paths = self._paths(X, groups, times, y == self.classes_[1])[0]
        self.policy_ = self._train(paths)
        timed = times is not None or self.time_column is not None
        self.begun_ = beginnings(paths, timed) if self.grouped_ else {}
        return self

    def decision_function(self, X: Any, groups: Any = None, times: Any = None) -> FloatArray:  # noqa: N803
        """Return margin − threshold of each row: the policy stops where it is at least 0; (N,)."""
        check_is_fitted(self)
        X, _ = self._validated(X)  # noqa: N806
        paths, order = self._paths(X, groups, times)
        margin = np.empty(len(X))
        margin[order] = self.policy_.margins(paths)
        threshold = self.policy_.threshold
        if threshold == np.inf:  # never stops: below 0 and in their order, for roc_auc_score
            threshold = margin.max() + 1
        return np.asarray(margin - threshold)

    def predict(self, X: Any, groups: Any = None, times: Any = None) -> npt.NDArray[Any]:  # noqa: N803
        """Return the class of each row, judged by itself."""
        stop = self.decision_function(X, groups, times) >= 0
        return np.asarray(self.classes_[stop.astype(int)])

    def predict_proba(self, X: Any, groups: Any = None, times: Any = None) -> FloatArray:  # noqa: N803
        """Return the soft policy, shifted to ½ at the threshold; (N, 2)."""
        scaled = self.decision_function(X, groups, times) / self.policy_.epsilon
        stop = 0.5 + 0.5 * np.tanh(0.5 * scaled)
        return np.stack([1 - stop, stop], axis=1)

    def score(self, X: Any, y: Any, groups: Any = None, times: Any = None) -> float:  # noqa: N803
        """Return the balanced accuracy M1: a row counts as stopped at and after the first stop."""
        check_is_fitted(self)
        X, y = self._validated(X, y)  # noqa: N806
        paths, _ = self._paths(X, groups, times, y == self.classes_[1])
        margin = torch.from_numpy(self.policy_.margins(paths))
        return measure(margin, path_batch(paths), self.policy_.threshold).balanced_accuracy

    def __sklearn_tags__(self) -> Any:
        """Say that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # From rows to paths --------------------------------------------------------------------------

    def _validated(self, X: Any, y: Any = None, reset: bool = False) -> tuple[Any, Any]:  # noqa: N803
        """Check X and y as scikit-learn does; leave the columns of a DataFrame as they are."""
        if not is_frame(X):
            given = (X,) if y is None else (X, y)
            found = validate_data(self, *given, dtype=np.float64, reset=reset)
            return (found, None) if y is None else found
        X = validate_data(self, X, reset=reset, skip_check_array=True)  # noqa: N806
        if y is not None:
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        return X, y

    def _paths(
        self, X: Any, groups: Any, times: Any, stop: Any = None  # noqa: N803
    ) -> tuple[TrajectorySet, IntArray]:  # fmt: skip
        """Return the rows as paths, and where each of their rows lies in X."""
        fitted = hasattr(self, "policy_")
        rows = self._rows(X)
        if groups is not None:
            rows = rows._replace(groups=as_groups(groups))
        if times is not None:
            rows = rows._replace(times=as_times(times, self.time_unit))
        if rows.groups is None and self.grouped_ and fitted:
            raise UserError("the model was fitted to groups: give groups here too, or group_column")
        if rows.groups is None:
            rows = rows._replace(groups=groups_ended_by(np.zeros(len(X)) if stop is None else stop))
        if not rows.names:
            raise UserError("X has no column beside groups and times")
        paths, order = group_paths(rows, stop, self.classes_[1])
        if fitted:
            refuse_torn(paths, self.begun_, self.group_column)
        return paths, order

    def _rows(self, X: Any) -> Rows:  # noqa: N803
        """Take groups and times out of X."""
        known = getattr(self, "feature_names_in_", None)
        names = [f"x{i}" for i in range(self.n_features_in_)] if known is None else list(known)
        given = (self.group_column, self.time_column)
        group, time = (None if c is None else position_of(c, names) for c in given)
        if group is not None and group == time:
            raise UserError(f"group_column and time_column are the same: {self.group_column!r}")
        fitted = hasattr(self, "policy_")
        if is_frame(X):
            group_name, time_name = (None if i is None else names[i] for i in (group, time))
            categories = self.policy_.rule.encoder.categories if fitted else {}
            return frame_rows(X, group_name, time_name, self.time_unit, categories)
        features = [i for i in range(len(names)) if i not in (group, time)]
        return Rows(
            X[:, features],
            tuple(names[i] for i in features),
            {},
            None if group is None else X[:, group],
            None if time is None else X[:, time],
        )

    # Training ------------------------------------------------------------------------------------

    def _train(self, paths: TrajectorySet) -> StoppingPolicy:
        """Train the variant, or the candidates of which the best is taken."""
        from lit_ios.modules.evaluation import Margin
        from lit_ios.training import Bar, train_candidates, train_variant

        check_choice("margin", self.margin, Margin)
        settings = self._settings()
        if self.variant != "auto":
            return self._taken(train_variant(paths, find_variant(self.variant), **settings))
        if self.margin != "validated":
            raise UserError("auto compares candidates at validated margins: set margin='validated'")
        chosen = {"lags": self.lags, "memory": (self.model_args or {}).get("memory")}
        given = [name for name, value in chosen.items() if value is not None]
        if given:
            raise UserError(f"auto chooses {given[0]}: leave it out, or name a variant")
        candidates = {n: variant_of(n, n, s) for n, s in read_recipe().candidates.items()}
        for variant in candidates.values():
            variant.data["folds"] = self.folds or folds_for(paths.stopped)
        with Bar(len(candidates), int(self.epochs), shown=False) as bar:
            self.candidate_, found = train_candidates(paths, candidates, bar, **settings)
        self.scores_ = {name: trained.held_out for name, trained in found.items()}
        return self._taken(found[self.candidate_])

    @staticmethod
    def _taken(trained: Trained) -> StoppingPolicy:
        """Return the policy; pass on what is odd about the data."""
        for remark in trained.remarks:
            warnings.warn(remark, stacklevel=4)
        return trained.policy

    def _settings(self) -> dict[str, Any]:
        """Return what every variant is trained with."""
        state = self.random_state  # None and generators as scikit-learn takes them
        seed = state if isinstance(state, int) else int(check_random_state(state).randint(2**31))
        model: dict[str, Any] = {
            "hidden": self.hidden,
            "margin": self.margin,
            "members": self.members,
        }
        model |= {"learning_rate": self.learning_rate, **(self.model_args or {})}
        data: dict[str, Any] = {
            "batch_size": self.batch_size,
            "lags": self.lags,
            "folds": self.folds,
        }
        data |= {"include_time": self.include_time, "validation_share": self.validation_share}
        path, time = (
            c if isinstance(c, str) else None for c in (self.group_column, self.time_column)
        )
        return {
            "epochs": self.epochs,
            "seed": seed,
            "model_args": {name: value for name, value in model.items() if value is not None},
            "data_args": {name: value for name, value in data.items() if value is not None},
            "table": TableColumns(path, time, time_unit=self.time_unit),
        }
