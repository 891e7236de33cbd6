"""Policies in service: the one that new paths begin with, and those that older paths go on with."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.live import LiveRule, Monitor
from lit_ios.live.watched import Watched
from lit_ios.serve.store import Ended

CHECKPOINT = b"PK"  # how checkpoints begin, and exported files do not
NOT_WATCHED = "not calibrated: there is nothing to compare finished paths with"


@dataclass(eq=False)
class Served:
    """A policy in service.

    Args:
        key: short name of its file's content.
        name: of the file.
        content: of the file.
        live: the rule.
        monitor: of its finished paths, if it was calibrated.
        note: what looked odd about its rows, once something did.
    """

    key: str
    name: str
    content: bytes
    live: LiveRule
    monitor: Monitor | None
    note: str | None = None

    def about(self) -> dict[str, Any]:
        """Return what there is to say of it, for JSON."""
        rule, watch, forecast = self.live, self.monitor, self.live.forecast
        return {
            "policy": self.key,
            "name": self.name,
            "fingerprint": rule.fingerprint,
            "threshold": rule.start[1],
            "columns": list(rule.observations.columns),
            "categories": {name: list(known) for name, known in rule.observations.codes.items()},
            "time_unit": rule.time_unit,
            "missing": rule.missing,
            "forecast": None
            if forecast is None
            else {"confidence": forecast.confidence, "horizons": list(forecast.horizons)},
            "monitor": None
            if watch is None
            else {
                "paths": len(watch),
                "alarm": watch.alarm,
                "alarm_since": watch.alarm_since,
                "broken": watch.broken,
                "report": watch.report(),
            },
            "note": self.note if watch is not None else self.note or NOT_WATCHED,
        }


def open_policy(content: bytes, name: str, allow: Sequence[str] = ()) -> Served:
    """Return the policy that a checkpoint or an exported file holds.

    Args:
        content: of the file.
        name: of the file, for people.
        allow: packages of the user's own that a checkpoint may name classes of.
    """
    checkpoint = content.startswith(CHECKPOINT)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / ("policy.ckpt" if checkpoint else "policy.onnx")
        file.write_bytes(content)
        try:
            rule, live = _load(file, checkpoint, allow)
        except UserError as error:
            raise UserError(str(error).replace(str(file), name)) from None
    key = hashlib.sha256(content).hexdigest()[:16]
    monitor = rule.monitor() if rule.claims.reference else None
    return Served(key, name, content, live, monitor)


def _load(file: Path, checkpoint: bool, allow: Sequence[str]) -> tuple[Watched, LiveRule]:
    if checkpoint:
        from lit_ios.policy import StoppingPolicy

        policy = StoppingPolicy.load(file, allow)
        return policy, policy.live
    from lit_ios import runtime

    exported = runtime.load(file)
    return exported, exported.live


def read_policy(file: Path, allow: Sequence[str] = ()) -> Served:
    """Read a policy from its file."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    return open_policy(content, str(file), allow)


def remember_ended(policies: Iterable[Served], ended: Iterable[Ended]) -> None:
    """Give the monitors the finished paths of a store, in the order in which they ended."""
    by_key = {one.key: one.monitor for one in policies}
    for path in ended:
        if (watch := by_key.get(path.policy)) is not None:
            watch.add(path.margin, path.stopped, path.distance, path.name)
