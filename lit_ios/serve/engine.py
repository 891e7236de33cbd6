"""The one writer: requests that came together are judged together and committed together.

While a transaction is brought to the disk, requests gather; they are the next one. So throughput
grows with the number of requests at a time, and nobody waits for others to come.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
import traceback
from collections import deque
from typing import Any

from lit_ios.checks import UserError
from lit_ios.serve.batch import Batch, State
from lit_ios.serve.jobs import Job, Problem, Take
from lit_ios.serve.judging import take_rows
from lit_ios.serve.metrics import Metrics

MOST_ROWS = 20_000  # of a batch
MOST_WAITING = 200_000  # rows that wait for their turn
MISTAKE = "this server made a mistake, and did nothing: its log says more"
NOT_DONE = "send the same again: what was taken before is answered as before"


class Engine:
    """Carries out jobs in a thread of its own, those that wait together in one transaction.

    Args:
        state: what is live.
        metrics: are counted here.
    """

    def __init__(self, state: State, metrics: Metrics) -> None:
        self.state, self._metrics = state, metrics
        self._jobs: deque[Job] = deque()
        self._rows = 0  # that wait
        self._some = threading.Condition()
        self._closing = self._stale = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to work for the event loop that is running."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """Carry out what waits, then let go of the store."""
        with self._some:
            self._closing = True
            self._some.notify()
        self._thread.join()
        self.state.store.close()

    async def do(self, job: Job) -> None:
        """Carry out a job; return when it is committed."""
        with self._some:
            if self._rows + job.size > MOST_WAITING or self._closing:
                raise Problem(503, f"too much is waiting: {NOT_DONE}")
            self._jobs.append(job)
            self._rows += job.size
            self._some.notify()
        try:
            async with asyncio.timeout(self.state.limits.seconds):
                await job.done
        except TimeoutError:
            raise Problem(503, f"it takes too long: {NOT_DONE}") from None
        if job.failed is not None:
            raise job.failed
        if job.refused is not None:
            raise Problem(*job.refused)

    # In the writer's thread ----------------------------------------------------------------------

    def _work(self) -> None:
        while jobs := self._waiting():
            self._carry_out(jobs)
            assert self._loop is not None
            self._loop.call_soon_threadsafe(_answer, jobs)

    def _waiting(self) -> list[Job]:
        """Wait for jobs; return those there are, none when all is done."""
        with self._some:
            self._some.wait_for(lambda: self._jobs or self._closing)
            jobs: list[Job] = []
            rows = 0
            while self._jobs and (not jobs or rows + self._jobs[0].size <= MOST_ROWS):
                jobs.append(self._jobs.popleft())
                rows += jobs[-1].size
            self._rows -= rows
            return jobs

    def _carry_out(self, jobs: list[Job]) -> None:
        try:
            self._commit(jobs)
        except UserError as error:  # the store's: nothing was done
            self._stale = True
            self._metrics.store_errors.inc()
            for job in jobs:
                job.failed = Problem(503, f"{error}; {NOT_DONE}")
            print(f"error: {error}", file=sys.stderr)
        except Exception:  # a mistake of ours, in one of the jobs
            self._stale = True
            if len(jobs) > 1:
                for job in jobs:
                    _reset(job)
                    self._carry_out([job])
                return
            traceback.print_exc()
            jobs[0].failed = Problem(500, MISTAKE)

    def _commit(self, jobs: list[Job]) -> None:
        """Carry out jobs in their order, in one transaction."""
        if self._stale:  # what is known may not be what the store holds
            self.state.read()
            self._stale = False
        batch = Batch(self.state)
        for kind, group in itertools.groupby(jobs, type):
            if kind is Take:
                sheaves = [one for job in group for one in job.sheaves]  # type: ignore[attr-defined]
                take_rows(batch, sheaves)
            else:
                for job in group:
                    job.apply(batch, self.state)
        began = time.perf_counter()
        batch.commit()
        self._metrics.committed(jobs, time.perf_counter() - began)


def _reset(job: Job) -> None:
    job.refused = None
    if isinstance(job, Take):
        for sheaf in job.sheaves:
            sheaf.reset()


def _answer(jobs: list[Any]) -> None:
    for job in jobs:
        if not job.done.done():  # whoever waited may have gone
            job.done.set_result(None)
