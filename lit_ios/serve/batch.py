"""What is live, and the changes to it that one transaction commits."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lit_ios.carry import FURTHEST, HIGHEST, ROWS
from lit_ios.checks import UserError
from lit_ios.live.saved import checked_carry
from lit_ios.serve.policies import Served, open_policy, remember_ended
from lit_ios.serve.store import Answered, Changes, Ended, Kept, Store
from lit_ios.trajectories import FloatArray


class Limits(NamedTuple):
    """What a server takes.

    Args:
        paths: that are live at a time.
        remember: rows of a path whose answers are kept; a request holds no more rows of a path.
        rows: of a request.
        body: bytes of a request.
        requests: at a time.
        seconds: for a body to come in, and again for its answer.
    """

    paths: int = 100_000
    remember: int = 128
    rows: int = 20_000
    body: int = 16_000_000
    requests: int = 1000
    seconds: float = 30.0


class Live(NamedTuple):
    """A live path as it was last committed."""

    policy: Served
    carry: FloatArray  # (W,)
    last: str  # the newest answer, JSON
    margin: float  # in it
    changed: float  # seconds since 1970


class State:
    """Everything that is live, as the store has it.

    Args:
        store: it is read from.
        limits: of the server.
        allow: packages that checkpoints in the store may name classes of.
    """

    def __init__(self, store: Store, limits: Limits, allow: tuple[str, ...] = ()) -> None:
        self.store, self.limits, self.allow = store, limits, allow
        self.lock = threading.Lock()  # whoever reads while a batch is taken over holds it
        self.read()

    def read(self) -> None:
        """Take everything from the store."""
        self.store.open()
        policies: dict[str, Served] = {}
        for key, name, content in self.store.policies():
            policies[key] = open_policy(content, name, self.allow)
        paths: dict[str, Live] = {}
        for kept in self.store.paths():
            try:
                paths[kept.name] = _live(kept, policies)
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"path {kept.name!r} in the store {self.store.shown} cannot be read: {error}"
                ) from None
        ended = list(self.store.all_ended())
        remember_ended(policies.values(), ended)
        with self.lock:
            self.policies, self.paths = policies, paths
            self.finished = max((one.number for one in ended), default=0)

    @property
    def current(self) -> Served:
        """The policy that new paths begin with."""
        return next(reversed(self.policies.values()))

    def listed(self) -> list[tuple[str, Live]]:
        """Return the live paths as they are now."""
        with self.lock:
            return list(self.paths.items())


def _live(kept: Kept, policies: dict[str, Served]) -> Live:
    """Return a path as the store has it."""
    if kept.policy not in policies or not kept.last:
        raise UserError("its policy or its last answer is missing")
    policy, carry = policies[kept.policy], np.frombuffer(kept.carry, "<f8")
    margin = float(json.loads(kept.last)["margin"])
    return Live(policy, checked_carry(carry, policy.live), kept.last, margin, kept.changed)


class Batch:
    """Changes to what is live, to be committed together.

    Args:
        state: before them.
    """

    def __init__(self, state: State) -> None:
        self.limits, self._state = state.limits, state
        self._paths: dict[str, Live | None] = {}
        self._fresh: dict[str, list[Answered]] = {}
        self._known: dict[str, list[Answered]] = {}  # read from the store
        self._wiped: dict[str, None] = {}
        self._ended: dict[str, Ended] = {}
        self._adopted: list[Served] = []
        self._new: set[str] = set()  # paths that began
        self._gone = 0  # paths that were there before and are no longer

    # What there is -------------------------------------------------------------------------------

    def path(self, name: str) -> Live | None:
        """Return a live path."""
        return self._paths[name] if name in self._paths else self._state.paths.get(name)

    def ended(self, name: str) -> Ended | None:
        """Return a path that has ended."""
        return self._ended.get(name) or self._state.store.ended(name)

    def begin(self, name: str) -> Live | None:
        """Return a path of which no row was seen; None if there is no place for it."""
        if len(self._state.paths) - self._gone + len(self._new) >= self.limits.paths:
            return None
        self._new.add(name)
        policy = self._adopted[-1] if self._adopted else self._state.current
        return Live(policy, np.array(policy.live.start, dtype=np.float64), "", 0.0, 0.0)

    def answers(self, name: str) -> Iterator[Answered]:
        """Return what is remembered of a path's rows."""
        yield from self._fresh.get(name, [])
        if name not in self._wiped and name in self._state.paths:
            if name not in self._known:
                self._known[name] = self._state.store.answers(name)
            yield from self._known[name]

    # What changes --------------------------------------------------------------------------------

    def take(self, name: str, live: Live, fresh: list[Answered]) -> None:
        """Take new rows of a path."""
        self._paths[name] = live
        self._fresh.setdefault(name, []).extend(fresh)

    def forget(self, name: str) -> None:
        """Forget everything of a live path."""
        self._gone += name not in self._new
        self._new.discard(name)
        self._paths[name] = None
        self._fresh.pop(name, None)
        self._wiped[name] = None

    def end(self, name: str, stopped: bool, answer: str) -> None:
        """Let a live path end."""
        live = self.path(name)
        assert live is not None
        margin, distance = float(live.carry[HIGHEST]), float(live.carry[FURTHEST])
        number = self._state.finished + len(self._ended) + 1
        self.forget(name)
        self._ended[name] = Ended(number, name, live.policy.key, stopped, margin, distance, answer)

    def adopt(self, policy: Served) -> None:
        """Let new paths begin with another policy."""
        self._adopted.append(policy)

    def commit(self) -> None:
        """Write the changes to the store, then take them over."""
        if not (self._paths or self._adopted):
            return
        state = self._state
        paths = {name: live for name, live in self._paths.items() if live is not None}
        gone = [name for name, live in self._paths.items() if live is None]
        kept = [
            Kept(name, one.policy.key, one.carry.astype("<f8").tobytes(), one.changed, one.last)
            for name, one in paths.items()
        ]
        needed, dropped = self._policies(paths)
        state.store.write(
            Changes(
                self._wiped, kept, self._fresh, self._ended.values(),
                [(one.key, one.name, one.content) for one in self._adopted], dropped,
                self.limits.remember,
            )
        )  # fmt: skip
        with state.lock:
            for name in gone:
                state.paths.pop(name, None)
            state.paths |= paths
            state.policies = needed
            state.finished += len(self._ended)
            remember_ended(needed.values(), self._ended.values())

    def _policies(self, paths: dict[str, Live]) -> tuple[dict[str, Served], list[str]]:
        """Return the policies that go on, the current one last, and the ids of those that do not.

        Which are needed is only counted where a path ended or a policy came.
        """
        before = self._state.policies
        known = dict(before)
        for policy in self._adopted:
            known.pop(policy.key, None)
            known[policy.key] = policy
        if len(known) == 1 or not (self._adopted or self._wiped):
            return known, []
        used = {live.policy.key for live in paths.values()} | {
            live.policy.key for name, live in self._state.paths.items() if name not in self._paths
        }
        needed = {key: one for key, one in known.items() if key in used}
        newest = next(reversed(known))
        needed.pop(newest, None)
        needed[newest] = known[newest]
        return needed, [key for key in before if key not in needed]


def rows_of(live: Live) -> int:
    """Return the number of rows of a live path."""
    return int(live.carry[ROWS])
