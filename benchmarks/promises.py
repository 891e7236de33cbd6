"""How often promises are kept on fresh paths, over many calibrations on paths of a known world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from tqdm import tqdm

from datamodules import BoundaryExitData, FatigueData
from lit_ios import StoppingPolicy
from lit_ios.batches import PathBatch
from lit_ios.checks import UserError
from lit_ios.promises import AlarmsPerTime, FalseAlarms, MissRate, Promise, Sweep
from lit_ios.promises.choice import choose
from lit_ios.trajectories import IntArray, TrajectorySet

PATHS, SIZES = 60_000, (50, 200, 1000)
LOWEST = -1e9
SMALL, LARGE = MissRate(0.05, 0.95), MissRate(0.3, 0.95)


class World(NamedTuple):
    """Judged paths, as far as promises of rates depend on them; (P,) each."""

    name: str
    before: Tensor  # largest margin of all rows but the last; very low of a single row
    last: Tensor  # margin of the last row
    begin: Tensor
    end: Tensor
    stopped: Tensor
    group: Tensor  # 0, or 1 for a third of the paths

    def sweep(self, which: Tensor, rounded: float = 0.0) -> Sweep:
        """Return what every threshold does on some paths: each as two rows, all that matters.

        Args:
            which: numbers of paths.
            rounded: to which margins are rounded, so that many are equal; 0 for none.
        """
        margin = torch.stack([self.before[which], self.last[which]], dim=1).flatten()
        if rounded:
            margin = (margin / rounded).round() * rounded
        count = len(which)
        first = torch.arange(count).repeat_interleave(2) * 2
        batch = PathBatch(
            columns=margin[:, None],
            time=torch.stack([self.begin[which], self.end[which]], dim=1).flatten(),
            step=torch.arange(2).repeat(count),
            first_row=first,
            path=first // 2,
            last_row=torch.arange(count) * 2 + 1,
            stopped=self.stopped[which],
            number=torch.arange(count),
        )
        return Sweep(margin, batch)


def radial(policy: StoppingPolicy, paths: int = PATHS) -> World:
    """Judge paths of radial whose ends at the horizon are censored."""
    simulator = BoundaryExitData(problem="radial", horizon="censor", seed=0).simulator
    return world("radial", policy, simulator.simulate(paths, np.random.default_rng(99)))


def fatigue(policy: StoppingPolicy, paths: int = PATHS) -> World:
    """Judge paths of fatigue that are cut off at times drawn independently of them."""
    rng = np.random.default_rng(98)
    made = FatigueData(seed=0).simulator.simulate(paths, rng)
    return world("fatigue", policy, cut_off(made, rng.integers(20, 150, paths)))


def cut_off(paths: TrajectorySet, rows: IntArray) -> TrajectorySet:
    """Return paths of which no more is known than so many rows of each."""
    lengths = np.minimum(paths.lengths, rows)
    kept = paths.steps < np.repeat(lengths, paths.lengths)
    return replace(
        paths, states=paths.states[kept], times=paths.times[kept],
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        stopped=paths.stopped & (lengths == paths.lengths),
    )  # fmt: skip


def world(name: str, policy: StoppingPolicy, paths: TrajectorySet) -> World:
    """Judge paths once."""
    margin = policy.margins(paths)
    others = margin.copy()
    others[paths.last_rows] = LOWEST
    before = np.maximum.reduceat(others, paths.offsets[:-1])
    made = (
        before, margin[paths.last_rows], paths.times[paths.offsets[:-1]].astype(float),
        paths.times[paths.last_rows].astype(float), paths.stopped,
        (np.arange(len(paths)) % 3 == 0).astype(int),
    )  # fmt: skip
    return World(name, *map(torch.from_numpy, made))


class Case(NamedTuple):
    """Promises that are made together."""

    name: str
    promises: tuple[Promise, ...]
    groups: bool = False
    rounded: float = 0.0


def cases(whole: Sweep) -> list[Case]:
    """Return all promises that are made of a world; the rate of alarms is one that can be kept."""
    at = int((whole.missed <= 0.1 * whole.events).nonzero()[0])
    rate = float(f"{alarm_rate(whole, float(whole.threshold[at])):.2g}")
    spread = float(whole.threshold[1:].quantile(0.75) - whole.threshold[1:].quantile(0.25))
    alarmed = float(whole.false_alarms[int((whole.missed <= 0.15 * whole.events).nonzero()[0])])
    level = round(min(1.5 * alarmed / whole.censored + 0.1, 0.95), 2)
    both = (LARGE, FalseAlarms(level, 0.95))
    alarms = AlarmsPerTime(rate), AlarmsPerTime(rate, confidence=0.95)
    return [
        Case("MissRate(0.01)", (MissRate(0.01),)),
        Case("MissRate(0.05)", (MissRate(0.05),)),
        Case("MissRate(0.01, 0.95)", (MissRate(0.01, 0.95),)),
        Case("MissRate(0.05, 0.95)", (SMALL,)),
        Case("MissRate(0.05, 0.95), ties", (SMALL,), rounded=spread / 10),
        Case("MissRate(0.1, 0.95) in two groups", (MissRate(0.1, 0.95),), groups=True),
        Case("FalseAlarms(0.2)", (FalseAlarms(0.2),)),
        Case("FalseAlarms(0.2, 0.95)", (FalseAlarms(0.2, 0.95),)),
        Case(f"AlarmsPerTime({rate:g})", (alarms[0],)),
        Case(f"AlarmsPerTime({rate:g}, 0.95)", (alarms[1],)),
        Case(f"MissRate(0.3, 0.95) and FalseAlarms({level:g}, 0.95)", both),
    ]


def alarm_rate(whole: Sweep, threshold: float) -> float:
    """Return alarms per unit of time at a threshold."""
    latest, observed = AlarmsPerTime(1.0).observed(whole)
    early = whole.paths.time < latest[whole.paths.path]
    highest = whole.highest(early | ~whole.paths.stopped[whole.paths.path])
    return float((highest >= threshold).sum() / observed.sum())


def true_rates(whole: Sweep, group: Tensor | None, case: Case, threshold: float) -> list[float]:
    """Return what each promise is about, on all paths of the world; the worst group of it."""
    rates = []
    for promise in case.promises:
        if isinstance(promise, AlarmsPerTime):
            rates.append(alarm_rate(whole, threshold))
            continue
        kind = whole.paths.stopped == isinstance(promise, MissRate)
        reached = whole.highest(whole.in_time) >= threshold
        wrong = reached != isinstance(promise, MissRate)
        parts = [kind] if group is None else [kind & (group == i) for i in (0, 1)]
        rates.append(max(float(wrong[part].double().mean()) for part in parts))
    return rates


def kept(everything: World, whole: Sweep, case: Case, size: int, repeats: int) -> dict[str, Any]:
    """Calibrate on so many stopped paths, with others as they come, again and again."""
    number = round(size / float(everything.stopped.double().mean()))
    generator = torch.Generator().manual_seed(size)
    levels = [getattr(promise, "level", getattr(promise, "rate", 0)) for promise in case.promises]
    found: list[list[float]] = []
    refused, why = 0, ""
    for _ in range(repeats):
        if refused > 5 and not found:
            break
        which = torch.randperm(len(everything.stopped), generator=generator)[:number]
        group = everything.group[which]
        groups = {str(i): group == i for i in (0, 1)} if case.groups else None
        try:
            made = choose(everything.sweep(which, case.rounded), case.promises, groups)
        except UserError as error:
            refused, why = refused + 1, str(error)
            continue
        own = everything.group if case.groups else None
        found.append(true_rates(whole, own, case, made.threshold))
    if not found:
        return {"refused": why}
    rates = np.array(found)
    exceeded = int((rates > np.array(levels)).any(axis=1).sum())
    spread = rates.std(axis=0, ddof=1).tolist() if len(rates) > 1 else [0.0] * len(levels)
    return {"levels": levels, "mean": rates.mean(axis=0).tolist(), "sd": spread,
            "exceeded": exceeded, "of": len(rates), "refused_of_all": refused}  # fmt: skip


def measure(worlds: Sequence[World], repeats: int) -> list[dict[str, Any]]:
    """Return how every promise was kept in every world."""
    rows = []
    for each in worlds:
        everyone = torch.arange(len(each.stopped))
        exact = each.sweep(everyone)
        for case in tqdm(cases(exact), desc=each.name, unit="promise"):
            whole = each.sweep(everyone, case.rounded) if case.rounded else exact
            for size in SIZES:
                about = {"world": each.name, "promise": case.name, "paths": size}
                rows.append(about | kept(each, whole, case, size, repeats))
    return rows


def table(rows: Sequence[dict[str, Any]], repeats: int) -> str:
    """Return the results as Markdown; what may be exceeded in how many calibrations."""
    most = int(stats.binom(repeats, 0.05).ppf(0.975))
    lines = ["| | promise | stopped paths | mean rate ± sd | calibrations that exceed it |",
             "|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        start = f"| {row['world']} | {row['promise']} | {row['paths']} |"
        if "refused" in row:
            lines.append(f"{start} refused | |")
            continue
        rates = ", ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(row["mean"], row["sd"], strict=True))
        share = f"{row['exceeded']} of {row['of']} ({100 * row['exceeded'] / row['of']:.1f} %)"
        if row["refused_of_all"]:
            share += f"; {row['refused_of_all']} refused"
        lines.append(f"{start} {rates} | {share} |")
    return "\n".join([*lines, "", f"5 % of {repeats} calibrations, upper 97.5 % point: {most}"])
