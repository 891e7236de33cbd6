"""The HTTP side: what can be asked, and in which words it is answered."""

from __future__ import annotations

import heapq
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from lit_ios.carry import FIRST_STOP, FURTHEST, HIGHEST, THRESHOLD
from lit_ios.checks import UserError
from lit_ios.serve import schemas
from lit_ios.serve.batch import Live, rows_of
from lit_ios.serve.engine import Engine
from lit_ios.serve.guard import Guard
from lit_ios.serve.jobs import Adopt, End, Forget, Problem, Take, no_path
from lit_ios.serve.judging import Row, Sheaf, as_json
from lit_ios.serve.metrics import Metrics
from lit_ios.serve.pages import PAGES, policy_of
from lit_ios.serve.policies import Served

JSON = "application/json"
Id = Annotated[schemas.Name, InPath(alias="id", description="name of the path")]
Order = Literal["margin", "newest", "name"]
SAYS = {
    400: "not HTTP or JSON as it should be", 401: "no key, or a wrong one", 403: "another origin",
    404: "there is no such path", 408: "too slow", 409: "it contradicts what was taken before",
    413: "too long", 421: "another host", 422: "it cannot be understood or judged",
    429: "no place for more paths", 503: "not now: send the same again",
}  # fmt: skip
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorAnswer, "description": text} for status, text in SAYS.items()
}


def make_app(
    engine: Engine, metrics: Metrics, reread: Callable[[], Served], key: str | None, local: bool
) -> Guard:
    """Return the ASGI application.

    Args:
        engine: that carries out what is asked.
        metrics: where requests are counted.
        reread: reads the policy again from where it came.
        key: that requests must bring; None for none.
        local: see `Guard`.
    """

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()

    app = FastAPI(
        title="lit-ios serve", version=metadata.version("lit-ios"), lifespan=living, docs_url=None,
        redoc_url=None, responses=ERRORS, description="Live paths of a learnt stopping rule.",
    )  # fmt: skip
    _add_rows(app, engine)
    _add_paths(app, engine)
    _add_policy(app, engine, reread)
    _add_pages(app, metrics)
    for kind in (Problem, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer)
    return Guard(app, engine.state.limits, metrics, key, local)


