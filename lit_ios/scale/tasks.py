"""Independent tasks on the cores of this machine or on a Ray cluster, results as they come."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from lit_ios.checks import UserError, check_choice, check_number

Task = TypeVar("Task")
Result = TypeVar("Result")
Engine = Literal["processes", "ray"]
ATTEMPTS = 3  # at a task whose process is killed


class Place(NamedTuple):
    """Where tasks run.

    Args:
        on: `processes` of this machine, or a `ray` cluster.
        processes: tasks at a time on this machine; on a cluster that exists, its cores decide.
        address: of the cluster; None starts one on this machine.
    """

    on: Engine = "processes"
    processes: int = 1
    address: str | None = None

    def check(self) -> None:
        """Refuse a place that does not exist."""
        check_choice("on", self.on, Engine)
        check_number("processes", self.processes, at_least=1)
        if self.address is not None and self.on != "ray":
            raise UserError(f"address {self.address!r} goes with on='ray'")


class _Failed(NamedTuple):
    """What a task raised, as a value: Ray and process pools wrap errors in their own."""

    error: Exception


class _Killed(Exception):  # noqa: N818 (it is caught, never shown)
    """The process that worked on a task ended before the task did."""


class _Pool(Protocol):
    """Takes tasks, and gives back those that are done."""

    size: int

    def submit(self, do: Callable[[Any], Any], task: Any) -> Any:
        """Begin a task; return what it is known by."""

    def wait(self, handles: list[Any]) -> list[Any]:
        """Wait until some tasks are done; return these."""

    def get(self, handle: Any) -> Any:
        """Return the result of a task that is done."""

    def close(self, *, now: bool) -> None:
        """End the processes; `now` does not wait for tasks."""


def results(
    do: Callable[[Task], Result], tasks: Sequence[Task], place: Place | None = None
) -> Iterator[tuple[Task, Result]]:
    """Yield each task with its result as soon as that is there; the first error ends it.

    A task whose process is killed is done again, so that it must not matter if it was half done.

    Args:
        do: a function of a module, since other processes import it.
        tasks: its arguments, plain values.
        place: where to run; None for one after the other in this process.
    """
    place = place or Place()
    place.check()
    if place.on == "processes" and place.processes == 1:
        for task in tasks:
            yield task, do(task)
        return
    pool: _Pool = _Ray(place) if place.on == "ray" else _Processes(place.processes)
    finished = False
    try:
        yield from _in_pool(pool, do, tasks)
        finished = True
    finally:
        pool.close(now=not finished)


def _in_pool(
    pool: _Pool, do: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Result]]:
    """Keep every process of a pool busy, and few tasks more than that in its queue."""
    ahead = list(reversed(range(len(tasks))))
    tries = [0] * len(tasks)
    running: dict[Any, int] = {}
    while ahead or running:
        while ahead and len(running) < 2 * pool.size:
            number = ahead.pop()
            running[pool.submit(do, tasks[number])] = number
        for handle in pool.wait(list(running)):
            number = running.pop(handle)
            try:
                result = pool.get(handle)
            except _Killed:
                tries[number] += 1
                if tries[number] == ATTEMPTS:
                    raise UserError(
                        f"processes were killed {ATTEMPTS} times while they worked on "
                        f"{tasks[number]}: is there enough memory? set fewer processes"
                    ) from None
                ahead.append(number)
                continue
            if isinstance(result, _Failed):
                raise result.error
            yield tasks[number], result


def _attempt(do: Callable[[Any], Any], task: Any) -> Any:
    """Do a task; return an error as a value."""
    try:
        return do(task)
    except Exception as error:
        return _Failed(error)


def _one_thread() -> None:
    """Give each of several processes one core; before it imports torch, which takes seconds."""
    os.environ["OMP_NUM_THREADS"] = "1"


class _Processes:
    """Processes of this machine, begun anew when one of them is killed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = self._begin()

    def _begin(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.size, get_context("spawn"), _one_thread)

    def submit(self, do: Callable[[Any], Any], task: Any) -> Any:
        try:
            return self._pool.submit(_attempt, do, task)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._begin()
            return self._pool.submit(_attempt, do, task)

    def wait(self, handles: list[Future[Any]]) -> list[Future[Any]]:
        return list(wait(handles, return_when=FIRST_COMPLETED).done)

    def get(self, handle: Future[Any]) -> Any:
        try:
            return handle.result()
        except BrokenProcessPool:
            raise _Killed from None

    def close(self, *, now: bool) -> None:
        self._pool.shutdown(wait=not now, cancel_futures=True)


class _Ray:
    """A Ray cluster: the one at an address, or one of this machine that ends with the work."""

    def __init__(self, place: Place) -> None:
        self._ray = import_ray()
        self._own = not self._ray.is_initialized()
        if self._own:
            connect(self._ray, place)
        self._attempt = self._ray.remote(max_retries=ATTEMPTS)(_attempt)
        self.size = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, do: Callable[[Any], Any], task: Any) -> Any:
        return self._attempt.remote(do, task)

    def wait(self, handles: list[Any]) -> list[Any]:
        done: list[Any] = self._ray.wait(handles, num_returns=1)[0]
        return done

    def get(self, handle: Any) -> Any:
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.WorkerCrashedError:
            raise _Killed from None

    def close(self, *, now: bool) -> None:
        if self._own:
            self._ray.shutdown()


def import_ray() -> Any:
    """Return the package."""
    try:
        import ray
    except ImportError:
        raise UserError("Ray is not installed: pip install 'lit-ios[ray]'") from None
    return ray


def connect(ray: Any, place: Place) -> None:
    """Join a cluster, whose machines have lit-ios and the same files, or begin one here."""
    known = {"log_to_driver": False, "logging_level": "ERROR"}
    if place.address is not None:
        _check_listens(place.address)
        try:
            ray.init(address=place.address, **known)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"there is no Ray cluster at {place.address!r}: {reason}") from None
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns without it
    modules = os.pathsep.join(filter(None, sys.path))  # as in this process
    environment = {"env_vars": {"PYTHONPATH": modules}}
    ray.init(num_cpus=place.processes, include_dashboard=False, runtime_env=environment, **known)


def _check_listens(address: str) -> None:
    """Refuse an address at which nothing answers: Ray would try for a minute or more."""
    named = re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)
    if named is None:
        return  # `auto`: what Ray itself knows
    try:
        socket.create_connection((named[1], int(named[2])), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"there is no Ray cluster at {address!r}: {error}") from None
