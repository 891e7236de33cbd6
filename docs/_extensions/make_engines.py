"""A folder of C-MAPSS text files: NASA's where LIT_IOS_DATA has them, else made-up ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def engines(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Make engines that wear out: fourteen sensors follow the wear, seven stand still."""
    made = []
    direction = rng.choice([-1.0, 1.0], size=14)
    for unit in range(1, count + 1):
        life = int(np.clip(rng.normal(205, 45), 128, 360))
        cycle = np.arange(1, life + 1)
        wear = np.exp((cycle - life) / 35.0)  # nothing for long, then quickly
        sensors = np.full((life, 21), 100.0)
        sensors[:, :14] += 10 * direction * wear[:, None] + rng.normal(0, 2, size=(life, 14))
        settings = np.column_stack([rng.normal(0, 0.002, (life, 2)), np.full(life, 100.0)])
        made.append(np.column_stack([np.full(life, unit), cycle, settings, sensors]))
    return made


def write(file: Path, made: list[np.ndarray]) -> None:
    """Write engines in NASA's layout."""
    shape = ["%d", "%d", *["%.4f"] * 24]
    np.savetxt(file, np.concatenate(made), fmt=shape)


def make(folder: str = "cmapss", seed: int = 0) -> bool:
    """Fill the folder; say whether the engines are NASA's."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    known = Path(os.environ.get("LIT_IOS_DATA", "")) / "cmapss/CMAPSSData.zip"
    if "LIT_IOS_DATA" in os.environ and known.exists():
        (place / known.name).symlink_to(known.resolve())
        return True
    rng = np.random.default_rng(seed)
    write(place / "train_FD001.txt", engines(100, rng))
    whole = engines(100, rng)
    seen = [rng.integers(30, len(engine) - 5) for engine in whole]
    write(place / "test_FD001.txt", [e[:rows] for e, rows in zip(whole, seen, strict=True)])
    left = [len(engine) - rows for engine, rows in zip(whole, seen, strict=True)]
    (place / "RUL_FD001.txt").write_text("\n".join(map(str, left)) + "\n")
    return False
