"""One row of a live path, and everything the path remembers: its carry, one row of numbers.

    rows        rows seen so far; 0: the path is new, and its first row fills the lags
    threshold   margin at which this path is stopped, the rule's when the path began
    start       time of the first row
    last        time of the last row
    timed       1 if the path's rows come with times, 0 if each comes a usual step after the last
    first_stop  number of the first row at which the rule stopped, −1 before
    recent      features of the last rows, newest first
    memory      h, member by member

`advance` is written once for NumPy and torch, which exports it: it cannot raise. What it cannot
judge, a feature that is missing or a time that does not increase, gets a NaN margin, which
whoever runs it must refuse, keeping the old carry.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

Missing = Literal["error", "last"]
CLOCK = ("rows", "threshold", "start", "last", "timed", "first_stop")
ROWS, THRESHOLD, START, LAST, TIMED, FIRST_STOP = range(len(CLOCK))
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
        clock = [0.0, min(max(threshold, -LARGEST), LARGEST), 0.0, 0.0, 0.0, -1.0]
        return clock + [0.0] * (self.width - len(clock))


class Parts(Protocol):
    """What a rule does with rows, in NumPy or in torch."""

    layout: Layout
    include_time: bool
    time_step: Any  # usual time between two rows

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
        missing: whether the last known value stands in for a feature that is missing.
    """
    layout = parts.layout
    rows, threshold, start, last, timed, first_stop = _columns(carry[:, : len(CLOCK)])  # (B, 1)
    first, time = rows == 0, time[:, None]
    given = time == time
    now = xp.where(given, time, xp.where(first, 0.0, last + parts.time_step))
    start = xp.where(first, now, start)
    timed = xp.where(first, given * xp.ones_like(now), timed)
    elapsed = now - start
    known = _finite(xp, elapsed) & (first | ((now > last) & _clock_fits(parts, given, timed)))

    features = parts.encode(columns)  # (B, D)
    recent = carry[:, layout.recent]
    if missing == "last":
        before = recent[:, : layout.features]
        features = xp.where(_finite(xp, features) | first, features, before)
    pieces = [features]
    if layout.lags:
        recent = xp.where(first, xp.concatenate([features] * layout.lags, 1), recent)
        pieces.append(recent)
    if parts.include_time:
        pieces.append(elapsed)
    raw = xp.concatenate(pieces, 1) if len(pieces) > 1 else features
    state = parts.scale(raw)

    h = parts.remember(memory_of(layout, carry), state, rows[:, 0])
    q = parts.judge(state, h)
    margin = combine(xp, q[..., 0] - q[..., 1])[:, None]
    margin = xp.where(known & _finite(xp, features).all(1)[:, None], margin, xp.nan)
    stop = margin >= threshold
    stopped = xp.where((first_stop < 0) & stop, rows, first_stop)
    pieces = [rows + 1, threshold, start, now, timed, stopped, features]
    if layout.lags > 1:
        pieces.append(recent[:, : (layout.lags - 1) * layout.features])
    if layout.memory:
        pieces.append(_packed(layout, h))
    probability = parts.soften(margin - threshold)
    carry = xp.concatenate(pieces, 1)
    return Advanced(margin[:, 0], probability[:, 0], stop[:, 0], carry, raw, state, h, q)


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
