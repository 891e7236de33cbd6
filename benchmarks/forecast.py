"""How well the time left is forecast, beside a discrete-time hazard model and the clock alone.

A rule (IQS-folds with a GRU) is trained, its forecast learnt on calibration paths and judged on
others. The hazard model, logistic on splines, is fitted to training and calibration paths; it
forecasts with the row's features as they are while time goes on. Its lags and penalty are those
of the best likelihood on calibration paths. "hazard, grid" is our forecast with the logit of a
hazard model of the training paths for the margin; the clock is that without a margin.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import train
from benchmarks.grid import ROOT
from benchmarks.observed import quiet
from lit_ios import StoppingPolicy
from lit_ios.baseline import score, transitions
from lit_ios.batches import path_batch
from lit_ios.forecast_metrics import BoundCoverage, RemainingBrier
from lit_ios.functional.outcomes import outcome
from lit_ios.functional.remaining import time_left
from lit_ios.live import Decision, Remaining, Stream
from lit_ios.policy.forecasts import learn
from lit_ios.rule import Scaler, Window
from lit_ios.sampling import fit_statistics
from lit_ios.trajectories import STOP, BoolArray, FloatArray, TrajectorySet

RESULTS = ROOT / "benchmarks/results/forecast.json"
CONFIDENCE = 0.9


class Problem(NamedTuple):
    """A data set and what is asked of it."""

    options: tuple[str, ...]
    horizons: tuple[float, ...]
    look: float  # elapsed time at which bounds are looked at
    step: float  # between rows
    after: bool  # the event comes after the last row, less than a step later


PROBLEMS = {
    "turbofan": Problem(("test_share=0.6",), (10, 20, 50, 100), 100, 10, True),
    "fatigue": Problem((), (2, 5, 10, 30), 20, 1, False),
    "radial": Problem(("horizon=censor",), (1, 5, 10, 20), 20, 1, False),
}


class Case(NamedTuple):
    """A trained rule, its data, and the paths of one seed."""

    policy: StoppingPolicy
    data: Any
    calibration: TrajectorySet
    fresh: TrajectorySet


def trained(name: str, seed: int, epochs: int) -> Case:
    """Train by train.py's own path; deal out or simulate the other paths."""
    options = [f"--data.init_args.{option}" for option in PROBLEMS[name].options]
    with tempfile.TemporaryDirectory() as folder, quiet():
        cli: Any = train.main([
            "fit", f"--config={ROOT}/configs/data/{name}.yaml",
            f"--config={ROOT}/benchmarks/quiet.yaml",
            f"--config={ROOT}/configs/model/iqs_folds.yaml", f"--runs_dir={folder}",
            "--model.init_args.memory=gru", "--model.init_args.members=4", "--threads=1",
            f"--trainer.max_epochs={epochs}", f"--seed_everything={seed}", *options,
        ])  # fmt: skip
        policy = StoppingPolicy.load(cli.trainer.checkpoint_callback.best_model_path)
    data, rng = cli.datamodule, np.random.default_rng([seed, 7])
    if name == "turbofan":
        test = data.splits.test
        order = rng.permutation(len(test))
        half = len(test) // 2
        return Case(policy, data, test.select(order[:half]), test.select(order[half:]))
    simulate = data.simulator.simulate
    return Case(policy, data, simulate(200, rng), simulate(600, rng))


Within = Callable[[float], FloatArray]


