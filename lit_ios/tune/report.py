"""What a study came to: a table of trials, figures, and sentences that do not flatter."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from lit_ios.files import write_figure, write_text
from lit_ios.formulas import safe_text
from lit_ios.tune.study import Done, Study, values_text

COLUMNS = ("trial", "state", "score", "epochs", "seconds")


def write_report(folder: Path, study: Study, best: Done) -> None:
    """Write trials.csv and the figures of a study."""
    from lit_ios.tune.figures import importance_figure, trials_figure

    done = study.done()
    names = [knob.name for knob in study.knobs]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*COLUMNS, *names, "reason"])
    for one in done:
        own = [one.known.get(name, "") for name in ("epochs", "seconds")]
        score = "" if one.score is None else one.score
        values = [_cell(one.values, study.defaults, name) for name in names]
        writer.writerow([one.number, one.state, score, *own, *values, one.known.get("reason", "")])
    write_text(folder / "trials.csv", text.getvalue())
    (folder / "figures").mkdir(exist_ok=True)
    write_figure(folder / "figures/trials.png", trials_figure(study.knobs, done, best))
    shares = study.importance()
    if shares:
        complete = sum(one.score is not None for one in done)
        write_figure(folder / "figures/importance.png", importance_figure(shares, complete))


def _cell(values: dict[str, Any], defaults: dict[str, Any], name: str) -> Any:
    """Return a value; that of the defaults where the space does not hold it."""
    value = values.get(name, defaults.get(name))
    return safe_text(value) if isinstance(value, str) else value


def sentences(metrics: dict[str, Any], folder: Path, program: str) -> list[str]:
    """Return what a study came to, in words."""
    n, best = metrics["trials"], metrics["best_of_trials/cross_fitted_accuracy"]
    others = [f"{metrics[what]} {what}" for what in ("pruned", "failed") if metrics[what]]
    first = metrics["defaults/cross_fitted_accuracy"]
    lines = [
        "",
        f"tune: trial {metrics['trial']} is the best of {n}"
        + (f" ({', '.join(others)})" if others else ""),
        f"  held-out balanced accuracy   {best:.4f}"
        + (f"   the defaults {first:.4f}" if first is not None else ""),
        "  The best of many flatters itself: some of its lead is luck. The test paths, which",
        "  chose nothing, say what is left of it:",
        f"  test balanced accuracy       {_number(metrics.get('test/balanced_accuracy'))}"
        f"   the defaults {_number(metrics.get('defaults/test/balanced_accuracy'))}",
        f"  its settings: {values_text(metrics['values']) or 'the defaults'}",
    ]
    if metrics["importance"]:
        lines += ["", "  importance of settings (share of the scores' variance)"]
        lines += [f"    {name:<24}{share:6.2f}" for name, share in metrics["importance"].items()]
    return [
        *lines,
        "",
        f"  all trials in {folder / 'trials.csv'}, figures in {folder / 'figures'}",
        f"  train these settings again with  {program} fit --config {folder / 'config.yaml'}",
        f"  more trials with  {program} tune --resume {folder} --trials {2 * n}",
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
