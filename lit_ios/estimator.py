"""The variants as a scikit-learn classifier of rows that belong to paths."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lit_ios.batches import path_batch
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.functional.cross_fitting import honest_score
from lit_ios.functional.outcomes import measure
from lit_ios.recipe import folds_for, highest, read_recipe
from lit_ios.trajectories import FloatArray, IntArray, TrajectorySet
from lit_ios.variants import Variant, find_variant, variant_of

Column = int | str


class StoppingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from rows of stopped paths when to stop.

    A path is the rows of one group, in their order; y is 1 (the larger class) on the row where the
    expert stopped, which is the path's last, and 0 on all others; a path without a stop is
    censored. Groups are given to the methods, or are a column of X (`group_column`), which also
    works inside GridSearchCV and Pipeline. Fitted with groups, all methods need them; without,
    `fit` and `score` end a path at each stop, and the others take X for the rows of one path.

    Args:
        variant: `auto` trains candidates with and without memory and takes the best on paths left
            out; or one of the methods, e.g. do_iqs_lb.
        epochs: of training at the most; the best one by validation balanced accuracy is kept.
        group_column: column of X that says which path a row belongs to; it is no feature.
        time_column: column of X with the time of a row; it is no feature. By default rows are one
            unit of time apart.
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
        X, y = validate_data(self, X, y, dtype=np.float64)  # noqa: N806
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            shown = ", ".join(map(str, self.classes_[:5]))
            raise UserError(
                f"y must have two classes, continues and stops (the larger), got {shown}"
            )
        self.grouped_ = groups is not None or self.group_column is not None
        paths = self._paths(X, groups, times, y == self.classes_[1])[0]
        self.policy_ = self._train(paths)
        return self

    def decision_function(self, X: Any, groups: Any = None, times: Any = None) -> FloatArray:  # noqa: N803
        """Return margin − threshold of each row: the policy stops where it is at least 0; (N,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)  # noqa: N806
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
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)  # noqa: N806
        paths, _ = self._paths(X, groups, times, y == self.classes_[1])
        margin = torch.from_numpy(self.policy_.margins(paths))
        return measure(margin, path_batch(paths), self.policy_.threshold).balanced_accuracy

    def __sklearn_tags__(self) -> Any:
        """Say that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # From rows to paths --------------------------------------------------------------------------

    def _paths(
        self, X: FloatArray, groups: Any, times: Any, stop: Any = None  # noqa: N803
    ) -> tuple[TrajectorySet, IntArray]:  # fmt: skip
        """Return the rows as paths, and where each of their rows lies in X."""
        rows = len(X)
        roles = [self._position(c) for c in (self.group_column, self.time_column)]
        if roles[0] is not None and roles[0] == roles[1]:
            raise UserError(f"group_column and time_column are the same: {self.group_column!r}")
        if groups is None and roles[0] is not None:
            groups = X[:, roles[0]]
        if times is None and roles[1] is not None:
            times = X[:, roles[1]]
        if groups is None and self.grouped_ and hasattr(self, "policy_"):
            raise UserError("the model was fitted to groups: give groups here too, or group_column")
        if groups is None:
            ended = np.zeros(rows) if stop is None else np.cumsum(stop) - stop
            groups = ended.astype(int)
        groups = np.asarray(groups)
        if groups.shape != (rows,):
            raise UserError(f"{rows} rows, but groups of shape {groups.shape}")
        if (groups != groups).any():
            raise UserError("a group is missing (NaN)")
        if times is not None and np.shape(times) != (rows,):
            raise UserError(f"{rows} rows, but times of shape {np.shape(times)}")
        known, first, codes = np.unique(groups, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(np.argsort(first))[codes], kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes)[np.argsort(first)])])
        starts = np.repeat(offsets[:-1], np.diff(offsets))
        clock = np.arange(rows) - starts if times is None else np.asarray(times, float)[order]
        stopped = np.zeros(len(known), dtype=bool)
        if stop is not None:
            flags = np.asarray(stop)[order]
            stopped = flags[offsets[1:] - 1]
            flags[offsets[1:] - 1] = False
            if flags.any():
                row = int(order[np.argmax(flags)])
                raise UserError(
                    f"row {row}: rows of group {groups[row]} follow after its stop "
                    f"(class {self.classes_[1]})"
                )
        features = [i for i in range(X.shape[1]) if i not in roles]
        if not features:
            raise UserError("X has no column beside groups and times")
        paths = TrajectorySet(
            states=X[order][:, features],
            times=clock,
            offsets=offsets,
            stopped=stopped,
            names=tuple(str(name) for name in known[np.argsort(first)]),
            feature_names=tuple(self._names()[i] for i in features),
        )
        return paths, order

    def _names(self) -> list[str]:
        known = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if known is None else list(known)

    def _position(self, column: Column | None) -> int | None:
        if column is None:
            return None
        if (
            isinstance(column, int | np.integer)
            and -self.n_features_in_ <= column < self.n_features_in_
        ):
            return int(column % self.n_features_in_)
        names = self._names()
        if column not in names:
            raise UserError(f"X has no column {column!r}; there are {', '.join(names)}")
        return names.index(str(column))

    # Training ------------------------------------------------------------------------------------

    def _train(self, paths: TrajectorySet) -> Any:
        """Train the variant, or the candidates of which the best is taken."""
        if self.variant != "auto":
            return self._train_variant(paths, find_variant(self.variant))[0]
        if self.margin != "validated":
            raise UserError("auto compares candidates at validated margins: set margin='validated'")
        chosen = {"lags": self.lags, "memory": (self.model_args or {}).get("memory")}
        given = [name for name, value in chosen.items() if value is not None]
        if given:
            raise UserError(f"auto chooses {given[0]}: leave it out, or name a variant")
        names = read_recipe().candidates
        folds = folds_for(paths.stopped) if self.folds is None else self.folds
        found = {}
        for name, settings in names.items():
            candidate = variant_of(name, name, settings)
            candidate.data["folds"] = folds
            found[name] = self._train_variant(paths, candidate)
        self.scores_ = {name: score for name, (_, score) in found.items()}
        self.candidate_ = highest(self.scores_)
        return found[self.candidate_][0]

    def _train_variant(self, paths: TrajectorySet, variant: Variant) -> tuple[Any, float]:
        """Return the policy of one variant, and its cross-fitted accuracy where there is one."""
        import pytorch_lightning as pl
        from pytorch_lightning.callbacks import ModelCheckpoint

        import callbacks
        from callbacks import EpsilonDecay
        from datamodules import PathsData
        from lit_ios import modules
        from lit_ios.modules.evaluation import Margin
        from lit_ios.policy import StoppingPolicy

        state = self.random_state  # None and generators as scikit-learn takes them
        seed = state if isinstance(state, int) else int(check_random_state(state).randint(2**31))
        given: dict[str, Any] = {
            "include_time": self.include_time,
            "validation_share": self.validation_share,
        }
        own = {"batch_size": self.batch_size, "lags": self.lags, "folds": self.folds}
        given |= {name: value for name, value in own.items() if value is not None}
        data = PathsData(paths, **_plain(variant.data | given), seed=seed)
        check_choice("margin", self.margin, Margin)
        with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder, _quiet():
            torch.manual_seed(seed)
            arguments = variant.model["init_args"] | {
                "hidden": list(self.hidden),
                "margin": self.margin,
                "learning_rate": self.learning_rate,
            }
            arguments |= {} if self.members is None else {"members": self.members}
            model_class = getattr(modules, variant.model["class_path"])
            model = model_class.for_data(data, **_plain(arguments | (self.model_args or {})))
            best = ModelCheckpoint(
                folder, "best", monitor="val/balanced_accuracy", mode="max",
                enable_version_counter=False, save_on_train_epoch_end=True,
            )  # fmt: skip
            added = zip(variant.callbacks, variant.callback_args, strict=True)
            decays: list[Any] = [EpsilonDecay()]
            for name, init_args in added:
                made = getattr(callbacks, name, None) or getattr(pl.callbacks, name)
                decays.append(made(**init_args))
            trainer = pl.Trainer(
                accelerator="cpu", devices=1, max_epochs=int(self.epochs),
                callbacks=[*decays, best], logger=False, enable_progress_bar=False,
                enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=folder,
            )  # fmt: skip
            trainer.fit(model, data)
            score = honest_score(model.choices) if model.choices else np.nan
            return StoppingPolicy.load(Path(folder) / "best.ckpt"), score


def _plain(value: Any) -> Any:
    """Return numbers of NumPy, as search grids hold them, as Python's, which checkpoints keep."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing while training; leave logging and threads as they were."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels, threads = [logger.level for logger in loggers], torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            torch.set_num_threads(1)  # best for small networks
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            torch.set_num_threads(threads)
