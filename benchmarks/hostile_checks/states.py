"""Saved streams and monitors, and metadata of exported files, that are damaged or made up."""

from __future__ import annotations

import json
import random
import warnings
from functools import cache
from typing import Any

import numpy as np
import torch

from benchmarks.hostile_checks.outcome import attempts
from benchmarks.hostile_checks.trees import damaged, odd
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.checks import UserError
from lit_ios.data_record import Inputs
from lit_ios.live.metadata import read_metadata
from lit_ios.live.watched import Claims, open_monitor
from lit_ios.modules import DOIQS, IQS
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.exports import ExportedStep, describe_export
from lit_ios.rule import ColumnEncoder

COLUMNS = ("a", "b")


@cache
def policy(number: int = 0) -> StoppingPolicy:
    """Return one of three policies of random weights."""
    torch.manual_seed(number)
    lags, time = ((0, True), (2, True), (1, False))[number]
    inputs = Inputs(ColumnEncoder(COLUMNS).spec, lags, time).plain()
    model = (DOIQS, IQS, DOIQS)[number](inputs=inputs, hidden=[8, 6], members=1 + 2 * number)
    return StoppingPolicy(model.rule)


def stream_states(trials: int, seed: int) -> Outcome:
    """Go on from hostile saved states: each is refused in a sentence, or does no harm."""

    def attempt(rng: random.Random, number: int) -> str | None:
        used, many = policy(number % 3), rng.random() < 0.5
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                _go_on(used, _state(used, rng, many), many)
            except UserError:
                return None
        return None

    return attempts("stream_states", trials, seed, attempt)


def _state(used: StoppingPolicy, rng: random.Random, many: bool) -> Any:
    """Return the state of streams that have seen some rows, with something wrong in it."""
    timed = rng.random() < 0.5
    if many:
        streams = used.stream_many()
        for row in range(rng.randrange(4)):
            times = [float(row)] * 3 if timed else None
            streams.step(["p", ("q", 1), 7], np.ones((3, 2)) * row, times)
        state = streams.state()
    else:
        stream = used.stream()
        for row in range(rng.randrange(4)):
            stream.step([0.1, row], float(row) if timed else None)
        state = stream.state()
    if rng.random() < 0.1:
        return odd(rng)
    if rng.random() < 0.4:  # the numbers of a clock, which contradict each other
        carry = rng.choice(state["carries"] or [state["start"]]) if many else state["carry"]
        carry[rng.randrange(8)] = rng.choice(
            (-1.0, 0.0, 0.5, 1.0, 2.0, 1e9, 1e300, -1e300, 2.0**60)
        )
        return state
    made = damaged(state, rng)
    return made | {"rule": state["rule"]} if isinstance(made, dict) else made


def _go_on(used: StoppingPolicy, state: Any, many: bool) -> None:
    """Take three more rows; each must be decided on."""
    streams = used.stream_many(state) if many else None
    stream = None if many else used.stream(state)
    for _ in range(3):
        if streams is not None:
            decided = streams.step(["p", "new"], np.full((2, 2), 0.3), None)
            margins, rows = decided.margin, decided.t
            json.dumps(streams.state()["carries"])
        elif stream is not None:
            one = stream.step([0.3, 0.3])
            margins, rows = np.array([one.margin]), np.array([one.t])
        if not np.isfinite(margins).all() or (rows < 0).any():
            raise AssertionError("a decision that is none")


REFERENCE = {
    "margin": [0.1, 0.2, -0.3],
    "distance": [0.5, 0.6, 0.7],
    "stopped": [True, True, False],
}


def monitor_states(trials: int, seed: int) -> Outcome:
    """Go on from hostile saved monitors: each is refused in a sentence, or watches on."""

    def attempt(rng: random.Random, number: int) -> str | None:
        given = Claims(REFERENCE, None, 0.15, "rule")
        monitor = open_monitor(given)
        for path in range(4):
            monitor.add(rng.random(), path % 2 == 0, rng.random(), f"p{path}")
        made = damaged(monitor.state(), rng)
        kept = {"rule": "rule", "reference": monitor.state()["reference"]}
        try:
            again = open_monitor(given, made | kept if isinstance(made, dict) else made)
            again.add(0.5, True, 0.5, "another")
            repr(again)
        except UserError:
            return None
        return None if isinstance(again.alarm, bool) else "no verdict"

    return attempts("monitor_states", trials, seed, attempt)


def exported_metadata(trials: int, seed: int) -> Outcome:
    """Read damaged metadata of exported files: refused in a sentence, or they can be used."""

    def attempt(rng: random.Random, number: int) -> str | None:
        used = policy(number % 3)
        about = json.loads(
            json.dumps(describe_export(used, ExportedStep(used.rule, "error", single=True)))
        )
        try:
            text = json.dumps(damaged(about, rng), default=str)
        except RecursionError:
            text = "[" * 100_000
        if rng.random() < 0.1:
            text = text[: rng.randrange(len(text))]
        try:
            found = read_metadata(text, "file")
        except UserError as error:
            return None if len(str(error).splitlines()) == 1 else "more than a sentence"
        return None if len(found["start"]) >= 8 and found["columns"] else "cannot be used"

    return attempts("exported_metadata", trials, seed, attempt)