class Hazard:
    """The probability to be stopped at a row, given its state."""

    def __init__(self, case: Case, problem: Problem) -> None:
        self.case, self.problem = case, problem
        tried = [
            (self._loss(lags, penalty), lags, penalty)
            for lags in (0, 4)
            for penalty in (0.1, 1.0, 10.0)
        ]
        _, self.lags, self.penalty = min(tried)
        train, calibration, self.fresh = self._states(self.lags)
        self.model = self._fit(train.followed_by(calibration), self.penalty)

    def _states(self, lags: int) -> list[TrajectorySet]:
        data = self.case.data
        window = Window(data.encoder.feature_names, lags, data.include_time)
        sets = (data.splits.train, self.case.calibration, self.case.fresh)
        states = [window.paths(data.encoder.paths(paths)) for paths in sets]
        statistics = fit_statistics(states[0].states, lambda value: [value])
        self.time_scale = float(statistics.scale[-1])
        scaler = Scaler(len(statistics.mean))
        scaler.set(*statistics)
        return [scaler.paths(paths) for paths in states]

    @staticmethod
    def _fit(paths: TrajectorySet, penalty: float) -> Any:
        rows = transitions(paths)
        splines = SplineTransformer(n_knots=6, extrapolation="linear")
        model = make_pipeline(splines, LogisticRegression(C=penalty, max_iter=2000))
        return model.fit(paths.states[rows], paths.actions[rows] == STOP)

    def _loss(self, lags: int, penalty: float) -> float:
        train, calibration, _ = self._states(lags)
        rows = transitions(calibration)
        found = self._fit(train, penalty).predict_proba(calibration.states[rows])[:, 1]
        stop = calibration.actions[rows] == STOP
        return float(-np.log(np.where(stop, found, 1 - found).clip(1e-9)).mean())

    def logits(self, paths: TrajectorySet) -> FloatArray:
        """Return the logit of each row by a model of the training paths alone."""
        train, *others = self._states(self.lags)
        calibration = paths is self.case.calibration
        model = self._fit(train, self.penalty)
        return score(model, others[0 if calibration else 1].states)

    def survival(self, rows: int) -> FloatArray:
        """Return the probability to pass this and the next rows; (N, rows), features as now."""
        states, log = np.array(self.fresh.states, dtype=np.float64), []
        for _ in range(rows):
            log.append(np.log1p(-self.model.predict_proba(states)[:, 1].clip(max=1 - 1e-12)))
            states[:, -1] += self.problem.step / self.time_scale
        return np.exp(np.cumsum(log, axis=0)).T

    def forecasts(self) -> tuple[Within, FloatArray]:
        """Return the probabilities for a horizon, and the times left of which 0.9 have more.

        The latter are cut at one step beyond the longest horizon.
        """
        problem = self.problem
        most = round(max(problem.horizons) / problem.step) + 1
        survival = self.survival(most)

        def within(horizon: float) -> FloatArray:
            rows = round(horizon / problem.step) + (not problem.after)
            return np.asarray(1 - survival[:, rows - 1])

        low = problem.step * (survival >= CONFIDENCE).cumprod(1).sum(1)
        return within, np.asarray(low, dtype=np.float64)


def chosen_rows(case: Case, look: float) -> dict[str, BoolArray]:
    """Return the rows at which bounds are looked at: after some time, and at the first stop."""
    batch = path_batch(case.fresh)
    margin = torch.from_numpy(case.policy.margins(case.fresh))
    result = outcome(margin, batch, case.policy.threshold)
    stop = (batch.step == result.stop_step[batch.path]).numpy()
    elapsed = time_left(batch).elapsed.numpy()
    begins = np.diff((elapsed >= look).astype(int), prepend=0) > 0
    begins &= elapsed >= look
    return {"time": begins, "stop": stop}


def forecasts_of(case: Case, margin: Callable[[TrajectorySet], FloatArray]) -> Remaining:
    """Learn from the calibration paths, forecast the others."""
    given = torch.from_numpy(margin(case.calibration))
    forecast = learn(given, path_batch(case.calibration), "", CONFIDENCE)
    elapsed = time_left(path_batch(case.fresh)).elapsed.numpy()
    stop, threshold = chosen_rows(case, 0.0)["stop"], case.policy.threshold
    return forecast(margin(case.fresh), elapsed, stop, np.full(len(elapsed), threshold))


