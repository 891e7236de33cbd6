"""Evidence against a claim, gathered path by path: it may be looked at after every one of them.

Each kind is a bet that cannot be expected to win while the claim is true: it begins with 1 and is
a (super)martingale of positive values, so that it ever reaches 1/δ with a probability of at most δ
(Ville's inequality), however often it is looked at.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable

import numpy as np

from lit_ios.trajectories import FloatArray

JUMP = 0.001  # share of the stakes that is dealt out anew after each path
ODDS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)  # by which a rate may exceed what is claimed


class OnlineRanks:
    """Ranks each value among all before it, as a p-value that is uniform if nothing changes.

    Values are compared with *all* earlier ones, those that came one by one included. Compared with
    the first ones alone, p-values would depend on each other through them; this way they are
    independent and uniform if all values are exchangeable, ties included (smoothed conformal
    p-values in the online mode).

    Args:
        values: that are there from the beginning, in any order.
    """

    def __init__(self, values: Iterable[float]) -> None:
        self._sorted = sorted(values)

    def add(self, value: float, tie: float) -> float:
        """Return (#larger + u·#equal)/#all, the value itself being one of the equal ones.

        Args:
            value: the next one.
            tie: u, uniform on (0, 1].
        """
        known = self._sorted
        low, high = bisect.bisect_left(known, value), bisect.bisect_right(known, value)
        larger, equal = len(known) - high, high - low + 1
        known.insert(high, value)
        return (larger + tie * equal) / len(known)


def bets(p: float) -> FloatArray:
    """Return what each bet makes of its stake: densities on (0, 1] at a p-value; (K,).

    One abstains, two are for small changes in either direction (linear), two for large ones
    (½p^−½ and its mirror image).
    """
    low, high = max(p, 1e-12), max(1 - p, 1e-12)
    return np.array([1.0, 1.5 - p, 0.5 + p, 0.5 / math.sqrt(low), 0.5 / math.sqrt(high)])


class Jumper:
    """A martingale of p-values: stakes on several bets, some of which change place each time.

    Vovk's simple jumper over `bets`.

    Args:
        count: of bets.
        jump: share of all stakes that is dealt out evenly after each p-value.
    """

    def __init__(self, count: int, jump: float = JUMP) -> None:
        self._shares, self._jump = np.full(count, 1 / count), jump
        self.log = 0.0  # of the value; the value itself can become too large for a number

    def add(self, gains: FloatArray) -> float:
        """Take what each bet made of its stake; return the logarithm of the value."""
        won = self._shares * gains
        total = won.sum()
        self.log += math.log(total)
        self._shares = (1 - self._jump) * won / total + self._jump / len(won)
        return self.log


class RateEvidence:
    """Evidence that something happens more often than claimed.

    A mixture of likelihood ratios of higher rates to the claimed one; while the rate is at most
    as claimed its expectation cannot grow.

    Args:
        level: the largest rate claimed, in (0, 1).
    """

    def __init__(self, level: float) -> None:
        odds = np.array(ODDS) * level / (1 - level)
        rates = odds / (1 + odds)
        self._yes, self._no = np.log(rates / level), np.log((1 - rates) / (1 - level))
        self.level, self.happened, self.count = level, 0, 0

    def add(self, happens: bool) -> float:
        """Take one more case; return the logarithm of the evidence."""
        self.happened, self.count = self.happened + happens, self.count + 1
        return self.log

    @property
    def log(self) -> float:
        """Logarithm of the evidence so far."""
        ratios = self.happened * self._yes + (self.count - self.happened) * self._no
        return float(np.logaddexp.reduce(ratios)) - math.log(len(ratios))
