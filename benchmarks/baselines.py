"""What a user would pick instead: baselines of other libraries on the same splits.

Each gives a margin for every row; its settings and its threshold are chosen by the balanced
accuracy (M1) of the validation paths, as the best epoch of a variant is. With folds, as IQS-folds
has them, they are chosen by cross-validation over all paths but the test's, and the model is
fitted to all of these. With lags, their number is one of the settings that are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import SVC

from datamodules import TrajectoryDataModule
from lit_ios.baseline import FOLDS, Margins, held_out_margins, score, transitions
from lit_ios.batches import PathBatch, path_batch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.metrics import path_metrics
from lit_ios.rule import Scaler, Window
from lit_ios.sampling import fit_statistics, folds_held_out
from lit_ios.trajectories import STOP, FloatArray, TrajectorySet

NAMES = {
    "baseline_logistic": "Logistic regression, balanced",
    "baseline_svm": "RBF-kernel SVM, balanced",
    "baseline_boosting": "Gradient boosting, balanced",
    "baseline_trees": "Extra trees, balanced",
    "baseline_hazard": "Discrete-time hazard, splines",
    "baseline_clock": "The clock alone",
    "baseline_cusum": "CUSUM",
    "baseline_survival": "Random survival forest",
}
WITH_FOLDS = {
    f"{name}_folds": f"{NAMES[name].split(',')[0]}, folds"
    for name in ("baseline_svm", "baseline_boosting", "baseline_trees", "baseline_hazard")
}
WITH_LAGS = {
    name.replace("_folds", "_lags"): label.replace("folds", "folds and lags")
    for name, label in WITH_FOLDS.items()
}
NAMES |= WITH_FOLDS | WITH_LAGS
LAGS = (0, 4, 16)  # one of these is chosen, of those that give
MOST_COORDINATES = 200


def candidates(name: str, train: TrajectorySet, seed: int) -> Iterator[Margins]:
    """Yield the baseline with each of its settings, fitted to standardised training paths."""
    if name == "baseline_clock":
        yield lambda paths: elapsed(paths)
        return
    if name == "baseline_cusum":
        for slack in (0.25, 0.5, 1.0, 1.5, 2.0):
            yield lambda paths, slack=slack: cusum(paths, slack)
        return
    if name == "baseline_survival":
        target = time_left(train)
        for leaf in (3, 15):
            forest = _survival_forest(leaf, seed).fit(train.states, target)
            yield lambda paths, forest=forest: np.asarray(forest.predict(paths.states))
        return
    rows = transitions(train)
    states, stop = train.states[rows], train.actions[rows] == STOP
    for model in _models(name, seed):
        model.fit(states, stop)
        yield lambda paths, model=model: score(model, paths.states)


def time_left(paths: TrajectorySet) -> Any:
    """Return what a survival model predicts from a row: whether the stop was seen, and how long.

    A row's time is that to the end of its path, one step more at the end itself.
    """
    ends = np.repeat(paths.times[paths.last_rows], paths.lengths)
    step = np.median(np.diff(paths.times)[np.diff(paths.path_of_row) == 0])
    stopped = np.repeat(paths.stopped, paths.lengths)
    return np.array(
        list(zip(stopped, ends - paths.times + step, strict=True)),
        dtype=[("stopped", bool), ("time", float)],
    )


def _survival_forest(leaf: int, seed: int) -> Any:
    try:
        from sksurv.ensemble import RandomSurvivalForest
    except ImportError:
        raise SystemExit(
            "baseline_survival needs scikit-survival: pip install 'lit-ios[survival]'"
        ) from None
    return RandomSurvivalForest(
        50, min_samples_leaf=leaf, max_samples=0.3, low_memory=True, random_state=seed
    )


def _models(name: str, seed: int) -> Iterator[Any]:
    balanced = {"class_weight": "balanced"}
    if name == "baseline_logistic":
        for c in (0.1, 1.0, 10.0):
            yield LogisticRegression(C=c, max_iter=2000, **balanced)
    elif name == "baseline_svm":
        for c in (1.0, 10.0, 100.0):
            for gamma in ("scale", 1.0):
                yield SVC(C=c, gamma=gamma, **balanced)
    elif name == "baseline_boosting":
        for rate in (0.03, 0.1):
            yield HistGradientBoostingClassifier(learning_rate=rate, random_state=seed, **balanced)
    elif name == "baseline_trees":
        for leaf in (1, 3, 10):
            yield ExtraTreesClassifier(300, min_samples_leaf=leaf, random_state=seed, **balanced)
    elif name == "baseline_hazard":
        for c in (0.1, 1.0, 10.0):
            splines = SplineTransformer(n_knots=6, extrapolation="linear")
            yield make_pipeline(splines, LogisticRegression(C=c, max_iter=2000))
    else:
        raise ValueError(f"there is no baseline {name!r}, only {', '.join(NAMES)}")


def cusum(paths: TrajectorySet, slack: float) -> FloatArray:
    """Add up deviations from each path's first row beyond the slack, never below 0; the largest.

    Both directions of every feature, two-sided as Page's chart; time, the last one, is left out.
    """
    first = np.repeat(paths.states[paths.offsets[:-1]], paths.lengths, axis=0)
    change = (paths.states - first)[:, :-1]
    moves = np.concatenate([change, -change], axis=1) - slack
    sums = np.zeros_like(moves)
    for step in range(int(paths.lengths.max())):  # all paths at once
        rows = np.flatnonzero(paths.steps == step)
        before = sums[rows - 1] if step else 0.0
        sums[rows] = np.maximum(before + moves[rows], 0.0)
    return np.asarray(sums.max(axis=1), dtype=np.float64)


def elapsed(paths: TrajectorySet) -> FloatArray:
    """Return the time since each row's path began; (N,)."""
    return np.asarray(paths.times - np.repeat(paths.times[paths.offsets[:-1]], paths.lengths))


