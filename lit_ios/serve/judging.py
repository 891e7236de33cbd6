"""Rows of many paths judged together: as many passes of the rule as one path has rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time as clock
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lit_ios.carry import FIRST_STOP, THRESHOLD, TIMED
from lit_ios.checks import UserError
from lit_ios.live import Decisions
from lit_ios.live.rule import odd_spacing, spacing, why_refused
from lit_ios.live.streams import decisions_of
from lit_ios.serve.batch import Batch, Live
from lit_ios.serve.policies import Served
from lit_ios.serve.store import Answered
from lit_ios.times import as_time
from lit_ios.trajectories import FloatArray

WITHOUT_PLACE = (
    "give the row its time, or its number t in the path, from 0: a row that is sent again could "
    "not be told from a new one"
)


as_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Row(NamedTuple):
    """A row as it was sent."""

    values: Any  # by column name, or in the policy's order
    time: Any = None
    t: int | None = None  # its number in the path, from 0


class Refused(NamedTuple):
    """Why something cannot be done."""

    status: int  # of HTTP
    why: str


class _Ready(NamedTuple):
    """A row as numbers."""

    columns: FloatArray  # (C,)
    time: float  # NaN if none was given
    digest: bytes


class Sheaf:
    """The rows that one request holds of one path: they are taken together or not at all.

    Args:
        name: of the path.
        rows: in their order.
    """

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name, self.rows = name, rows
        self.reset()

    def reset(self) -> None:
        """Forget what became of the rows, to try again."""
        self.answers: list[str] = []  # JSON, one for each row
        self.repeated = 0
        self.refused: Refused | None = None
        self.fresh: list[Answered] = []
        self.stops = self.strange = 0
        self._live: Live | None = None
        self._next: _Ready | None = None

    def following(self, batch: Batch) -> bool:
        """Go to the next row that must be judged, answering repeated ones; False at the end."""
        if self._live is None and self.refused is None:
            self._begin(batch)
        while self.refused is None and len(self.answers) < len(self.rows):
            if not self._repeats(batch, self.rows[len(self.answers)]):
                return self.refused is None
        return False

    def _begin(self, batch: Batch) -> None:
        found = batch.path(self.name)
        if found is None and batch.ended(self.name) is not None:
            self.refuse(409, "the path has ended: give a new path a name of its own")
        else:
            self._live = found or batch.begin(self.name)
            if self._live is None:
                self.refuse(429, f"there are {batch.limits.paths} live paths: end some of them")

    def refuse(self, status: int, why: str) -> None:
        """Take none of the rows."""
        row = f"row {len(self.answers)} of the request: " if len(self.rows) > 1 else ""
        self.refused = Refused(status, f"path {self.name!r}: {row}{why}")

    def _repeats(self, batch: Batch, row: Row) -> bool:
        """Read a row; answer it if it was sent before, or refuse it."""
        try:
            ready = self._next = self._read(row)
        except UserError as error:
            self.refuse(422, str(error))
            return False
        count, _, _, last, timed = self.carry[: TIMED + 1].tolist()
        if row.t is not None and row.t > count:
            self.refuse(409, f"row {count:g} is next, got row {row.t}: rows must come in order")
        elif row.t is not None and row.t < count:
            self._repeat(batch, f"row {row.t}", row.t)
        elif count and timed and ready.time <= last:
            if row.t is not None:
                self.refuse(409, f"time must increase: {ready.time:g} after {last:g}")
            else:
                self._repeat(batch, f"time {ready.time:g}", None)
        else:
            return False
        return self.refused is None

    def _repeat(self, batch: Batch, which: str, t: int | None) -> None:
        """Answer a row as before if it is the same as before."""
        assert self._next is not None
        now = self._next.time
        for known in itertools.chain(self.fresh, batch.answers(self.name)):
            if known.t == t if t is not None else known.time == now:
                if known.digest == self._next.digest:
                    self.answers.append(known.answer)
                    self.repeated += 1
                else:
                    other = "values" if t is None else "values or another time"
                    self.refuse(409, f"{which} was taken before with other {other}")
                return
        self.refuse(
            409, f"{which} is not after the last row taken, and repeats none of the last "
            f"{batch.limits.remember}, which are remembered: rows must come in order",
        )  # fmt: skip

    def _read(self, row: Row) -> _Ready:
        if row.time is None and row.t is None:
            raise UserError(WITHOUT_PLACE)
        rule = self.policy.live
        columns = rule.observations.row(row.values)
        now = math.nan if row.time is None else as_time(row.time, rule.time_unit)
        told = [*columns.tolist(), now]
        for name, value in zip(rule.observations.columns, told, strict=False):
            if value in (math.inf, -math.inf):
                raise UserError(f"column {name!r} is infinite: give a number, or null if missing")
        return _Ready(columns, now, hashlib.blake2b(repr(told).encode(), digest_size=12).digest())

    # Judged together with others -----------------------------------------------------------------

    @property
    def live(self) -> Live:
        """The path as this request has it."""
        assert self._live is not None
        return self._live

    @property
    def policy(self) -> Served:
        """The policy of the path."""
        return self.live.policy

    @property
    def carry(self) -> FloatArray:
        """What the path remembers."""
        return self.live.carry

    @property
    def next(self) -> _Ready:
        """The row that is to be judged."""
        assert self._next is not None
        return self._next

    def take(self, carry: FloatArray, decision: dict[str, Any]) -> None:
        """Take the next row as judged."""
        text = as_json({"path": self.name, **decision, "policy": self.policy.key})
        self.stops += decision["first_stop"]
        self.strange += not decision["familiar"]
        self.answers.append(text)
        self.fresh.append(Answered(decision["t"], self.next.time, self.next.digest, text))
        self._live = Live(self.policy, carry.copy(), text, decision["margin"], clock.time())

    def close(self, batch: Batch) -> None:
        """Hand what has changed to the batch, if all rows were taken."""
        if self.refused is not None:
            self.answers, self.fresh, self.repeated = [], [], 0
        elif self.fresh:
            live = self.live
            batch.take(self.name, live, self.fresh)


def take_rows(batch: Batch, sheaves: Sequence[Sheaf]) -> None:
    """Judge the rows of requests, those of one path in the order in which they came."""
    waiting: dict[str, deque[Sheaf]] = defaultdict(deque)
    for sheaf in sheaves:
        waiting[sheaf.name].append(sheaf)
    while waiting:
        due: dict[Served, list[Sheaf]] = defaultdict(list)
        for name in list(waiting):
            queue = waiting[name]
            while queue and not queue[0].following(batch):
                queue.popleft().close(batch)
            if queue:
                due[queue[0].policy].append(queue[0])
            else:
                del waiting[name]
        for policy, heads in due.items():
            _judge(policy, heads)


def _judge(policy: Served, heads: list[Sheaf]) -> None:
    """Judge one row of each of several paths of a policy."""
    rule = policy.live
    while heads:
        columns = np.stack([one.next.columns for one in heads])  # (B, C)
        time = np.array([one.next.time for one in heads])
        before = np.stack([one.carry for one in heads])  # (B, W)
        judged = rule.step(columns, time, before, rule.missing)
        bad = np.flatnonzero(~np.isfinite(judged.margin))
        if not len(bad):
            break
        for i in bad.tolist():
            heads[i].refuse(422, why_refused(rule, columns[i], time[i], before[i], rule.missing))
        heads = [one for one in heads if one.refused is None]  # once more, without those
    else:
        return
    if policy.note is None and (step := spacing(judged.carry)) is not None:
        policy.note = odd_spacing(step, rule.time_step)
    carries = judged.carry
    said = plain(decisions_of(rule, judged), carries)
    for one, carry, decision in zip(heads, carries, said, strict=True):
        one.take(carry, decision)


def plain(found: Decisions, carry: FloatArray) -> list[dict[str, Any]]:
    """Return what is said of each row as JSON takes it; what is not finite is null.

    Args:
        found: of B rows.
        carry: (B, W) after them.
    """
    names = ["t", "time", "stop", "margin", "probability", "first_stop", "familiar"]
    values = [getattr(found, name).tolist() for name in names]
    values.append([None if x < 0 else int(x) for x in carry[:, FIRST_STOP].tolist()])
    values.append(carry[:, THRESHOLD].tolist())
    names += ["stopped_at", "threshold"]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    for row, strange in zip(rows, found.unfamiliar, strict=True):
        row["unfamiliar"] = list(strange)
        row["remaining"] = None
    if found.remaining is not None:
        left = found.remaining
        numbers = np.stack([left.low, left.low_at_stop, left.median], 1)  # (B, 3)
        within = {f"{h:g}": left.within(h).tolist() for h in left.forecast.horizons}
        for i, row in enumerate(rows):
            low, at_stop, median = (x if math.isfinite(x) else None for x in numbers[i].tolist())
            row["remaining"] = {"low": low, "low_at_stop": at_stop, "median": median}
            row["remaining"]["within"] = {name: each[i] for name, each in within.items()}
    return rows