def measure(name: str, case: Case) -> dict[str, float]:
    """Return Brier scores and coverages of all ways to forecast."""
    problem, batch = PROBLEMS[name], path_batch(case.fresh)
    rows = chosen_rows(case, problem.look)
    ours = forecasts_of(case, case.policy.margins)
    clock = forecasts_of(case, lambda paths: np.zeros(len(paths.states)))
    model = Hazard(case, problem)
    hazard, hazard_low = model.forecasts()
    grid = forecasts_of(case, model.logits)
    known = time_left(path_batch(case.calibration))
    longest = float((known.elapsed + known.left).max())  # nothing is seen beyond
    beyond = longest - time_left(batch).elapsed.numpy()
    hazard_low = np.minimum(hazard_low, beyond.clip(min=0))
    found: dict[str, float] = {}
    ways: dict[str, Within] = {
        "forecast": ours.within,
        "hazard": hazard,
        "hazard, grid": grid.within,
        "clock": clock.within,
    }
    for way, within in ways.items():
        for horizon in problem.horizons:
            metric = RemainingBrier(horizon)
            metric.update(torch.from_numpy(within(horizon)), batch)
            found[f"brier/{way}/{horizon:g}"] = float(metric.compute())
    bounds = {
        "forecast": {"time": ours.low, "stop": ours.low_at_stop},
        "hazard": {"time": hazard_low, "stop": hazard_low},
        "hazard, grid": {"time": grid.low},
        "clock": {"time": clock.low},
    }
    left = time_left(batch).left.numpy()
    for way, of_rule in bounds.items():
        for rule, low in of_rule.items():
            coverage = BoundCoverage()
            coverage.update(torch.from_numpy(np.where(rows[rule], low, np.nan)), batch)
            found[f"coverage/{way}/{rule}"] = float(coverage.compute())
            found[f"low/{way}/{rule}"] = float(low[rows[rule]].mean())
            found[f"left/{way}/{rule}"] = float(left[rows[rule]].mean())
    return found


def microseconds(case: Case, calls: int = 2000) -> dict[str, float]:
    """Return the time of a stream's step with and without a forecast, and when it is read.

    Along the rows of fresh paths, each path anew: rows unlike those of training take longer.
    """
    policy = case.policy
    plain = policy.live
    policy.learn_forecast(case.calibration, confidence=CONFIDENCE, allow_known_paths=True)
    told = policy.live

    def all_of_it(decision: Decision) -> None:
        left = decision.remaining
        assert left is not None
        _ = left.low, left.median, left.within(1.0)

    ways = {"without": (plain, None), "with": (told, None), "read": (told, all_of_it)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(len(case.fresh)):
            streams = {way: Stream(rule) for way, (rule, _) in ways.items()}
            for row in case.fresh[number].states.astype(np.float64):
                for way, (_, then) in ways.items():
                    start = time.perf_counter()
                    decision = streams[way].step(row)
                    if then is not None:
                        then(decision)
                    seconds[way].append(time.perf_counter() - start)
            if len(seconds["read"]) > calls:
                break
    return {way: float(np.median(values)) * 1e6 for way, values in seconds.items()}


def summary(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return mean and standard error over seeds of every measure."""
    made = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        made[name] = {"mean": float(values.mean()), "standard_error": error}
    return made


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecast", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=25, help="of training (%(default)s)")
    parser.add_argument("--file", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"seeds": args.seeds, "epochs": args.epochs}
    for name in args.data:
        rows = []
        for seed in range(args.seeds):
            case = trained(name, seed, args.epochs)
            rows.append(measure(name, case))
            print(f"{name}, seed {seed}: done", flush=True)
        results[name] = summary(rows)
        results[name]["microseconds"] = microseconds(case)
        for measured, value in results[name].items():
            print(f"{name:9} {measured:24}", {key: round(x, 4) for key, x in value.items()})
        args.file.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
