"""What is promised of files, runs and streams, tried many times: `make nightly`.

Each check does something nasty `trials` times, in ways that follow from `seed` alone, and counts
how often what docs/reliability.md promises did not hold. The tests run a few trials of each.

    python -m benchmarks.reliability                      all checks, with their full numbers
    python -m benchmarks.reliability kills --trials 20    one of them
    python -m benchmarks.reliability kills --seed 17 --trials 1   the trial that failed with seed 17
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import hostile
from benchmarks.reliability_checks import (
    corruption,
    crashes,
    disks,
    processes,
    starts,
    streams,
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
    **{name: Check(*check) for name, check in hostile.CHECKS.items()},
}


def main() -> int:
    """Run checks, print a table, write it; return how many of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--trials", type=int, help="of each check (default: its full number)")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (default: 0)")
    parser.add_argument("--file", type=Path, default=Path("runs/reliability.json"))
    args = parser.parse_args()
    unknown = set(args.checks) - CHECKS.keys()
    if unknown:
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    found: dict[str, dict[str, object]] = {}
    failed = 0
    print(f"{'check':<20} {'trials':>9} {'bad':>5} {'seconds':>8}  note")
    for name in args.checks or CHECKS:
        began = time.perf_counter()
        outcome = CHECKS[name].run(args.trials or CHECKS[name].trials, args.seed)
        seconds = round(time.perf_counter() - began, 1)
        failed += outcome.bad > 0
        found[name] = {**outcome._asdict(), "seed": args.seed, "seconds": seconds}
        print(
            f"{name:<20} {outcome.trials:>9,} {outcome.bad:>5} {seconds:>8}  {outcome.note}",
            flush=True,
        )
        args.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.file, found)
    print(f"\n{len(found)} checks, {failed} of them failed; written to {args.file}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
