"""Whether paths still look like those of calibration, and whether what was promised is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lit_ios.checks import UserError, check_number
from lit_ios.live.evidence import Jumper, OnlineRanks, RateEvidence, bets
from lit_ios.live.monitor_words import CLAIMS, KINDS, headline, report
from lit_ios.live.path_scores import PathScores, checked, digest, rounded
from lit_ios.live.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Verdict(NamedTuple):
    """One kind of evidence: its common logarithm after each path, and when it sufficed."""

    log10: list[float]
    since: int | None  # number of the path, from 1, at which the evidence sufficed


class Monitor:
    """Watches a rule in use, one finished path after the other.

    A path is compared with the calibration paths and all that came since, by its largest margin
    and by its largest distance from the rows of training. While all these paths are exchangeable,
    the alarm is ever raised with a probability of at most `alarm_probability`. Rows of a path are
    not exchangeable: only paths count. A path must have been followed to its end, as the
    calibration paths were, also where the rule would have stopped it.

    It keeps three numbers and a name per path: ranks among all paths need them all.

    Args:
        reference: the calibration paths.
        threshold: of the rule.
        promises: largest `event_miss_rate` and `false_alarm_rate`, where promised and judged.
        fingerprint: of the rule.
        alarm_probability: of a false alarm, ever; shared by margins and distances.
        seed: of the random numbers that decide between equal values.
        judge: returns names and scores of the paths of a table.
    """

    def __init__(
        self,
        reference: PathScores,
        threshold: float,
        promises: Mapping[str, float],
        fingerprint: str,
        alarm_probability: float = 0.01,
        seed: int = 0,
        judge: Callable[..., tuple[Sequence[str], PathScores]] | None = None,
    ) -> None:
        check_number("alarm_probability", alarm_probability, above=0, at_most=0.5)
        self.reference, self.threshold, self.fingerprint = reference, threshold, fingerprint
        self.alarm_probability, self.seed, self._judge = alarm_probability, seed, judge
        self._random = np.random.default_rng(seed)
        self._ranks = {kind: OnlineRanks(map(rounded, getattr(reference, kind))) for kind in KINDS}
        self._jumpers = {kind: Jumper(len(bets(0.5))) for kind in KINDS}
        self.rates = {name: RateEvidence(level) for name, level in promises.items()}
        self.verdicts = {name: Verdict([], None) for name in (*KINDS, *self.rates)}
        self.paths = PathScores([], [], [])
        self.names: list[str | None] = []
        self._known: set[str] = set()

    # Finished paths ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of paths since calibration."""
        return len(self.names)

    def add(self, margin: float, stopped: bool, distance: float, name: str | None = None) -> bool:
        """Take a finished path; say whether there is an alarm.

        Args:
            margin: its largest margin.
            stopped: whether the expert stopped it.
            distance: its largest distance from the rows of training; familiar up to 1.
            name: of the path; one that was added before is refused.
        """
        score = checked(margin, stopped, distance, name)
        if name in self._known:
            raise UserError(f"path {name!r} was added before: give another one a name of its own")
        ties = 1 - self._random.random(len(KINDS))  # (0, 1]
        for kind, value, tie in zip(KINDS, score[:2], ties, strict=True):
            p = self._ranks[kind].add(rounded(value), tie)
            self._note(kind, self._jumpers[kind].add(bets(p)), self.alarm_level)
        reached = score[0] >= self.threshold
        for claim, evidence in self.rates.items():
            if score[2] == (claim == "event_miss_rate"):
                evidence.add(reached != score[2])
            self._note(claim, evidence.log, 1 / self.alarm_probability)
        for values, value in zip(self.paths, score, strict=True):
            values.append(value)  # type: ignore[attr-defined]
        self.names.append(name)
        if name is not None:
            self._known.add(name)
        return self.alarm

    def add_stream(self, stream: Stream, stopped: bool, name: str | None = None) -> bool:
        """Take a live path that has come to its end; say whether there is an alarm."""
        if stream.highest is None:
            raise UserError("the stream has no rows yet: add a path when it has come to its end")
        return self.add(stream.highest, stopped, stream.furthest, name)

    def add_paths(self, data: Any, *columns: str | None, **roles: Any) -> int:
        """Take all paths of a table or a TrajectorySet, in their order there; return how many.

        Paths of a name that was added before are left out, so that a table may grow. Their order
        must be that in which they came: paths sorted by their length, say, are not exchangeable.

        Args:
            data: a table, a file or a TrajectorySet, with stops; finished paths only.
            *columns: as `path` and `time` of `StoppingPolicy.predict`.
            **roles: as for `StoppingPolicy.calibrate`, `allow_known_paths` among them.
        """
        if self._judge is None:
            raise UserError("an exported rule judges no tables: follow the paths with a stream")
        names, scores = self._judge(data, *columns, **roles)
        new = [i for i, name in enumerate(names) if name not in self._known]
        for i in new:
            self.add(scores.margin[i], scores.stopped[i], scores.distance[i], names[i])
        return len(new)

    def _note(self, name: str, log: float, level: float) -> None:
        found = self.verdicts[name]
        found.log10.append(log / math.log(10))
        if found.since is None and log >= math.log(level):
            self.verdicts[name] = found._replace(since=len(found.log10))

    # What is known -------------------------------------------------------------------------------

    @property
    def alarm_level(self) -> float:
        """Value at which margins or distances raise the alarm, each for its share."""
        return len(KINDS) / self.alarm_probability

    @property
    def alarm_since(self) -> int | None:
        """Number of the path, from 1, at which the alarm was raised; None without one."""
        since = [self.verdicts[kind].since for kind in KINDS]
        return min((number for number in since if number is not None), default=None)

    @property
    def alarm(self) -> bool:
        """Whether paths no longer look like those of calibration."""
        return self.alarm_since is not None

    @property
    def broken(self) -> list[str]:
        """Promises that are not kept."""
        return [name for name in self.rates if self.verdicts[name].since is not None]

    def __repr__(self) -> str:
        """Say whether there is an alarm."""
        return f"Monitor: {headline(self)}"

    def report(self) -> str:
        """Say in plain words what there is to say."""
        return report(self)

    def figure(self) -> Figure:
        """Draw the evidence along the paths, with the lines at which it suffices."""
        from lit_ios.plotting import evidence

        margins = math.log10(self.alarm_level)
        level = dict.fromkeys(KINDS, margins) | dict.fromkeys(
            self.rates, -math.log10(self.alarm_probability)
        )
        words = KINDS | CLAIMS
        return evidence({words[n]: (v.log10, level[n]) for n, v in self.verdicts.items()})

    # Saved ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the paths since calibration and what they are compared with, as plain JSON."""
        return {
            "rule": self.fingerprint,
            "reference": digest(self.reference),
            "alarm_probability": self.alarm_probability,
            "seed": self.seed,
            "names": list(self.names),
            **{name: list(values) for name, values in self.paths._asdict().items()},
        }

    def restore(self, saved: Any) -> Monitor:
        """Take the paths of a saved state, as if they came again; return the monitor itself."""
        keys = ("names", *PathScores._fields)
        if not isinstance(saved, Mapping) or not all(isinstance(saved.get(k), list) for k in keys):
            raise UserError(
                f"a saved monitor must be what state() returned, with {', '.join(keys)}"
            )
        if saved.get("rule") != self.fingerprint:
            raise UserError("the saved monitor belongs to another rule: its weights differ")
        if saved.get("reference") != digest(self.reference):
            raise UserError("the saved monitor belongs to another calibration: begin a new one")
        if len({len(saved[key]) for key in keys}) > 1:
            raise UserError("the saved monitor is damaged: a value of each kind per path expected")
        try:
            for name, *score in zip(*(saved[key] for key in keys), strict=True):
                margin, distance, stopped = score
                self.add(margin, stopped, distance, name)
        except UserError as error:
            raise UserError(f"the saved monitor is damaged: {error}") from None
        return self
