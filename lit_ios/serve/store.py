"""What must survive the process: an SQLite file, or PostgreSQL by URL, through the same SQL.

One server at a time writes to a store, and holds a lock on it for as long as it lives.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lit_ios.checks import UserError

VERSION = 1
URLS = ("postgresql://", "postgres://")
LOCK = 0x6C69746F  # of PostgreSQL; any number that nobody else takes
TABLES = """
CREATE TABLE IF NOT EXISTS lit_ios_store (version BIGINT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lit_ios_policies (
    id TEXT PRIMARY KEY, number BIGINT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS lit_ios_paths (
    id TEXT PRIMARY KEY, policy TEXT NOT NULL, carry BLOB NOT NULL,
    changed DOUBLE PRECISION NOT NULL);
CREATE TABLE IF NOT EXISTS lit_ios_answers (
    id TEXT NOT NULL, t BIGINT NOT NULL, time DOUBLE PRECISION, digest BLOB NOT NULL,
    answer TEXT NOT NULL, PRIMARY KEY (id, t));
CREATE TABLE IF NOT EXISTS lit_ios_ended (
    id TEXT PRIMARY KEY, number BIGINT NOT NULL, policy TEXT NOT NULL, stopped BIGINT NOT NULL,
    margin DOUBLE PRECISION NOT NULL, distance DOUBLE PRECISION NOT NULL, answer TEXT NOT NULL);
"""


class StoreError(UserError):
    """The store cannot be read or written; nothing of what was asked for has been done."""


class Kept(NamedTuple):
    """A live path."""

    name: str
    policy: str  # that judges it
    carry: bytes  # doubles, the lowest byte first
    changed: float  # seconds since 1970
    last: str  # the newest answer


class Answered(NamedTuple):
    """A row of a live path and what was answered."""

    t: int
    time: float  # NaN if none was given
    digest: bytes  # of time and values
    answer: str  # JSON


class Ended(NamedTuple):
    """A path that has come to its end."""

    number: int  # in the order in which they ended
    name: str
    policy: str
    stopped: bool
    margin: float
    distance: float
    answer: str


class Changes(NamedTuple):
    """What is committed together.

    Args:
        wiped: paths of which everything is forgotten, before what follows.
        paths: that have new rows.
        answers: to these rows, by path.
        ended: paths.
        policies: id, name and content of those that come.
        dropped: ids of policies that no path needs any more.
        remember: rows of a path whose answers are kept.
    """

    wiped: Iterable[str]
    paths: Sequence[Kept]
    answers: dict[str, list[Answered]]
    ended: Iterable[Ended]
    policies: Iterable[tuple[str, str, bytes]]
    dropped: Iterable[str]
    remember: int


class Store:
    """Live paths, answers, ended paths and the policies they need.

    Args:
        place: an SQLite file, which is made, or the URL of a PostgreSQL database.
    """

    def __init__(self, place: str) -> None:
        self.place, self.postgres = place, place.startswith(URLS)
        self._errors: tuple[type[Exception], ...] = (sqlite3.Error,)
        self._connection: Any = None
        self.open()

    @property
    def shown(self) -> str:
        """The place without a password."""
        if not self.postgres:
            return self.place
        parts = urlsplit(self.place)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    def open(self) -> None:
        """Connect, also again after an error; take the lock and make the tables."""
        self.close()
        try:
            self._connection = self._postgres() if self.postgres else self._sqlite()
            self._execute("BEGIN" if self.postgres else "BEGIN EXCLUSIVE")
            for statement in TABLES.split(";")[:-1]:
                self._execute(statement.replace("BLOB", "BYTEA" if self.postgres else "BLOB"))
            self._execute("INSERT INTO lit_ios_store VALUES (?) ON CONFLICT DO NOTHING", [VERSION])
            versions = [number for (number,) in self._execute("SELECT version FROM lit_ios_store")]
            self._execute("COMMIT")
        except self._errors as error:
            self.close()
            raise self._refused("opened", error) from None
        if versions != [VERSION]:
            self.close()
            raise UserError(
                f"the store {self.shown} is of another version of lit-ios: give another --store"
            )

    def _sqlite(self) -> Any:
        folder = Path(self.place).absolute().parent
        if not folder.is_dir():
            raise UserError(f"--store: there is no folder {folder}: make it first")
        made = sqlite3.connect(self.place, 1.0, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA locking_mode=EXCLUSIVE")
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA synchronous=FULL")  # every commit is on the disk
        return made

    def _postgres(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise UserError(
                "a store in PostgreSQL needs psycopg: pip install 'lit-ios[serve-postgres]'"
            ) from None
        self._errors = (sqlite3.Error, psycopg.Error)
        made = psycopg.connect(self.place, autocommit=True, connect_timeout=5)
        made.execute("SET statement_timeout = '20s'")
        made.execute("SET client_min_messages = 'error'")
        taken = made.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", [LOCK]
        ).fetchone()
        if taken != (True,):
            made.close()
            raise StoreError(
                f"the store {self.shown} is in use by another server: stop that one first"
            )
        return made

    def close(self) -> None:
        """Let go of the store."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        if self._connection is None:
            self.open()
        return self._connection.execute(self._words(statement), values)

    def _many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        if rows := list(rows):
            self._connection.cursor().executemany(self._words(statement), rows)

    def _words(self, statement: str) -> str:
        return statement.replace("?", "%s") if self.postgres else statement

    def _refused(self, what: str, error: Exception) -> StoreError:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "locked" in reason:
            reason = "it is in use by another server, or another program has it open"
        return StoreError(f"the store {self.shown} cannot be {what}: {reason}")

    # Read ----------------------------------------------------------------------------------------

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return list(self._execute(statement, values))
        except self._errors as error:
            raise self._refused("read", error) from None

    def policies(self) -> list[tuple[str, str, bytes]]:
        """Return id, name and content of each policy, the oldest first."""
        return [
            (key, name, bytes(content))
            for key, name, content in self._rows(
                "SELECT id, name, content FROM lit_ios_policies ORDER BY number"
            )
        ]

    def paths(self) -> Iterator[Kept]:
        """Return all live paths."""
        found = self._rows(
            "SELECT id, policy, carry, changed, (SELECT answer FROM lit_ios_answers a "
            "WHERE a.id = p.id ORDER BY t DESC LIMIT 1) FROM lit_ios_paths p ORDER BY id"
        )
        for name, policy, carry, changed, last in found:
            yield Kept(name, policy, bytes(carry), changed, last)

    def answers(self, name: str) -> list[Answered]:
        """Return what is remembered of a path's rows."""
        return [
            Answered(t, math.nan if time is None else time, bytes(digest), answer)
            for t, time, digest, answer in self._rows(
                "SELECT t, time, digest, answer FROM lit_ios_answers WHERE id = ?", [name]
            )
        ]

    def ended(self, name: str) -> Ended | None:
        """Return what is known of a path that has ended."""
        found = self._rows(f"SELECT {_ENDED} FROM lit_ios_ended WHERE id = ?", [name])
        return _as_ended(found[0]) if found else None

    def all_ended(self) -> Iterator[Ended]:
        """Return all ended paths, in the order in which they ended."""
        return map(_as_ended, self._rows(f"SELECT {_ENDED} FROM lit_ios_ended ORDER BY number"))

    # Write ---------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        """Commit all changes, or none of them."""
        try:
            self._execute("BEGIN" if self.postgres else "BEGIN IMMEDIATE")
            self._write(changes)
            self._execute("COMMIT")
        except self._errors as error:
            raise self._refused("written", error) from None

    def _write(self, changes: Changes) -> None:
        wiped = [[name] for name in changes.wiped]
        self._many("DELETE FROM lit_ios_paths WHERE id = ?", wiped)
        self._many("DELETE FROM lit_ios_answers WHERE id = ?", wiped)
        self._many(
            "INSERT INTO lit_ios_paths VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
            "SET policy = excluded.policy, carry = excluded.carry, changed = excluded.changed",
            ((path.name, path.policy, path.carry, path.changed) for path in changes.paths),
        )
        self._many(
            "INSERT INTO lit_ios_answers VALUES (?, ?, ?, ?, ?)",
            (
                (name, row.t, None if math.isnan(row.time) else row.time, row.digest, row.answer)
                for name, rows in changes.answers.items()
                for row in rows[-changes.remember :]
            ),
        )
        self._many(
            "DELETE FROM lit_ios_answers WHERE id = ? AND t <= ?",
            (
                (name, rows[-1].t - changes.remember)
                for name, rows in changes.answers.items()
                if rows[-1].t >= changes.remember
            ),
        )
        self._many(
            "INSERT INTO lit_ios_ended VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (one.name, one.number, one.policy, int(one.stopped), *one[4:])
                for one in changes.ended
            ),
        )
        self._many("DELETE FROM lit_ios_policies WHERE id = ?", [[key] for key in changes.dropped])
        self._many(
            "INSERT INTO lit_ios_policies VALUES (?, "
            "(SELECT COALESCE(MAX(number), 0) + 1 FROM lit_ios_policies), ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET number = excluded.number",
            changes.policies,
        )


_ENDED = "number, id, policy, stopped, margin, distance, answer"


def _as_ended(row: Sequence[Any]) -> Ended:
    number, name, policy, stopped, *rest = row
    return Ended(number, name, policy, bool(stopped), *rest)
