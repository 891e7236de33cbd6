"""Files from strangers: checks of `benchmarks.reliability`, with the trials of a full run.

Each tries something hostile `trials` times, in ways that follow from `seed` alone, and counts how
often what docs/security.md promises did not hold.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.hostile_checks import checkpoints, code, configs, folders, states, tables
from benchmarks.reliability_checks.outcome import Outcome

CHECKS: dict[str, tuple[Callable[[int, int], Outcome], int]] = {
    "strangers_modules": (folders.strangers_modules, 119),
    "shadowed_modules": (folders.shadowed_modules, 16),
    "outside_writes": (folders.outside_writes, 75),
    "hidden_code": (code.hidden_code, 120),
    "yaml_bombs": (code.yaml_bombs, 8),
    "generated_settings": (configs.generated_settings, 500),
    "stream_states": (states.stream_states, 5_000),
    "monitor_states": (states.monitor_states, 1_000),
    "exported_metadata": (states.exported_metadata, 1_000),
    "damaged_records": (checkpoints.damaged_records, 2_000),
    "resumed_states": (checkpoints.resumed_states, 200),
    "table_bombs": (tables.table_bombs, 6),
    "table_bytes": (tables.table_bytes, 5_000),
}