def _add_rows(app: FastAPI, engine: Engine) -> None:
    limits = engine.state.limits

    async def take(names: list[str], rows: list[Row]) -> dict[str, tuple[Sheaf, list[int]]]:
        """Take rows of paths; return those of each, and where they stand in the request."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        if len(rows) > limits.rows:
            raise Problem(413, f"a request holds at most {limits.rows} rows: send several")
        if max(map(len, places.values())) > limits.remember:
            raise Problem(
                413, f"a request holds at most {limits.remember} rows of a path, as many as are "
                "remembered: send several",
            )  # fmt: skip
        found = {name: (Sheaf(name, [rows[i] for i in at]), at) for name, at in places.items()}
        await engine.do(Take([sheaf for sheaf, _ in found.values()]))
        return found

    @app.post("/paths/{id}/rows", response_model=schemas.DecisionsAnswer)
    async def take_rows(id: Id, body: schemas.OneOrMany) -> Response:
        """Take the next row or rows of a path, all or none; its first row begins it."""
        given = body.rows if isinstance(body, schemas.RowsBody) else [body]
        found = await take([id] * len(given), [Row(r.values, r.time, r.t) for r in given])
        sheaf, _ = found[id]
        if sheaf.refused is not None:
            raise Problem(*sheaf.refused)
        return _json('{"decisions":[' + ",".join(sheaf.answers) + "]}")

    @app.post("/rows", response_model=schemas.ManyAnswer)
    async def take_many(body: schemas.ManyBody) -> Response:
        """Take rows of many paths, those of each path all or none."""
        rows, refused = body.rows, 0
        found = await take([r.path for r in rows], [Row(r.values, r.time, r.t) for r in rows])
        said = [""] * len(rows)
        for name, (sheaf, places) in found.items():
            answers: Iterable[str] = sheaf.answers
            if sheaf.refused is not None:
                refused += len(places)
                status, why = sheaf.refused
                answers = [as_json({"path": name, "status": status, "error": why})] * len(places)
            for place, answer in zip(places, answers, strict=True):
                said[place] = answer
        return _json('{"decisions":[' + ",".join(said) + f'],"refused":{refused}}}')


def _add_paths(app: FastAPI, engine: Engine) -> None:
    state = engine.state

    @app.get("/paths", response_model=schemas.PathsAnswer)
    async def list_paths(
        limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
        order: Annotated[Order, Query(description="margin: nearest to a stop first")] = "margin",
        after: Annotated[str | None, Query(description="with order=name: names after it")] = None,
    ) -> Response:
        """List live paths."""
        if after is not None and order != "name":
            raise Problem(422, "after goes with order=name")
        return _json(await run_in_threadpool(_listed, state.listed(), limit, order, after))

    @app.get("/paths/{id}", response_model=schemas.StateAnswer)
    async def get_path(id: Id) -> Response:
        """Return a live path with all it remembers."""
        live = state.paths.get(id)
        if live is None:
            raise Problem(*no_path(id))
        carry = {"rule": live.policy.live.fingerprint, "carry": live.carry.tolist()}
        return _json(as_json(_shown(id, live) | {"state": carry}))

    @app.delete("/paths/{id}", status_code=204, response_class=Response)
    async def forget_path(id: Id) -> Response:
        """Forget a live path as if it had never been; the monitor does not count it."""
        await engine.do(Forget(id))
        return Response(status_code=204)

    @app.post("/paths/{id}/end", response_model=schemas.EndedAnswer)
    async def end_path(id: Id, body: schemas.EndBody) -> Response:
        """Let a path end, so that the monitor counts it."""
        job = End(id, body.stopped)
        await engine.do(job)
        return _json(job.answer)


def _add_policy(app: FastAPI, engine: Engine, reread: Callable[[], Served]) -> None:
    state = engine.state

    def about() -> str:
        with state.lock:
            counts = dict.fromkeys(state.policies, 0)
            for live in state.paths.values():
                counts[live.policy.key] += 1
            made = [one.about() | {"live": counts[key]} for key, one in state.policies.items()]
        return as_json(made.pop() | {"others": made})

    @app.get("/policy", response_model=dict[str, Any])
    async def get_policy() -> Response:
        """Return the policy of new paths, and in `others` those that older paths go on with."""
        return _json(await run_in_threadpool(about))

    @app.post("/policy", response_model=dict[str, Any])
    async def read_policy() -> Response:
        """Read the policy again from where the server was told; new paths begin with it."""
        try:
            policy = await run_in_threadpool(reread)
        except UserError as error:
            raise Problem(422, str(error)) from None
        await engine.do(Adopt(policy))
        return _json(await run_in_threadpool(about))


def _add_pages(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the server is there."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Return counts in Prometheus' text format."""
        text = await run_in_threadpool(metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    for place, text in PAGES.items():

        def page(text: str = text) -> HTMLResponse:
            return HTMLResponse(text, headers={"content-security-policy": policy_of(text)})

        app.add_api_route(place, page, include_in_schema=False)


def _listed(paths: list[tuple[str, Live]], limit: int, order: Order, after: str | None) -> str:
    keys: dict[Order, Callable[[tuple[str, Live]], Any]] = {
        "margin": lambda one: (float(one[1].carry[THRESHOLD]) - one[1].margin, one[0]),
        "newest": lambda one: (-one[1].changed, one[0]),
        "name": lambda one: one[0],
    }
    kept = paths if after is None else [one for one in paths if one[0] > after]
    shown = [_shown(*one) for one in heapq.nsmallest(limit, kept, keys[order])]
    stopped = sum(live.carry[FIRST_STOP] >= 0 for _, live in paths)
    found = {"live": len(paths), "stopped": int(stopped), "paths": shown}
    return as_json(found)


def _shown(name: str, live: Live) -> dict[str, Any]:
    return {
        "path": name,
        "rows": rows_of(live),
        "changed": datetime.fromtimestamp(live.changed, UTC).isoformat(timespec="milliseconds"),
        "highest": float(live.carry[HIGHEST]),
        "furthest": float(live.carry[FURTHEST]),
        "last": json.loads(live.last),
    }


def _json(text: str) -> Response:
    return Response(text, media_type=JSON)


async def _answer(request: Request, error: Exception) -> Response:
    """Answer every error in the same words."""
    if isinstance(error, Problem):
        status, why = error.status, error.why
    elif isinstance(error, RequestValidationError):
        status, why = 422, _sentence(error)
    elif not isinstance(error, HTTPException):
        status, why = 500, "this server made a mistake: see its log"
    else:
        status, why = error.status_code, str(error.detail)
        if status in (404, 405):
            why = f"there is no {request.method} of this address: see /docs"
    headers = dict(getattr(error, "headers", None) or {})
    headers |= {"retry-after": "1"} if status == 503 else {}
    return Response(as_json({"error": why}), status, headers, JSON)


def _sentence(error: RequestValidationError) -> str:
    """Return what is wrong first, and where."""
    first = max(error.errors(), key=lambda one: len(one["loc"]))
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return f"the request is not JSON: {first.get('ctx', {}).get('error', what)}"
    where = ".".join(str(part) for part in first["loc"][1:] if part not in schemas.TAGS)
    if not where and first["loc"][:1] == ("body",):
        return "the request must be a JSON object, with content-type: application/json"
    return f"{where[:100]}: {what[:200]}"
