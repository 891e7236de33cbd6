"""A server: its store, its engine, its socket."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from lit_ios.checks import UserError, check_number
from lit_ios.serve.app import make_app
from lit_ios.serve.batch import Batch, Limits, State
from lit_ios.serve.engine import Engine
from lit_ios.serve.guard import Guard
from lit_ios.serve.jobs import adopt
from lit_ios.serve.metrics import Metrics
from lit_ios.serve.policies import Served, read_policy
from lit_ios.serve.store import Store

KEY = "LIT_IOS_API_KEY"


def run(
    find: Callable[[], Path], store: str, host: str, port: int, allow: tuple[str, ...],
    without_key: bool, max_paths: int, remember: int,
) -> None:  # fmt: skip
    """Serve until the process is told to end; see `lit_ios.serve.serve`."""
    check_number("max_paths", max_paths, at_least=1)
    check_number("remember", remember, at_least=1)
    local, key = is_local(host), api_key()
    if key is None and not local and not without_key:
        raise UserError(
            f"{host} can be reached from other machines: set {KEY} to a key that requests must "
            "bring, or say --without-key"
        )
    limits = Limits(paths=max_paths, remember=remember)
    with _listen(host, port) as listening:
        app, state = application(find, Store(store), limits, allow, key, local and key is None)
        where = f"[{host}]" if ":" in host else host
        print(f"policy  {state.current.name}")
        print(f"store   {state.store.shown}, {len(state.paths)} live paths")
        print(f"page    http://{where}:{listening.getsockname()[1]}/", flush=True)
        config = uvicorn.Config(
            app, ws="none", access_log=False, log_level="warning", server_header=False,
            proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=15,
            limit_concurrency=10 * limits.requests,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listening])


def application(
    find: Callable[[], Path], store: Store, limits: Limits, allow: tuple[str, ...] = (),
    key: str | None = None, local: bool = False,
) -> tuple[Guard, State]:  # fmt: skip
    """Return the ASGI application of a store, with the policy adopted, and what is live.

    Args:
        find: returns the file of the policy.
        store: that is open.
        limits: of the server.
        allow: packages that checkpoints may name classes of.
        key: that requests must bring.
        local: answer only to requests that name this machine.
    """

    def read() -> Served:
        return read_policy(find(), allow)

    try:
        state = State(store, limits, allow)
        policy = read()
        if not state.policies or state.current.key != policy.key:
            batch = Batch(state)
            adopt(policy, batch, state)
            batch.commit()
    except BaseException:
        store.close()
        raise
    metrics = Metrics(state)
    return make_app(Engine(state, metrics), metrics, read, key, local), state


def is_local(host: str) -> bool:
    """Say whether an address can only be reached from this machine."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        raise UserError(f"--host: there is no address {host!r} on this machine") from None
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)


def api_key() -> str | None:
    """Return the key that requests must bring, if there is one."""
    key = os.environ.get(KEY)
    if key is not None and (not key.isascii() or not key.isprintable() or len(key) < 16):
        raise UserError(f"{KEY} must be at least 16 plain characters: leave it out, or make one")
    return key


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise UserError(f"--port must lie between 0 and 65535, got {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UserError(
            f"{host}, port {port}, cannot be listened at: {error.strerror}; give another --port"
        ) from None
