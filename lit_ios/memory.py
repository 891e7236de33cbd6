"""How much memory there is."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

WITHOUT_KNOWING = 8 << 30  # memory that is assumed where the system does not say


@cache
def memory_at_hand() -> int:
    """Return the bytes that this process may still take when it first asks."""
    found = [WITHOUT_KNOWING]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) * 1024]
    if "SC_PHYS_PAGES" in os.sysconf_names and found == [WITHOUT_KNOWING]:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    group = "/sys/fs/cgroup/memory"  # of a container
    most, used = (_lines(f"{group}.{name}") for name in ("max", "current"))
    if most and used and most[0].isdigit():
        found.append(max(int(most[0]) - int(used[0]), 0))
    return min(found)


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []
