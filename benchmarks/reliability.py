"""What is promised of files, runs and streams, tried many times: `make nightly`.

Each check does something nasty `trials` times, in ways that follow from `seed` alone, and counts
how often what docs/reliability.md promises did not hold. The tests run a few trials of each.

    python -m benchmarks.reliability                      all checks, with their full numbers
    python -m benchmarks.reliability kills --trials 20    one of them
    python -m benchmarks.reliability kills --seed 17 --trials 1   the trial that failed with seed 17
    python -m benchmarks.reliability --go-on              without those that its file says are done

Two checks can run side by side, each with a --file of its own: they share nothing but the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import hostile
from benchmarks.reliability_checks import (
    corruption,
    crashes,
    disks,
    processes,
    serving,
    starts,
    streams,
    studies,
)
from benchmarks.reliability_checks.outcome import Outcome
from lit_ios.files import write_json


class Check(NamedTuple):
    """One row of the table."""

    run: Callable[[int, int], Outcome]  # of trials and the seed of the first
    trials: int  # of a full run


CHECKS: dict[str, Check] = {
    "kills": Check(crashes.kills, 200),
    "kills_other_disk": Check(crashes.kills_other_disk, 200),
    "kills_while_saving": Check(crashes.kills_while_saving, 1000),
    "terminations": Check(crashes.terminations, 20),
    "two_processes": Check(processes.two_processes, 3),
    "bit_flips": Check(corruption.bit_flips, 10_000),
    "zeroed_blocks": Check(corruption.zeroed_blocks, 300),
    "truncations": Check(corruption.truncations, 130),
    "exported_damage": Check(corruption.exported_damage, 10_000),
    "disk_errors": Check(disks.disk_errors, 12),
    "simultaneous_starts": Check(starts.simultaneous_starts, 200),
    "stream_steps": Check(streams.stream_steps, 1_000_000),
    "joining_paths": Check(streams.joining_paths, 100_000),
    "stream_threads": Check(streams.stream_threads, 8),
    "server_kills": Check(serving.server_kills, 20),
    "study_kills": Check(studies.study_kills, 200),
    **{name: Check(*check) for name, check in hostile.CHECKS.items()},
}


def main() -> int:
    """Run checks, print a table, write it; return how many of them failed."""
    args = _arguments()
    found = _known(args.file) if args.go_on else {}
    print(f"{'check':<20} {'trials':>9} {'bad':>5} {'seconds':>8}  note")
    for name in args.checks or CHECKS:
        trials = args.trials or CHECKS[name].trials
        done = found.get(name, {})
        if (done.get("asked"), done.get("seed"), done.get("bad")) == (trials, args.seed, 0):
            continue
        began = time.perf_counter()
        outcome = CHECKS[name].run(trials, args.seed)
        seconds = round(time.perf_counter() - began, 1)
        found[name] = {
            **outcome._asdict(), "asked": trials, "seed": args.seed, "seconds": seconds,
        }  # fmt: skip
        print(_row(name, found[name]), flush=True)
        args.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.file, found)
    return _summarise(found, args.file)


def _arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--trials", type=int, help="of each check (default: its full number)")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (default: 0)")
    parser.add_argument("--file", type=Path, default=Path("runs/reliability.json"))
    parser.add_argument(
        "--go-on", action="store_true", help="leave out what FILE says has gone well already"
    )
    args = parser.parse_args()
    unknown = set(args.checks) - CHECKS.keys()
    if unknown:
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    return args


def _known(file: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes in a file; none if there is none."""
    if not file.is_file():
        return {}
    known: dict[str, dict[str, Any]] = json.loads(file.read_text())
    return known


def _row(name: str, done: dict[str, Any]) -> str:
    numbers = f"{done['trials']:>9,} {done['bad']:>5} {done['seconds']:>8}"
    return f"{name:<20} {numbers}  {done['note']}"


def _summarise(found: dict[str, dict[str, Any]], file: Path) -> int:
    """Print all that is known once more, with the time a trial takes; return how many failed."""
    failed = sum(done["bad"] > 0 for done in found.values())
    print("\n| check | trials | bad | seconds | a trial | note |\n|---|---|---|---|---|---|")
    for name, done in found.items():
        each = done["seconds"] / max(done["trials"], 1)
        print(
            f"| {name} | {done['trials']:,} | {done['bad']} | {done['seconds']} | {each:.3g} s "
            f"| {done['note']} |"
        )
    minutes = sum(done["seconds"] for done in found.values()) / 60
    print(f"\n{len(found)} checks in {minutes:.1f} min, {failed} failed; written to {file}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
