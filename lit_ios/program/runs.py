"""One table of all runs below a folder."""

from __future__ import annotations

import csv
import io
import math
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError, nearest
from lit_ios.files import write_text
from lit_ios.formulas import safe_text
from lit_ios.program.places import run_folders
from lit_ios.settings import read_settings
from lit_ios.small_files import read_small_json

Row = dict[str, Any]
METRICS = {
    "balanced_accuracy": "test/balanced_accuracy",
    "event_miss_rate": "test/event_miss_rate",
    "false_alarm_rate": "test/false_alarm_rate",
    "stopped_at_first_row": "test/stopped_at_first_row",
    "time_to_event": "test/time_to_event_mean",
    "epochs": "epochs",
}
INTERVALS = {  # of 95 %, in the CSV file alone
    f"{name}_{end}": f"{METRICS[name]}_{end}"
    for name in ("event_miss_rate", "false_alarm_rate", "stopped_at_first_row", "time_to_event")
    for end in ("low", "high")
}
LARGEST = 1e15  # number that is shown
COLUMNS = ("run", "data", "variant", "candidate", "seed", *METRICS, "seconds", "date")


def list_runs(options: Namespace) -> None:
    """Print the table, and write it if that is asked for."""
    key = options.sort or "run"
    if key not in COLUMNS:
        near = nearest(key, COLUMNS)
        advice = f"did you mean {near}?" if near else f"take one of {', '.join(COLUMNS)}"
        raise UserError(f"--sort: there is no column {key}; {advice}")
    place = Path(options.folder)
    if not place.is_dir():
        raise UserError(f"there is no folder {place}: name the one that your runs are in")
    rows = [describe(folder) for folder in run_folders(place, candidates=options.all)]
    if not rows:
        raise UserError(f"there is no run in {place}: train one with fit, or name another folder")
    if options.sort is not None:
        known = [row for row in rows if row[key] is not None]
        known.sort(key=lambda row: row[key], reverse=options.reverse)
        rows = known + [row for row in rows if row[key] is None]
    elif options.reverse:
        rows.reverse()
    print("\n".join(lines(rows)))
    if options.csv is not None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, (*COLUMNS, *INTERVALS))
        writer.writeheader()
        writer.writerows(map(_safe, rows) if options.safe_csv else rows)
        write_text(options.csv, text.getvalue())
        print(f"\nwritten to {options.csv}")


def _safe(row: Row) -> Row:
    return {n: safe_text(value) if isinstance(value, str) else value for n, value in row.items()}


def describe(folder: Path) -> Row:
    """Return the row of one run; None where something is not known."""
    metrics, settings = _json(folder / "metrics.json"), _yaml(folder / "config.yaml")
    top = folder.parents[1] if folder.parent.name == "candidates" else folder
    data, variant = _names(top)
    scores = _dict(metrics.get("candidates"))
    seconds = [_number(_dict(one).get("seconds")) for one in scores.values()]
    own = _json(folder / "candidate.json")  # of one of an auto run's candidates
    row = {name: _number(metrics.get(key)) for name, key in (METRICS | INTERVALS).items()}
    taken = metrics.get("candidate") if isinstance(metrics.get("candidate"), str) else None
    return row | {
        "run": str(folder),
        "data": data,
        "variant": variant,
        "candidate": taken or (folder.name if top != folder else None),
        "seed": _number(settings.get("seed_everything")),
        "epochs": row["epochs"] if row["epochs"] is not None else _number(own.get("epochs")),
        "seconds": _sum(seconds) if seconds else _number(own.get("seconds")),
        "date": _date(folder),
    }


def _names(folder: Path) -> tuple[str | None, str | None]:
    """Return data and variant of runs/<data>/<variant>/version_N; None if it lies elsewhere."""
    above = folder.absolute().parents
    if not folder.name.startswith("version_") or len(above) < 2:
        return None, None
    return above[1].name, above[0].name


def _date(folder: Path) -> str | None:
    files = [folder / name for name in ("metrics.json", "config.yaml", "auto.json")]
    there = [file for file in files if file.is_file()]
    if not there:
        return None
    return datetime.fromtimestamp(there[0].stat().st_mtime).strftime("%Y-%m-%d %H:%M")


def lines(rows: list[Row]) -> list[str]:
    """Return the table as text, without columns that are empty."""
    shown = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    cells = [[name.replace("_", " ") for name in shown]]
    cells += [[_text(row[name]) for name in shown] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(shown))]
    right = [any(isinstance(row[name], int | float) for row in rows) for name in shown]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)  # a file cannot steer the terminal


def _number(value: Any) -> float | None:
    """Return a number of a file; None for anything else that it may hold."""
    return value if isinstance(value, int | float) and abs(value) < LARGEST else None


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(file: Path) -> dict[str, Any]:
    try:
        found = read_small_json(file)
    except (OSError, ValueError):
        return {}
    return _dict(found)


def _yaml(file: Path) -> dict[str, Any]:
    try:
        return read_settings(file) if file.is_file() else {}
    except UserError:
        return {}
