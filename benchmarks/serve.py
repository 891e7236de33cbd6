"""A server under load from a second process, beside a bare FastAPI hello and `stream_many`.

    python -m benchmarks.serve                  requests per second and p99 at 1, 16, 64 connections
    python -m benchmarks.serve --kills 20       kill −9 in mid-load, 500 rows for each kill
    … --store postgresql://…/empty              both with another store

All figures are of one run in which the ways take turns: compare them with each other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability_checks.serving import Server, server_kills
from benchmarks.reliability_checks.streams import FEATURES, policy
from lit_ios.files import write_json

CONNECTIONS = (1, 16, 64)
MANY = 1000  # paths of one POST /rows
HELLO = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/hello")
async def hello():
    return {"hello": "world"}
print("page of its own", flush=True)
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
"""


class Hello(Server):
    """What FastAPI can do where nothing is done."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self.port = 8765
        self._words = [sys.executable, "-c", HELLO, str(self.port)]
        self.start()


class _Client(asyncio.Protocol):
    """One connection: the next request goes out when the last one is answered."""

    def __init__(self, requests: Iterator[bytes], until: float, taken: list[float]) -> None:
        self._requests, self._until, self._taken = requests, until, taken
        self._buffer, self._began = b"", 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        if self._began > self._until:
            self._transport.close()
            self.ended.set_result(None)
        else:
            self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200") or b'"error"' in body:
            self.ended.set_exception(RuntimeError(self._buffer.decode()[:500]))
            return
        self._taken.append(time.perf_counter() - self._began)
        self._buffer = b""
        self._send()


def _post(place: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {place} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(text) + text


def hellos(_: str) -> Iterator[bytes]:
    """Yield the requests of one connection to the bare server."""
    while True:
        yield b"GET /hello HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def single_rows(name: str) -> Iterator[bytes]:
    """Yield one row at a time, of ten paths in turn."""
    t = 0
    while True:
        for path in range(10):
            values = {"heat": 0.1 * (t % 7), "load": 0.3}
            yield _post(f"/paths/{name}-{path}/rows", {"time": t, "values": values})
        t += 1


def many_rows(name: str) -> Iterator[bytes]:
    """Yield one row of each of a thousand paths at a time."""
    t = 0
    while True:
        values = {"heat": 0.1 * (t % 7), "load": 0.3}
        rows = [{"path": f"{name}-{i}", "time": t, "values": values} for i in range(MANY)]
        yield _post("/rows", {"rows": rows})
        t += 1


def _load(
    port: int, requests: Callable[[str], Iterator[bytes]], connections: int, seconds: float,
    round_: str,
) -> list[float]:  # fmt: skip
    """Return what each request took; in a process of its own."""
    taken: list[float] = []

    async def go() -> None:
        loop, until = asyncio.get_running_loop(), time.perf_counter() + seconds
        clients = [_Client(requests(f"{round_}-{i}"), until, taken) for i in range(connections)]
        for client in clients:
            await loop.create_connection(lambda client=client: client, "127.0.0.1", port)
        await asyncio.gather(*(client.ended for client in clients))

    asyncio.run(go())
    return taken


def measure(store: str | None, seconds: float, rounds: int) -> dict[str, Any]:
    """Return medians over rounds of requests per second and of latencies in milliseconds."""
    found: dict[str, list[dict[str, float]]] = {}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, context.Pool(1) as second:
        file = Path(name) / "policy.ckpt"
        policy(0).save(file)
        server, hello = Server(file, store or f"{name}/live.db"), Hello()
        time.sleep(1)
        try:
            for round_ in range(rounds):
                for connections in CONNECTIONS:
                    for way, port, requests in (
                        ("hello", hello.port, hellos),
                        ("row", server.port, single_rows),
                    ):
                        given = (port, requests, connections, seconds, f"{round_}-{connections}")
                        taken = second.apply(_load, given)
                        found.setdefault(f"{way}, {connections}", []).append(
                            _summary(taken, seconds)
                        )
                taken = second.apply(_load, (server.port, many_rows, 1, seconds, f"m{round_}"))
                found.setdefault(f"{MANY} rows, 1", []).append(_summary(taken, seconds))
                for way, rate in in_process(seconds / 4).items():
                    found.setdefault(way, []).append({"rate": rate})
                taken = fsyncs(Path(name))
                found.setdefault("fsync of 4 kB", []).append(_summary(taken, sum(taken)))
        finally:
            server.end()
            hello.end()
    return {
        way: {key: float(np.median([one[key] for one in ones])) for key in ones[0]}
        for way, ones in found.items()
    }


def _summary(taken: list[float], seconds: float) -> dict[str, float]:
    p50, p99 = np.percentile(np.array(taken) * 1e3, [50, 99])
    return {"rate": len(taken) / seconds, "p50": float(p50), "p99": float(p99)}


def in_process(seconds: float) -> dict[str, float]:
    """Return rows per second of streams in this process, which keep nothing on the disk."""
    rule = policy(0)
    stream, many = rule.stream(), rule.stream_many()
    row, names = dict(zip(FEATURES, (0.1, 0.3), strict=True)), list(range(MANY))
    rows = [row] * MANY
    ways: dict[str, tuple[Callable[[float], Any], int]] = {
        "stream.step": (lambda t: stream.step(row, t), 1),
        f"stream_many, {MANY} paths": (lambda t: many.step(names, rows, [t] * MANY), MANY),
    }
    found = {}
    for way, (step, count) in ways.items():
        began, t = time.perf_counter(), 0
        while time.perf_counter() < began + seconds:
            step(float(t))
            t += 1
        found[way] = t * count / (time.perf_counter() - began)
    return found


def fsyncs(folder: Path, count: int = 200) -> list[float]:
    """Return what it takes to bring four kilobytes to the disk, each time."""
    taken = []
    with open(folder / "fsync", "wb", buffering=0) as stream:
        for _ in range(count):
            began = time.perf_counter()
            stream.write(bytes(4096))
            os.fsync(stream.fileno())
            taken.append(time.perf_counter() - began)
    return taken


def main() -> int:
    """Measure, print, write."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, help="instead: kill −9 so many times")
    parser.add_argument("--store", help="URL of an empty PostgreSQL database (default: a file)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument("--file", type=Path, default=Path("runs/serve.json"))
    args = parser.parse_args()
    if args.kills:
        outcome = server_kills(args.kills, 0, args.store)
        print(f"{outcome.trials} kills, {outcome.bad} bad: {outcome.note}")
        return outcome.bad
    found = measure(args.store, args.seconds, args.rounds)
    print("| | per second | median, ms | p99, ms |\n|---|---|---|---|")
    for way, one in found.items():
        rest = " | ".join(f"{one[key]:.2f}" if key in one else "" for key in ("p50", "p99"))
        print(f"| {way} | {one['rate']:,.0f} | {rest} |")
    args.file.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    write_json(args.file, {"commit": commit.strip(), "store": args.store or "SQLite", **found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
