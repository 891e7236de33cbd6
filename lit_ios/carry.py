"""One row of a live path, and everything the path remembers: its carry, one row of numbers.

    rows        rows seen so far; 0: the path is new, and its first row fills the lags
    threshold   margin at which this path is stopped, the rule's when the path began
    start       time of the first row
    last        time of the last row
    timed       1 if the path's rows come with times, 0 if each comes a usual step after the last
    first_stop  number of the first row at which the rule stopped, −1 before
    highest     largest margin so far
    furthest    largest distance so far from the rows of training
    recent      features of the last rows, newest first
    memory      h, member by member

`advance` is written once for NumPy and torch, which exports it: it cannot raise. What it cannot
judge, a feature that is missing or a time that does not increase, gets a NaN margin, which
whoever runs it must refuse, keeping the old carry.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

Missing = Literal["error", "last", "impute"]
CLOCK = ("rows", "threshold", "start", "last", "timed", "first_stop", "highest", "furthest")
ROWS, THRESHOLD, START, LAST, TIMED, FIRST_STOP, HIGHEST, FURTHEST = range(len(CLOCK))
MOST_PULLED = 200  # coordinates beyond which familiarity takes each for itself
LARGEST = 1e300  # stands for ∞: a carry is plain finite numbers


class Layout(NamedTuple):
    """Where the pieces of a carry lie."""

    features: int  # D
    lags: int
    members: int
    memory: int  # numbers of each member

    @property
    def recent(self) -> slice:
        """Features of the last rows; the newest is there even without lags."""
        return slice(len(CLOCK), len(CLOCK) + max(self.lags, 1) * self.features)

    @property
    def width(self) -> int:
        """Length of a carry."""
        return int(self.recent.stop) + self.members * self.memory

    def start(self, threshold: float) -> list[float]:
        """Return the carry of a path before its first row."""
        clock = [0.0, min(max(threshold, -LARGEST), LARGEST), 0.0, 0.0, 0.0, -1.0,
                 -LARGEST, 0.0]  # fmt: skip
        return clock + [0.0] * (self.width - len(clock))


class Usual(NamedTuple):
    """What rows of training were like, in units in which 1 is as far off as is still familiar."""

    pull: Any  # (F, F) inverse of the shrunk covariance, or (F,) its diagonal
    whole: Any  # () 1 / the largest familiar Mahalanobis distance
    own: Any  # (F,) the same for the share of one coordinate
    middle: Any  # (F,) of each coordinate's range
    reach: Any  # (F,) 1 / the distance from there that is still familiar


class Parts(Protocol):
    """What a rule does with rows, in NumPy or in torch."""

    layout: Layout
    include_time: bool
    time_step: Any  # usual time between two rows
    fill: Any  # (D,) what stands in for features that are missing, NaN for none; or None
    lagged: Any  # (L,) which of the earlier rows' features are part of the state; None for all
    usual: Usual

    def encode(self, columns: Any) -> Any:
        """Return features; (B, C) → (B, D)."""
        ...

    def scale(self, state: Any) -> Any:
        """Standardise states; (B, S) → (B, S)."""
        ...

    def remember(self, h: Any, state: Any, t: Any) -> Any:
        """Advance the memory; (…, B, C) → (…, B, C)."""
        ...

    def judge(self, state: Any, h: Any) -> Any:
        """Return Q of every member; (…, B, 2)."""
        ...

    def soften(self, margin: Any) -> Any:
        """Return the probability of stopping by E1; (B,)."""
        ...


class Advanced(NamedTuple):
    """What a rule says of the next rows of B paths."""

    margin: Any  # (B,) NaN where a row cannot be judged
    probability: Any  # (B,) of stopping; ½ at the threshold, so that it agrees with `stop`
    stop: Any  # (B,) bool
    carry: Any  # (B, W)
    raw: Any  # (B, S) state in the units of the data
    state: Any  # (B, S) standardised
    h: Any  # (…, B, C)
    q: Any  # (…, B, 2)
    distance: Any  # (B,) from the rows of training; up to 1 they are familiar
    shares: Any  # (B, F) of features and time in it


def advance(
    xp: Any, parts: Parts, columns: Any, time: Any, carry: Any, missing: Missing = "error"
) -> Advanced:
    """Take the next row of B paths.

    Args:
        xp: numpy or torch.
        parts: of the rule.
        columns: (B, C) raw.
        time: (B,) NaN where none is given: a usual step after the last row.
        carry: (B, W).
        missing: whether a feature that is missing cannot be judged, is filled in, or taken from the
            row before and filled in where there is none.
    """
    layout = parts.layout
    (rows, threshold, start, last, timed, first_stop, highest, furthest) = _columns(
        carry[:, : len(CLOCK)]
    )  # (B, 1)
    first, time = rows == 0, time[:, None]
    given = time == time
    now = xp.where(given, time, xp.where(first, 0.0, last + parts.time_step))
    start = xp.where(first, now, start)
    timed = xp.where(first, given * xp.ones_like(now), timed)
    elapsed = now - start
    known = _finite(xp, elapsed) & (first | ((now > last) & _clock_fits(parts, given, timed)))

    if missing != "error":
        columns = xp.where(_finite(xp, columns), columns, xp.nan)
    features = parts.encode(columns)  # (B, D)
    recent = carry[:, layout.recent]
    if missing == "last":
        before = recent[:, : layout.features]
        features = xp.where((features == features) | first, features, before)
    if missing != "error" and parts.fill is not None:
        features = xp.where(features == features, features, parts.fill)
    whole = _finite(xp, features)
    features = xp.where(whole, features, xp.nan)
    pieces = [features]
    if layout.lags:
        recent = xp.where(first, xp.concatenate([features] * layout.lags, 1), recent)
        pieces.append(recent if parts.lagged is None else recent[:, parts.lagged])
    if parts.include_time:
        pieces.append(elapsed)
    raw = xp.concatenate(pieces, 1) if len(pieces) > 1 else features
    state = parts.scale(raw)

    h = parts.remember(memory_of(layout, carry), state, rows[:, 0])
    q = parts.judge(state, h)
    margin = combine(xp, q[..., 0] - q[..., 1])[:, None]
    margin = xp.where(known & whole.all(1)[:, None], margin, xp.nan)
    stop = margin >= threshold
    stopped = xp.where((first_stop < 0) & stop, rows, first_stop)
    distance, shares = strangeness(xp, current(xp, layout, parts.include_time, state), parts.usual)
    highest, furthest = xp.maximum(highest, margin), xp.maximum(furthest, distance[:, None])
    pieces = [rows + 1, threshold, start, now, timed, stopped, highest, furthest, features]
    if layout.lags > 1:
        pieces.append(recent[:, : (layout.lags - 1) * layout.features])
    if layout.memory:
        pieces.append(_packed(layout, h))
    probability = parts.soften(margin - threshold)
    carry = xp.concatenate(pieces, 1)
    return Advanced(
        margin[:, 0], probability[:, 0], stop[:, 0], carry, raw, state, h, q, distance, shares
    )


def current(xp: Any, layout: Layout, include_time: bool, state: Any) -> Any:
    """Return the coordinates of a state that are of its own row; (B, S) → (B, F)."""
    if not layout.lags:
        return state
    now = state[:, : layout.features]
    return xp.concatenate([now, state[:, -1:]], 1) if include_time else now


def strangeness(xp: Any, now: Any, usual: Usual) -> tuple[Any, Any]:
    """Say how far rows are from those of training: in all, and what each coordinate adds.

    The larger one of two distances, each in units of what is still familiar: Mahalanobis'
    √(zᵀPz) of the standardised row z, P the inverse of the shrunk covariance, and the
    furthest that a coordinate is from the middle of its range. The share of a coordinate in the
    former is |(Pz)ᵢ|/√Pᵢᵢ: by the square of it zᵀPz would fall if this coordinate were as the
    others make one expect.

    Args:
        xp: numpy or torch.
        now: (B, F) standardised.
        usual: what rows of training were like.
    """
    pulled = now * usual.pull if usual.pull.ndim == 1 else now @ usual.pull
    whole = usual.whole * xp.sqrt(abs((now * pulled).sum(1)))
    beyond = abs(now - usual.middle) * usual.reach
    return xp.maximum(whole, xp.amax(beyond, 1)), xp.maximum(abs(pulled) * usual.own, beyond)


def responsible(xp: Any, shares: Any, most: int = 3) -> Any:
    """Return which coordinates make rows unfamiliar, the worst first; (B, F) → (B, most), −1: none.

    Those whose share is at least half of the largest.
    """
    shares = xp.where(shares == shares, shares, xp.inf)
    order = xp.argsort(-shares, 1)[:, :most]
    worst = shares[xp.arange(len(shares))[:, None], order]
    return xp.where(worst >= worst[:, :1] / 2, order, -1)


def _columns(clock: Any) -> Any:
    """Return the columns of a matrix, (B, 1) each: in one operation where torch exports them."""
    if hasattr(clock, "split"):
        return clock.split(1, 1)
    return [clock[:, i : i + 1] for i in range(clock.shape[1])]


def _finite(xp: Any, values: Any) -> Any:
    """Say which values are finite, in few operations."""
    return abs(values) < xp.inf


def _clock_fits(parts: Parts, given: Any, timed: Any) -> Any:
    """Say whether rows come with times as their paths began; without time it does not matter."""
    same = given == (timed > 0)
    return same if parts.include_time else same | ~given


def memory_of(layout: Layout, carry: Any) -> Any:
    """Return the memory of B paths; (B, W) → (…, B, C)."""
    h = carry[:, layout.recent.stop :]
    if layout.members == 1 or not layout.memory:
        return h
    return h.reshape(-1, layout.members, layout.memory).swapaxes(0, 1)


def _packed(layout: Layout, h: Any) -> Any:
    """Return the memory as it lies in a carry; (…, B, C) → (B, K·C)."""
    if layout.members == 1:
        return h
    return h.swapaxes(0, 1).reshape(-1, layout.members * layout.memory)


def combine(xp: Any, values: Any) -> Any:
    """Let the members speak with one voice: their median (E13); (K, B) or (B,) → (B,).

    Of an even number it is the lower one of the middle two, which errs towards continuing; the
    measured gap between held-out and test paths is smallest with it (docs/results.md).
    """
    if values.ndim == 1:
        return values
    ordered = xp.sort(values, 0)
    ordered = getattr(ordered, "values", ordered)  # torch also returns where they were
    return ordered[(len(values) - 1) // 2]
