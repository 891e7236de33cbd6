"""How many of n paths may fail where at most a share of all paths is to."""

from __future__ import annotations

import math


def allowed(n: int, level: float, error: float | None) -> int:
    """Return how many of n calibration paths may be on the wrong side; −1 if n is too small.

    In the mean: the share of fresh paths below the (k + 1)-th smallest of n numbers is
    (k + 1)/(n + 1) on average, so k + 1 ≤ α (n + 1). With an error δ: that share exceeds α with
    probability P(Bin(n, α) ≤ k), which must be at most δ. Both hold for any law; ties only make
    them careful.

    Args:
        n: number of calibration paths that count.
        level: α in (0, 1).
        error: δ; None for the mean.
    """
    if error is None:
        return max(math.floor(level * (n + 1) - 1 + 1e-9), -1)
    low, high = -1, n  # P(Bin ≤ low) ≤ δ < P(Bin ≤ high) = 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if below(middle, n, level) <= error else (low, middle)
    return low


def needed(level: float, error: float | None) -> int:
    """Return the least n of which none may fail: n + 1 ≥ 1/α, or (1 − α)ⁿ ≤ δ."""
    if error is None:
        return max(math.ceil(1 / level - 1e-9) - 1, 1)
    return max(math.ceil(math.log(error) / math.log1p(-level) - 1e-9), 1)


def least_level(n: int, error: float | None) -> float:
    """Return the least level that n paths can promise: 1/(n + 1), or 1 − δ^(1/n)."""
    if n == 0:
        return 1.0
    return 1 / (n + 1) if error is None else -math.expm1(math.log(error) / n)


def below(k: int, n: int, p: float) -> float:
    """Return P(Bin(n, p) ≤ k)."""
    from scipy.special import bdtr

    return float(bdtr(k, n, p)) if k >= 0 else 0.0


def interval(k: float, n: int, coverage: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper–Pearson) interval of a probability after k of n."""
    from scipy.special import betaincinv

    side = (1 - coverage) / 2
    low = 0.0 if k <= 0 else float(betaincinv(k, n - k + 1, side))
    high = 1.0 if k >= n else float(betaincinv(k + 1, n - k, 1 - side))
    return low, high
