"""Searches whose processes are killed at any line of theirs: each trial is done once."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import connection, get_context
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios.tune.space import Knob
from lit_ios.tune.study import Done, Study

TRIALS, WORKERS, KILLS = 8, 3, 30  # of one study
KNOBS = (Knob("x", "x", (), 0.1, 1.0), Knob("kind", "kind", ("none", "gru")))
WATCHED = ("lit_ios/tune/study.py", "lit_ios/files.py", "journal/_file.py", "journal/_storage.py")


def study_kills(trials: int, seed: int) -> Outcome:
    """Kill −9 the processes of a search, slowed down, at any line; none is lost or done twice."""
    return count("study_kills", range(seed, seed + trials), _killed)


def _killed(seed: int) -> str | None:
    rng = random.Random(seed)
    begin = get_context("fork").Process
    with tempfile.TemporaryDirectory() as name:
        folder, log, started = Path(name), Path(name) / "log", 0
        log.touch()
        _study(folder)
        running: dict[Any, Any] = {}
        codes: set[int] = set()
        missing = WORKERS
        while running or missing:
            for _ in range(missing):
                # the first lines as likely as the last ones; in the end nobody is killed
                line = int(10 ** rng.uniform(2, 4)) if started < KILLS else None
                process = begin(target=_work, args=(folder, log, rng.random(), line))
                process.start()
                running[process.sentinel] = process
                started += 1
            missing = 0
            for ended in connection.wait(list(running)):
                process = running.pop(ended)
                process.join()
                codes.add(process.exitcode)
                missing += process.exitcode == -signal.SIGKILL
        if codes - {0, -signal.SIGKILL}:
            return f"processes ended with {codes}"
        return _wrong(_study(folder).done(), log.read_text().splitlines())


def _wrong(done: list[Done], log: list[str]) -> str | None:
    """Say what is wrong with a study that has ended."""
    if [one.number for one in done] != list(range(TRIALS)):
        return f"trials {[one.number for one in done]} have ended"
    ended: set[int] = set()
    values = {one.number: one.values for one in done}
    for event, number, known in map(json.loads, log):
        if number in ended:
            return f"trial {number} was begun again after it had ended"
        if values[number] != known:
            return f"trial {number} was begun again with other values"
        ended |= {number} if event == "ended" else set()
    wrong = [one.number for one in done if one.score != _score(one.values)]
    return f"trial {wrong[0]} has the score of another" if wrong else None


def _study(folder: Path) -> Study:
    return Study(folder, KNOBS, {"x": 0.5, "kind": "none"})


def _score(values: dict[str, Any]) -> float:
    return 1 - float(values["x"] - 0.3) ** 2 - (values["kind"] == "gru") / 10


def _work(folder: Path, log: Path, seed: float, kill_at: int | None) -> None:
    """Do trials until there are none, or until a number of lines of the protocol have run."""
    rng = random.Random(seed)
    sys.settrace(_interrupt(rng, kill_at, rng.choice((0.0, 0.001, 0.01))))
    study, events = _study(folder), os.open(log, os.O_APPEND | os.O_WRONLY)
    while True:
        with study.claim(TRIALS) as claim:
            if claim is None:
                return
            said = [claim.number, claim.values]
            os.write(events, (json.dumps(["begun", *said]) + "\n").encode())
            time.sleep(rng.uniform(0, 0.01))
            study.tell(claim, "complete", _score(claim.values), epochs=1)
            os.write(events, (json.dumps(["ended", *said]) + "\n").encode())


def _interrupt(rng: random.Random, kill_at: int | None, share: float) -> Callable[..., Any]:
    """Return a tracer that kills this process at a line, and waits at a share of the others."""
    lines = 0

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if rng.random() < share:
            time.sleep(rng.uniform(0, 0.02))
        return line

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename.endswith(WATCHED) else None

    return call
