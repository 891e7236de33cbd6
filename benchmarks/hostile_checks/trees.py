"""Plain values that nobody expects, and trees of them with a branch exchanged."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Make = Callable[[random.Random], Any]


class Sly(dict[str, Any]):
    """A dictionary that is not the one it seems to be."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return something else than is there."""
        return [key, default]


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**53, 2**64, -(2**64), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), -float("inf"), "", "0", "1.5", "nan", "\x00", "\x1b[31m",
    "x" * 5000, "../../x", "os.system", "=1+1", b"bytes",
)  # fmt: skip


def odd(rng: random.Random) -> Any:
    """Return a value of any kind."""
    kind = rng.randrange(8)
    if kind < 5:
        return rng.choice(SCALARS)
    if kind == 5:
        return [odd(rng) for _ in range(rng.randrange(4))]
    if kind == 6:
        made = {str(rng.choice(SCALARS)): odd(rng) for _ in range(rng.randrange(3))}
        return Sly(made) if rng.random() < 0.3 else made
    return nested(rng.choice((2, 60, 3000)))


def damaged(tree: Any, rng: random.Random, times: int | None = None) -> Any:
    """Return a copy of a tree of plain values with some branches exchanged, cut or doubled."""
    made = copy.deepcopy(tree)
    for _ in range(times or rng.choice((1, 1, 1, 2, 5))):
        made = _damage(made, rng)
    return made


def _damage(tree: Any, rng: random.Random) -> Any:
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.1:
        return odd(rng)
    key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
    what = rng.randrange(5)
    if what == 0:
        del tree[key]
    elif what == 1:
        tree[key] = odd(rng)
    elif what == 2 and isinstance(tree, list):
        tree.append(tree[key])
    else:
        tree[key] = _damage(tree[key], rng)
    return tree
