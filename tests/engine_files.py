"""Engines in the layout of NASA's C-MAPSS text files, made up for tests."""

import numpy as np


def text_of(lengths, conditions=(0.0,), seed=0):
    """Write engines of these lengths in NASA's layout: sensor 1 constant, the others random."""
    rng = np.random.default_rng(seed)
    lines = []
    for unit, length in enumerate(lengths, start=1):
        for cycle in range(1, length + 1):
            setting = conditions[rng.integers(len(conditions))]
            sensors = [518.67, *(100 * setting + rng.normal(size=20))]
            numbers = [unit, cycle, setting + 0.001, 0.0, 100.0, *sensors]
            lines.append(" ".join(f"{x:g}" if x == int(x) else f"{x:.4f}" for x in numbers) + "  ")
    return "\n".join(lines) + "\n"
