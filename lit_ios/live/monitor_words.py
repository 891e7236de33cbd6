"""What a monitor has to say, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lit_ios.live.monitor import Monitor

KINDS = {"margin": "largest margins", "distance": "distances from the rows of training"}
CLAIMS = {"event_miss_rate": "missed events", "false_alarm_rate": "false alarms"}


def headline(monitor: Monitor) -> str:
    """Return one line: how many paths, and whether there is an alarm."""
    parts = [f"{len(monitor):,} paths since calibration on {len(monitor.reference.margin):,}"]
    if monitor.alarm:
        kinds = [words for kind, words in KINDS.items() if monitor.verdicts[kind].since]
        parts.append(f"ALARM since path {monitor.alarm_since:,}: other {' and '.join(kinds)}")
    else:
        parts.append("no alarm")
    parts += [f"more {CLAIMS[name]} than promised" for name in monitor.broken]
    return "; ".join(parts)


def report(monitor: Monitor) -> str:
    """Return all lines."""
    lines = [headline(monitor), _meaning(monitor)]
    if len(monitor):
        lines += [_compared(monitor, kind) for kind in ("margin", "distance")]
        lines.append(_unfamiliar(monitor))
    return "\n".join([*lines, *_outcomes(monitor)])


def _meaning(monitor: Monitor) -> str:
    chance = f"{monitor.alarm_probability:g}"
    if monitor.alarm:
        return (
            "paths no longer look like those of calibration: what it promised no longer holds "
            f"(had nothing changed, an alarm would have a probability of at most {chance})"
        )
    return (
        "nothing speaks against these paths being like those of calibration (a false alarm is ever "
        f"raised with a probability of at most {chance})"
    )


def _compared(monitor: Monitor, kind: str) -> str:
    now = float(np.median(getattr(monitor.paths, kind)))
    then = float(np.median(getattr(monitor.reference, kind)))
    found = monitor.verdicts[kind]
    raised = "" if found.since is None else f", reached at path {found.since:,}"
    return (
        f"  {KINDS[kind]}: median {now:.4g}, in calibration {then:.4g}; evidence of a change "
        f"{_power(found.log10[-1])}, largest {_power(max(found.log10))}, alarm at "
        f"{monitor.alarm_level:g}{raised}"
    )


def _power(log10: float) -> str:
    return f"{10**log10:.3g}" if abs(log10) < 6 else f"10^{log10:.1f}"


def _unfamiliar(monitor: Monitor) -> str:
    now, then = (
        float(np.mean(np.array(scores.distance) > 1))
        for scores in (monitor.paths, monitor.reference)
    )
    return f"  paths with rows unlike those of training: {now:.1%}, in calibration {then:.1%}"


def _outcomes(monitor: Monitor) -> list[str]:
    """Count missed events and false alarms, beside what was promised of them."""
    reached = np.array(monitor.paths.margin, dtype=float) >= monitor.threshold
    stopped = np.array(monitor.paths.stopped, dtype=bool)
    counts = {
        "event_miss_rate": (int((~reached & stopped).sum()), int(stopped.sum()), "stopped"),
        "false_alarm_rate": (int((reached & ~stopped).sum()), int((~stopped).sum()), "censored"),
    }
    lines = []
    for name, (happened, count, which) in counts.items():
        if not count:
            continue
        line = f"  {CLAIMS[name]}: {happened:,} of {count:,} {which} paths ({happened / count:.1%})"
        if name in monitor.rates:
            line += f", promised at most {monitor.rates[name].level:g}: {_kept(monitor, name)}"
        lines.append(line)
    return lines


def _kept(monitor: Monitor, name: str) -> str:
    found = monitor.verdicts[name]
    if found.since is None:
        return f"nothing speaks against it (evidence {_power(max(found.log10))})"
    return (
        f"exceeded, as is known since path {found.since:,} (were it kept, this would be said "
        f"with a probability of at most {monitor.alarm_probability:g})"
    )
