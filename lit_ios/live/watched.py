"""Rules that can be watched in use: of a checkpoint, or of an exported file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lit_ios.checks import UserError, quoted
from lit_ios.live.monitor import Monitor
from lit_ios.live.path_scores import PathScores


class Claims(NamedTuple):
    """What a monitor holds finished paths against, as a checkpoint or an exported file keeps it."""

    reference: Mapping[str, Any] | None  # scores of the calibration paths
    calibration: Mapping[str, Any] | None
    threshold: float
    fingerprint: str
    judge: Callable[..., tuple[Sequence[str], PathScores]] | None = None  # as for `Monitor`


class Watched(ABC):
    """A rule whose finished paths are compared with those of its calibration."""

    @property
    @abstractmethod
    def claims(self) -> Claims:
        """What a monitor holds paths against."""

    def monitor(
        self,
        saved: Mapping[str, Any] | None = None,
        *,
        alarm_probability: float | None = None,
        seed: int | None = None,
    ) -> Monitor:
        """Watch whether finished paths still look like those of calibration; see `Monitor`.

        Args:
            saved: what `state` of a monitor returned, to go on from there.
            alarm_probability: largest probability that an alarm is ever raised although nothing
                changes; 0.01 by default, that of the saved state if there is one.
            seed: of the random numbers that decide between equal values; 0 by default, that of the
                saved state if there is one.
        """
        return open_monitor(self.claims, saved, alarm_probability, seed)


def open_monitor(
    claims: Claims,
    saved: Mapping[str, Any] | None = None,
    alarm_probability: float | None = None,
    seed: int | None = None,
) -> Monitor:
    """Return a new monitor, or one that goes on from a saved state; see `Watched.monitor`."""
    if not claims.reference:
        raise UserError(
            "there are no calibration paths to compare with: calibrate the policy first"
        )
    chosen: dict[str, Any] = {"alarm_probability": alarm_probability, "seed": seed}
    before = saved if isinstance(saved, Mapping) else {}
    for name, usual in (("alarm_probability", 0.01), ("seed", 0)):
        given, kept = chosen[name], before.get(name, usual)
        if given is not None and saved is not None and given != kept:
            raise UserError(f"{name} of the saved monitor is {kept}: it cannot become {given}")
        chosen[name] = kept if given is None else given
    if not isinstance(chosen["seed"], int) or chosen["seed"] < 0:
        raise UserError(f"seed must be an integer of at least 0, got {quoted(chosen['seed'])}")
    made = Monitor(
        PathScores(**claims.reference), claims.threshold, promised(claims.calibration or {}),
        claims.fingerprint, judge=claims.judge, **chosen,
    )  # fmt: skip
    return made if saved is None else made.restore(saved)


def promised(calibration: Mapping[str, Any]) -> dict[str, float]:
    """Return the largest rates that a calibration promises of all paths, by plain values.

    Misses are not judged where a stop must come some time before the event: the largest margin of
    a path does not say when it was reached. Neither are rates of which some groups have none.
    """
    if not all(group["promised"] for group in calibration.get("groups", ())):
        return {}
    names = {"FalseAlarms": "false_alarm_rate"}
    if not calibration.get("lead"):
        names["MissRate"] = "event_miss_rate"
    found: dict[str, float] = {}
    for promise in calibration.get("promises", ()):
        if (name := names.get(promise["promise"])) is not None:
            found[name] = min(float(promise["level"]), found.get(name, 1.0))
    return found
