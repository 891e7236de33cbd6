"""What can be asked of the writer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from lit_ios.carry import FIRST_STOP, FURTHEST, HIGHEST
from lit_ios.serve.batch import Batch, State, rows_of
from lit_ios.serve.judging import Refused, Sheaf, as_json, take_rows
from lit_ios.serve.policies import Served, remember_ended


class Problem(Exception):  # noqa: N818 (an answer, not always an error)
    """An answer that is not the one asked for.

    Args:
        status: of HTTP.
        why: in one sentence.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Job(ABC):
    """Something that changes what is live."""

    size = 1  # in rows
    refused: Refused | None = None

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failed: Problem | None = None

    @abstractmethod
    def apply(self, batch: Batch, state: State) -> None:
        """Change the batch."""


class Take(Job):
    """Take rows, path by path."""

    def __init__(self, sheaves: Sequence[Sheaf]) -> None:
        super().__init__()
        self.sheaves, self.size = sheaves, sum(len(one.rows) for one in sheaves)

    def apply(self, batch: Batch, state: State) -> None:
        """Judge its rows alone; the engine judges those of several jobs together."""
        take_rows(batch, self.sheaves)


class End(Job):
    """Let a path end."""

    def __init__(self, name: str, stopped: bool) -> None:
        super().__init__()
        self.name, self.stopped, self.answer = name, stopped, ""

    def apply(self, batch: Batch, state: State) -> None:
        """End the path; say the same again if it has ended the same way."""
        live = batch.path(self.name)
        if live is not None:
            first = int(live.carry[FIRST_STOP])
            self.answer = as_json({
                "path": self.name, "stopped": self.stopped, "rows": rows_of(live),
                "stopped_at": None if first < 0 else first, "highest": float(live.carry[HIGHEST]),
                "furthest": float(live.carry[FURTHEST]), "policy": live.policy.key,
            })  # fmt: skip
            batch.end(self.name, self.stopped, self.answer)
        elif (before := batch.ended(self.name)) is None:
            self.refused = no_path(self.name)
        elif before.stopped != self.stopped:
            how = "stopped" if before.stopped else "not stopped"
            self.refused = Refused(409, f"path {self.name!r} has ended before, {how} by the expert")
        else:
            self.answer = before.answer


class Forget(Job):
    """Forget a live path, as if it had never been."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def apply(self, batch: Batch, state: State) -> None:
        """Forget the path."""
        if batch.path(self.name) is not None:
            batch.forget(self.name)
        elif batch.ended(self.name) is None:
            self.refused = no_path(self.name)
        else:
            self.refused = Refused(
                409, f"path {self.name!r} has ended: the monitor counts it, it stays"
            )


class Adopt(Job):
    """Let new paths begin with another policy."""

    def __init__(self, policy: Served) -> None:
        super().__init__()
        self.policy = policy

    def apply(self, batch: Batch, state: State) -> None:
        """Adopt the policy."""
        adopt(self.policy, batch, state)


def adopt(policy: Served, batch: Batch, state: State) -> None:
    """Let new paths begin with a policy; it knows the paths that ended by it before."""
    there = state.policies.get(policy.key)
    if there is None:
        remember_ended([policy], state.store.all_ended())
    batch.adopt(there or policy)


def no_path(name: str) -> Refused:
    """Return why nothing can be done with a path."""
    return Refused(404, f"there is no live path {name!r}")
