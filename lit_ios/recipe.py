"""The recipe of auto: its candidates, what they came to, and which of them is taken."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lit_ios.checks import UserError
from lit_ios.settings import Settings, merge_settings, read_settings
from lit_ios.trajectories import BoolArray
from lit_ios.variants import configs_folder


class Recipe(NamedTuple):
    """What configs/auto.yaml declares."""

    candidates: dict[str, Settings]  # settings of each, in the order they are trained
    quick: str  # the one that is trained alone where time is short


class Score(NamedTuple):
    """What a candidate came to on the paths its members left out."""

    cross_fitted: float  # balanced accuracy; epoch and threshold chosen on other paths
    best: float  # the same, chosen on the same paths
    epoch: int  # that was kept
    epochs: int  # that were trained
    seconds: float


def read_recipe() -> Recipe:
    """Read the candidates."""
    given = read_settings(configs_folder() / "auto.yaml")
    own = {
        name: merge_settings([given["common"], settings or {}])
        for name, settings in given["candidates"].items()
    }
    return Recipe(own, given["quick"])


def folds_for(stopped: BoolArray) -> int:
    """Return how many folds paths are dealt out into: at least two stopped paths in each."""
    stops = int(stopped.sum())
    if stops < 4:
        raise UserError(
            f"auto compares candidates on paths left out and needs at least 4 stopped paths, got "
            f"{stops}; give more, or choose a variant"
        )
    return 4 if stops >= 8 else 2


def best_of(scores: dict[str, Score]) -> str:
    """Return the candidate of the highest cross-fitted accuracy; of equals, the first."""
    return highest({name: score.cross_fitted for name, score in scores.items()})


def highest(scores: dict[str, float]) -> str:
    """Return the first name of the highest score that is a number."""
    known = {name: score for name, score in scores.items() if math.isfinite(score)}
    if not known:
        raise UserError(
            "no candidate could be measured on the paths left out: too few of them were stopped"
        )
    return max(known, key=lambda name: known[name])


def table(scores: dict[str, Score], taken: str) -> str:
    """Return what the candidates came to, as lines of text."""
    width = max(len(name) for name in scores)
    head = f"  {'candidate':<{width + 2}}  held-out balanced accuracy   best epoch   seconds"
    lines = [
        f"  {name:<{width + 2}}  {score.cross_fitted:26.4f}   "
        f"{score.epoch:>5} of {score.epochs:<4}{score.seconds:8.0f}"
        + ("   <- taken" if name == taken else "")
        for name, score in scores.items()
    ]
    return "\n".join(["", head, *lines, ""])


def check_folds(model: Any, data: Any, who: str, purpose: str) -> None:
    """Refuse models and data that cannot be scored on paths left out."""
    if model.hparams["margin"] != "validated" or data.folds is None:
        raise UserError(f"{who} needs margin: validated and folds, to {purpose}")


def check_stops(data: Any, who: str, otherwise: str = "") -> None:
    """Refuse data with too few stops to leave out folds of them.

    Args:
        data: whose paths are read.
        who: leaves them out.
        otherwise: a last piece of advice.
    """
    stops = int(data.splits.train.stopped.sum())
    if stops < 2 * data.folds:
        raise UserError(
            f"{who} leaves out {data.folds} folds in turn and needs two stopped paths in each, "
            f"{2 * data.folds} beside the test's; there are {stops}: "
            + ("give more" if data.folds == 2 else "set --data.init_args.folds 2, or give more")
            + otherwise
        )
