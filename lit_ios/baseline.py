"""An honest mirror: what a gradient-boosted classifier makes of the same paths.

It is fitted to the rows of all paths but the test's, features and time, with the folds of the run:
each model leaves out one, the threshold is the best for paths judged by the model that left them
out (M1), and the test paths are judged by the mean margin of the models. Beyond 200,000 rows or
10 million numbers, rows on which the expert went on are drawn at random; all stops stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch

from lit_ios.batches import PathBatch, last_in_time, path_batch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.functional.outcomes import outcome
from lit_ios.policy.calibration import Estimate, measured_at
from lit_ios.rule import Window
from lit_ios.sampling import folds_held_out
from lit_ios.trajectories import STOP, BoolArray, FloatArray, IntArray, TrajectorySet

FOLDS = 4
FEW_ROWS = 50_000
MOST_ROWS, MOST_NUMBERS = 200_000, 10_000_000
DRAWS = 1_000
MEASURED = ("event_miss_rate", "false_alarm_rate", "stopped_at_first_row")
Margins = Callable[[TrajectorySet], FloatArray]


class Comparison(NamedTuple):
    """Balanced accuracy (M1) of the baseline on test paths, and how far the rule is ahead."""

    balanced_accuracy: float
    difference: float
    low: float  # of the 95 % interval of the difference, over test paths
    high: float
    own: Mapping[str, Estimate | None] = {}  # what the baseline itself does, with 95 % intervals

    @property
    def sentence(self) -> str:
        """What a user is told."""
        begin = (
            f"gradient boosting on the same paths: balanced accuracy {self.balanced_accuracy:.3f}"
        )
        how_far = f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        if self.low <= 0 <= self.high:
            return f"{begin}; this rule {how_far}: no clear difference"
        if self.difference > 0:
            return f"{begin}; this rule is {how_far} ahead"
        return f"{begin}; this rule is {how_far} behind: a plain classifier does better here"

    def metrics(self) -> dict[str, float]:
        """Return the values under the names metrics.json has them by."""
        found = {
            "balanced_accuracy": self.balanced_accuracy,
            "difference": self.difference,
            "difference_low": self.low,
            "difference_high": self.high,
        }
        for name, (value, low, high) in {n: e for n, e in self.own.items() if e}.items():
            found |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return {f"test/baseline_{name}": value for name, value in found.items()}


def compare(data: Any, rule: Any) -> Comparison | None:
    """Compare a rule with the baseline on the test paths of its run; None if that means nothing.

    Args:
        data: the run's data module.
        rule: the learnt StoppingRule.
    """
    train, val, test = data.splits
    known = train if train is val else train.followed_by(val)
    folds = min(data.folds or FOLDS, int(known.stopped.sum()))
    if folds < 2 or not test.stopped.any() or len(test.states) == test.stopped.sum():
        return None
    window = Window(data.encoder.feature_names, 0, data.include_time)
    known, states = (window.paths(data.encoder.paths(paths)) for paths in (known, test))
    held_out = folds_held_out(folds, folds, known.stopped, data.random(purpose=5))
    taught = known.stopped_earlier(data.stop_lead)
    models = [boosted(taught.select(~out), data.seed) for out in held_out]
    margin = torch.from_numpy(held_out_margins(known, held_out, models))
    threshold = float(balanced_margin(margin, path_batch(known, lead=data.lead)))
    theirs = torch.from_numpy(np.mean([model(states) for model in models], axis=0))
    batch = path_batch(test, lead=data.lead)
    there = data.transfer_batch_to_device(batch, rule.threshold.device, 0)
    with torch.inference_mode():
        ours = rule.scan(there).margin.cpu()
    counts = path_counts(ours, batch, float(rule.threshold)), path_counts(theirs, batch, threshold)
    found, own = difference(*counts, seed=data.seed), measured_at(theirs, batch, threshold)
    named = {"balanced_accuracy": accuracy_interval(counts[1], data.seed)}
    named |= {name: own[name] for name in MEASURED}
    return found._replace(own=named | {"time_to_event_mean": own["time_to_event"]})


def boosted(paths: TrajectorySet, seed: int) -> Margins:
    """Fit the classifier to standardised or plain states; return what gives margins of rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = transitions(paths)
    stop = paths.actions[rows] == STOP
    most = min(MOST_ROWS, MOST_NUMBERS // paths.states.shape[1])
    if len(rows) > most:
        rng, others = np.random.default_rng(seed), rows[~stop]
        drawn = rng.choice(others, max(most - int(stop.sum()), most // 2), replace=False)
        rows = np.concatenate([rows[stop], drawn])
        stop = np.arange(len(rows)) < stop.sum()
    model = HistGradientBoostingClassifier(
        early_stopping=False, class_weight="balanced", random_state=seed
    )
    with _threads(len(rows)):
        model.fit(paths.states[rows], stop)

    def margins(asked: TrajectorySet) -> FloatArray:
        with _threads(len(asked.states)):
            return score(model, asked.states)

    return margins


def _threads(rows: int) -> AbstractContextManager[Any]:
    """Use one thread for few rows: several wait for each other, on a busy machine for a minute."""
    from threadpoolctl import threadpool_limits

    limit: AbstractContextManager[Any] = threadpool_limits(1 if rows < FEW_ROWS else None)
    return limit


def transitions(paths: TrajectorySet) -> IntArray:
    """Return the rows whose action is known: all but the last ones of censored paths."""
    return np.delete(np.arange(len(paths.states)), paths.last_rows[~paths.stopped])


def score(model: Any, states: FloatArray) -> FloatArray:
    """Return a model's margin of each row: its decision function, or the logit it is made of."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(states), dtype=np.float64)
    probability = model.predict_proba(states)[:, 1].clip(1e-6, 1 - 1e-6)
    return np.asarray(np.log(probability) - np.log1p(-probability))


def held_out_margins(
    paths: TrajectorySet, held_out: BoolArray, models: Sequence[Margins]
) -> FloatArray:
    """Return margins of all rows, each by the model that left its path out; (N,).

    Args:
        paths: P of them, of states.
        held_out: (K, P), every path left out by one model.
        models: K of them.
    """
    values = np.empty(len(paths.states))
    for out, margins in zip(held_out, models, strict=True):
        values[out[paths.path_of_row]] = margins(paths.select(out))
    return values


def path_counts(margin: torch.Tensor, batch: PathBatch, threshold: float) -> FloatArray:
    """Return of each path what M1 adds up: caught, stopped, rows passed, continue rows; (P, 4)."""
    result = outcome(margin, batch, threshold)
    steps = last_in_time(batch).clamp(min=0)
    rows = torch.where(batch.stopped, steps, steps + 1)
    passed = torch.minimum(result.stop_step, rows)
    columns = (result.caught & batch.stopped, batch.stopped, passed, rows)
    return np.asarray(torch.stack([column.double() for column in columns], dim=1).numpy())


def difference(ours: FloatArray, theirs: FloatArray, seed: int = 0) -> Comparison:
    """Return how much more the first counts give than the second, with its bootstrap interval.

    Paths are drawn with replacement, for both alike: the interval is that of a paired difference.
    """
    low, high = np.nanquantile(
        [_accuracy(c @ ours) - _accuracy(c @ theirs) for c in _copies(len(ours), seed)],
        [0.025, 0.975],
    )
    accuracy = _accuracy(theirs.sum(axis=0))
    return Comparison(accuracy, _accuracy(ours.sum(axis=0)) - accuracy, float(low), float(high))


def accuracy_interval(counts: FloatArray, seed: int = 0) -> Estimate:
    """Return balanced accuracy (M1) with the 95 % interval of paths drawn anew; (P, 4) counts."""
    drawn = [_accuracy(copies @ counts) for copies in _copies(len(counts), seed)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Estimate(_accuracy(counts.sum(axis=0)), float(low), float(high))


def _copies(count: int, seed: int) -> Iterator[IntArray]:
    """Yield how often each path is drawn, for each sample of the bootstrap; (P,) each."""
    rng = np.random.default_rng([2, seed])
    for _ in range(DRAWS if count <= 10_000 else DRAWS // 5):
        yield np.bincount(rng.integers(count, size=count), minlength=count)


def _accuracy(counts: FloatArray) -> float:
    caught, events, passed, rows = counts
    return float(caught / events + passed / rows) / 2 if events and rows else float("nan")
