"""How good a choice of epoch and threshold is on paths that did not make it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lit_ios.functional.frontier import best_balance

SPLITS = 4  # ways to halve the paths


def halves(number: Tensor) -> Tensor:
    """Deal paths out to two halves, in each of several ways; (…) → (…, SPLITS) bool.

    By the binary digits of their numbers: of sixteen paths in a row every half has eight, and any
    two ways cut each other's halves in half.

    Args:
        number: of the path among those like it, stopped or censored.
    """
    digits = torch.arange(SPLITS, device=number.device)
    return (number[..., None] >> digits) & 1 == 1


def cross_fitted(maximum: Tensor, stop: Tensor, half: Tensor) -> Tensor:
    """Choose the best threshold on each half of the paths; score it there and on the other half.

    Args:
        maximum: (N,) threshold up to which each row is stopped at or before it.
        stop: (N,) bool, where the expert stopped.
        half: (N, S) bool, which half the row's path belongs to, in S ways.

    Returns:
        (2S, 2) balanced accuracy (M1) on the half itself and on the other; NaN where a half has
        no stop, which can neither choose nor measure.
    """
    scores = []
    for way in half.unbind(-1):
        for own in (way, ~way):
            if not (stop[own].any() and stop[~own].any()):
                scores.append([torch.nan, torch.nan])
                continue
            threshold = best_balance(maximum[own], stop[own])
            scores.append([_balance(maximum[side], stop[side], threshold) for side in (own, ~own)])
    return torch.tensor(scores, dtype=torch.double)


def _balance(maximum: Tensor, stop: Tensor, threshold: Tensor | float) -> float:
    reached = maximum.double() >= threshold
    return float(reached[stop].double().mean() + (~reached[~stop]).double().mean()) / 2


def honest_score(history: Sequence[Sequence[Sequence[float]]]) -> float:
    """Return what choosing epoch and threshold on one half gives on the other, on average.

    The best epoch of all paths, at the threshold that is best on them, looks better than it is:
    both were chosen there. Here each half chooses, and the other half measures. NaN where that
    cannot be said: no epoch, or stops in no two halves.

    Args:
        history: of each epoch, what `cross_fitted` returns.
    """
    if not history:
        return float("nan")
    scores = torch.tensor(history, dtype=torch.double)  # (E, 2S, 2)
    chosen = scores[..., 0].nan_to_num(-1.0).argmax(0)  # (2S,) epoch
    measured = scores[chosen, torch.arange(scores.shape[1]), 1]
    return float(measured.nanmean())
