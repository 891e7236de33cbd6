"""Folds of whole paths for scikit-learn's searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from lit_ios.checks import UserError, check_number
from lit_ios.rows import Column, column_of, groups_ended_by
from lit_ios.trajectories import IntArray


class PathFolds(BaseCrossValidator):  # type: ignore[misc]
    """Deals out whole paths, so that no path is trained on and scored.

        GridSearchCV(model, grid, cv=PathFolds(group_column="unit")).fit(df, y)

    Every fold gets its share of stopped and of censored paths. Without groups, paths end at the
    stops, as for StoppingClassifier.

    Args:
        n_splits: number of folds.
        group_column: column of X that says which path a row belongs to; `groups` come first.
        shuffle: deal the paths out in a random order, not in the order of X.
        random_state: of that order.
    """

    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}  # scikit-learn's word

    def __init__(
        self,
        n_splits: int = 5,
        group_column: Column | None = None,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        check_number("n_splits", n_splits, at_least=2)
        self.n_splits, self.group_column = n_splits, group_column
        self.shuffle, self.random_state = shuffle, random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """Return the number of folds."""
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any, groups: Any = None  # noqa: N803
    ) -> Iterator[tuple[IntArray, IntArray]]:  # fmt: skip
        """Go through the folds: rows to train on, and rows to score.

        Args:
            X: rows.
            y: their classes; the larger one is a stop.
            groups: path of each row.
        """
        fold = self._fold_of_row(X, y, groups)
        for number in range(self.get_n_splits()):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)

    def _fold_of_row(self, X: Any, y: Any, groups: Any) -> IntArray:  # noqa: N803
        labels = np.asarray(y)
        stop: npt.NDArray[np.bool_] = labels == labels.max()
        if groups is None and self.group_column is not None:
            groups = column_of(X, self.group_column)
        if groups is None:
            groups = groups_ended_by(stop)
        known, first, path = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
        stopped = np.bincount(path, weights=stop) > 0
        for what, count in (("paths", len(known)), ("stopped paths", int(stopped.sum()))):
            if count < self.n_splits:
                raise UserError(
                    f"{count} {what} cannot be dealt out to {self.n_splits} folds: set n_splits "
                    "lower, or give more"
                )
        order = np.argsort(first)  # as in X
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        order = np.concatenate([order[stopped[order]], order[~stopped[order]]])
        fold = np.empty(len(known), dtype=np.int64)
        fold[order] = np.arange(len(known)) % self.n_splits
        return np.asarray(fold[path])
