"""What stands before every request: key, host, size, time and number."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from lit_ios.serve.batch import Limits
from lit_ios.serve.jobs import Problem
from lit_ios.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
OPEN = ("/", "/docs", "/health", "/openapi.json")  # nothing of the paths is in them
LOCAL = ("localhost", "127.0.0.1", "[::1]")
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Guard:
    """Lets through what may and can be answered; an ASGI application around another.

    Args:
        app: behind it.
        limits: of requests.
        metrics: where requests are counted.
        key: that requests must bring; None for none.
        local: refuse requests that name another host than this one: a page of a stranger's whose
            name leads here could otherwise read what a browser may.
    """

    def __init__(
        self, app: Any, limits: Limits, metrics: Metrics, key: str | None, local: bool
    ) -> None:
        self._app, self._limits, self._metrics, self._local = app, limits, metrics, local
        self._key = None if key is None else b"Bearer " + key.encode()
        self._requests = self._bytes = 0

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        self._requests += 1
        held = 0
        try:
            headers = dict(scope["headers"])
            self._check(scope, headers)
            body = b"" if scope["method"] in ("GET", "HEAD") else await self._read(headers, receive)
            held = len(body)
            await self._app(scope, _replay(body, receive), counted)
        except Problem as problem:
            await answer_problem(problem, counted)
        finally:
            self._requests -= 1
            self._bytes -= held
            seconds = time.perf_counter() - began
            self._metrics.requests.labels(_method(scope), status).observe(seconds)

    def _check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Refuse those who may not ask, and one too many."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        if self._local and _name_of(host.decode("latin-1")) not in LOCAL:
            raise Problem(421, "without a key, this server answers to localhost and 127.0.0.1 only")
        if origin is not None and origin.rpartition(b"//")[2] != host:
            raise Problem(403, "pages of other servers may not ask this one")
        if self._key is not None and scope["path"] not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._key):
                raise Problem(401, "send the key: Authorization: Bearer KEY (LIT_IOS_API_KEY)")
        if self._requests > self._limits.requests and scope["path"] != "/health":
            raise Problem(503, f"{self._limits.requests} requests are being answered: try later")

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Return the body; refuse one that is too long or too slow."""
        limits, chunks, size = self._limits, [], 0
        told = headers.get(b"content-length", b"0")
        self._fits(int(told) if told.isdigit() and len(told) < 20 else 0)
        try:
            async with asyncio.timeout(limits.seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "the connection ended before the request")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    self._bytes += len(chunks[-1])
                    self._fits(size)
                    more = message.get("more_body", False)
        except TimeoutError:
            self._bytes -= size
            raise Problem(408, f"the request took more than {limits.seconds:g} s") from None
        except BaseException:
            self._bytes -= size
            raise
        return b"".join(chunks)

    def _fits(self, size: int) -> None:
        if size > self._limits.body:
            raise Problem(413, f"a request holds at most {self._limits.body} bytes: send several")
        if self._bytes > 10 * self._limits.body:
            raise Problem(503, "too many long requests are being answered: try later")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a body that has been read as if it came in now."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _name_of(host: str) -> str:
    """Return a host without its port."""
    end = host.find("]")
    return host[: end + 1] if end >= 0 else host.partition(":")[0]


def _method(scope: Any) -> str:
    """Return the method; of strangers' inventions there is no end."""
    known = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
    return scope["method"] if scope["method"] in known else "other"


async def answer_problem(problem: Problem, send: Send) -> None:
    """Send the sentence of a problem."""
    body = json.dumps({"error": problem.why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status == 503:
        headers.append((b"retry-after", b"1"))
    if problem.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