def measure(name: str, data: TrajectoryDataModule) -> dict[str, float]:
    """Fit a baseline, choose its settings and threshold on validation paths, test it."""
    best: tuple[float, float, torch.Tensor, PathBatch] | None = None
    for lags in _lags(name, data):
        train, val, test = _states(data, lags)
        if name in WITH_FOLDS or name in WITH_LAGS:
            val = train.followed_by(val)
            plain = name.removesuffix("_folds").removesuffix("_lags")
            tried = _cross_validated(plain, val, data.seed)
        else:
            tried = ((margins(val), margins) for margins in candidates(name, train, data.seed))
        batch = path_batch(val)
        for values, margins in tried:
            margin = torch.from_numpy(values)
            threshold = float(balanced_margin(margin, batch))
            accuracy = _metrics(margin, batch, threshold)["balanced_accuracy"]
            if best is None or accuracy > best[0]:
                best = accuracy, threshold, torch.from_numpy(margins(test)), path_batch(test)
    assert best is not None
    accuracy, threshold, margin, batch = best
    return _metrics(margin, batch, threshold) | {"val_balanced_accuracy": accuracy}


def _lags(name: str, data: TrajectoryDataModule) -> list[int]:
    """Return the numbers of lags to choose from."""
    if name not in WITH_LAGS:
        return [data.lags]
    features = len(data.encoder.feature_names)
    return [lags for lags in LAGS if features * (lags + 1) <= MOST_COORDINATES]


def _states(data: TrajectoryDataModule, lags: int) -> list[TrajectorySet]:
    """Return standardised training, validation and test paths with this many lags."""
    window = Window(data.encoder.feature_names, lags, data.include_time)
    states = [window.paths(data.encoder.paths(paths)) for paths in data.splits]
    statistics = fit_statistics(states[0].states, lambda value: [value])
    scaler = Scaler(len(statistics.mean))
    scaler.set(*statistics)
    return [scaler.paths(paths) for paths in states]


def _cross_validated(
    name: str, paths: TrajectorySet, seed: int
) -> Iterator[tuple[FloatArray, Margins]]:
    """Yield margins of rows by models not fitted to their paths, and the model fitted to all."""
    held_out = folds_held_out(FOLDS, FOLDS, paths.stopped, np.random.default_rng(seed))
    parts = [candidates(name, paths.select(~out), seed) for out in held_out]
    for *models, whole in zip(*parts, candidates(name, paths, seed), strict=True):
        yield held_out_margins(paths, held_out, models), whole


def _metrics(margin: torch.Tensor, batch: PathBatch, threshold: float) -> dict[str, float]:
    metrics = path_metrics("")
    metrics.update(margin, batch, torch.tensor(threshold, dtype=torch.float64))
    return {name: float(value) for name, value in metrics.compute().items()}
