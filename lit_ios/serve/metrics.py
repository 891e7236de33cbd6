"""What Prometheus is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lit_ios.carry import FIRST_STOP
from lit_ios.serve.batch import State

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counts since this server was started, and what is live now.

    Args:
        state: what is live.
    """

    def __init__(self, state: State) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second line for each count
        self._registry = made = CollectorRegistry()
        self._rows = Counter("lit_ios_rows", "Rows of requests", ["result"], registry=made)
        for result in ("taken", "repeated", "refused"):
            self._rows.labels(result)
        self._stops = Counter("lit_ios_stops", "Paths stopped for the first time", registry=made)
        self._strange = Counter("lit_ios_unfamiliar_rows", "Rows unlike training", registry=made)
        self._commits = Histogram(
            "lit_ios_commit_seconds", "A transaction", registry=made, buckets=BUCKETS
        )
        self.store_errors = Counter(
            "lit_ios_store_errors", "Transactions that failed", registry=made
        )
        self._jobs = Counter("lit_ios_committed_requests", "Requests in them", registry=made)
        self.requests = Histogram(
            "lit_ios_request_seconds", "A request", ["method", "status"], registry=made,
            buckets=BUCKETS,
        )  # fmt: skip
        made.register(_Live(state))

    def committed(self, jobs: Iterable[Any], seconds: float) -> None:
        """Count what a transaction has committed."""
        self._commits.observe(seconds)
        count = dict.fromkeys(("taken", "repeated", "refused"), 0)
        requests = stops = strange = 0
        for job in jobs:
            requests += 1
            for sheaf in getattr(job, "sheaves", ()):
                if sheaf.refused is not None:
                    count["refused"] += len(sheaf.rows)
                    continue
                count["taken"] += len(sheaf.fresh)
                count["repeated"] += sheaf.repeated
                stops += sheaf.stops
                strange += sheaf.strange
        self._jobs.inc(requests)
        self._stops.inc(stops)
        self._strange.inc(strange)
        for result, rows in count.items():
            self._rows.labels(result).inc(rows)

    def text(self) -> bytes:
        """Return all of it in Prometheus' format."""
        return generate_latest(self._registry)


class _Live(Collector):
    """What is live now."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return numbers of paths, and what the monitors say, by policy."""
        state = self._state
        paths = GaugeMetricFamily("lit_ios_live_paths", "Live paths", labels=["policy", "name"])
        stopped = GaugeMetricFamily("lit_ios_stopped_paths", "Of them stopped", labels=["policy"])
        ended = GaugeMetricFamily("lit_ios_ended_paths", "Paths that ended, ever")
        watched = GaugeMetricFamily("lit_ios_monitor_paths", "Watched", labels=["policy"])
        alarm = GaugeMetricFamily(
            "lit_ios_monitor_alarm", "1: paths no longer look as in calibration", labels=["policy"]
        )
        broken = GaugeMetricFamily(
            "lit_ios_promise_broken", "1: promised rate is exceeded", labels=["policy", "promise"]
        )
        with state.lock:
            counts: dict[str, list[int]] = {key: [0, 0] for key in state.policies}
            for live in state.paths.values():
                count = counts[live.policy.key]
                count[0] += 1
                count[1] += bool(live.carry[FIRST_STOP] >= 0)
            for key, policy in state.policies.items():
                paths.add_metric([key, policy.name], counts[key][0])
                stopped.add_metric([key], counts[key][1])
                if policy.monitor is not None:
                    watched.add_metric([key], len(policy.monitor))
                    alarm.add_metric([key], policy.monitor.alarm)
                    for promise in policy.monitor.rates:
                        broken.add_metric([key, promise], promise in policy.monitor.broken)
            ended.add_metric([], state.finished)
        yield from (paths, stopped, ended, watched, alarm, broken)
