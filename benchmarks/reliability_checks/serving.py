"""A server that is killed in mid-load: what it has answered is there, and nothing twice."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability_checks.outcome import Outcome
from benchmarks.reliability_checks.streams import FEATURES, policy
from lit_ios import StoppingPolicy

ROWS = 500  # between two kills
WORKERS, PATHS = 8, 5  # connections, and paths of each
TOLERANCE = 1e-9


class Server:
    """A server in a process of its own, which can be killed and started again.

    Args:
        file: of the policy.
        store: file or URL.
        environment: of the process, beside that of this one.
    """

    def __init__(self, file: Path, store: str, **environment: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = ["serve", str(file), "--store", store, "--port", str(self.port)]
        self._words = [sys.executable, "-m", "lit_ios", *words]
        self._environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
        self.start()

    def start(self) -> None:
        """Start it; return when it listens."""
        self._process = subprocess.Popen(
            self._words, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        said = b""
        while b"page " not in said:
            line = self._process.stdout.readline()
            said += line
            if not line:
                raise RuntimeError(said.decode())

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send a signal; return the exit code."""
        self._process.send_signal(number)
        with self._process:
            return self._process.wait()

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


class Worker(threading.Thread):
    """Sends rows of its own paths, again and again until they are answered.

    Args:
        server: to send them to.
        rule: that says what must be answered.
        number: of the worker.
        seed: of rows, and of how they are sent.
    """

    def __init__(self, server: Server, rule: StoppingPolicy, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._random = server, np.random.default_rng([seed, number])
        self._connection = server.connect()
        self.streams = {f"w{number}-{i}": rule.stream() for i in range(PATHS)}
        self.sent = dict.fromkeys(self.streams, 0)  # rows that were answered
        self.answered = self.again = 0
        self.wrong: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        """Send rows until there are enough."""
        while not self.enough.is_set() and not self.wrong:
            try:
                self._send()
            except Exception as error:  # whatever it is, it is no answer
                self.wrong.append(f"{type(error).__name__}: {error}")

    def _send(self) -> None:
        kind = self._random.integers(3)
        names = list(self.streams) if kind == 0 else [str(self._random.choice([*self.streams]))]
        rows = [self._row(name, i) for name in names for i in range(1 + 2 * (kind == 1))]
        plain = [{key: row[key] for key in ("time", "values")} for row in rows]
        place, body = "/rows", {"rows": rows}
        if kind != 0:
            place = f"/paths/{names[0]}/rows"
            body = {"rows": plain} if kind == 1 else plain[0]  # type: ignore[dict-item]
        answer = self._until_answered(place, body)
        for row, found in zip(rows, json.loads(answer)["decisions"], strict=True):
            self._compare(row, found)
        self.answered += len(rows)
        if self._random.random() < 0.1 and self._until_answered(place, body) != answer:
            self.wrong.append(f"{place}: sent again, it got another answer")

    def _row(self, name: str, ahead: int) -> dict[str, Any]:
        values = dict(zip(FEATURES, self._random.normal(size=2).tolist(), strict=True))
        return {"path": name, "time": float(self.sent[name] + ahead), "values": values}

    def _until_answered(self, place: str, body: Any) -> bytes:
        text = json.dumps(body)
        while True:
            try:
                self._connection.request("POST", place, text, {"content-type": "application/json"})
                answer = self._connection.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self.again += 1
                time.sleep(0.02)
                continue
            if answer.status != 200:
                raise RuntimeError(f"{answer.status} {said.decode()}")
            return said

    def _compare(self, row: dict[str, Any], found: dict[str, Any]) -> None:
        """Compare an answer with what a stream says of the row."""
        name = row["path"]
        wanted = self.streams[name].step(row["values"], row["time"])
        self.sent[name] += 1
        same = found.get("t") == wanted.t and abs(found["margin"] - wanted.margin) < TOLERANCE
        if not same:
            self.wrong.append(f"{name}: {found} instead of row {wanted.t}, {wanted.margin}")


def server_kills(trials: int, seed: int, store: str | None = None) -> Outcome:
    """Kill a server `trials` times while rows come in; count paths that are not as answered.

    Args:
        trials: kills, with 500 rows for each.
        seed: of the rows, and of when it is killed.
        store: URL of an empty database; None for a file.
    """
    rule, random = policy(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "policy.ckpt"
        rule.save(file)
        server = Server(file, store or f"{name}/live.db")
        workers = [Worker(server, rule, i, seed) for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        try:
            for kill in range(trials):
                _wait(workers, int(ROWS * (kill + random.random())))
                server.end()
                server.start()
            _wait(workers, ROWS * trials)
        finally:
            for worker in workers:
                worker.enough.set()
            for worker in workers:
                worker.join(30)
        wrong = [words for worker in workers for words in worker.wrong]
        wrong += _differing(server, workers)
        with contextlib.suppress(OSError):
            server.end(signal.SIGTERM)
    rows, again = sum(w.answered for w in workers), sum(w.again for w in workers)
    note = f"{rows:,} rows answered, {again} requests without an answer sent again"
    return Outcome(trials, len(wrong), wrong[0] if wrong else note)


def _wait(workers: list[Worker], rows: int) -> None:
    """Wait until so many rows were answered."""
    while sum(worker.answered for worker in workers) < rows:
        if any(worker.wrong for worker in workers):
            return
        time.sleep(0.002)


def _differing(server: Server, workers: list[Worker]) -> list[str]:
    """Return the paths that hold other rows than were answered."""
    connection = server.connect()
    connection.request("GET", "/paths?limit=1000")
    found = {p["path"]: p["rows"] for p in json.loads(connection.getresponse().read())["paths"]}
    connection.close()
    wanted = {name: rows for worker in workers for name, rows in worker.sent.items() if rows}
    names = found.keys() | wanted.keys()
    return [
        f"{name}: {found.get(name, 0)} rows instead of {wanted.get(name, 0)}"
        for name in sorted(names)
        if found.get(name, 0) != wanted.get(name, 0)
    ]
