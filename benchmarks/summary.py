"""What the grid comes to: auto beside the paper's best, the best rival, the clock and the limit.

And what each idea adds, seed by seed: the cumulative gain y, Q's gradient through it, the dynamics
model, memory. Reads the results of benchmarks.paper; runs nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks import published
from benchmarks.grid import Row, read_rows
from benchmarks.methods import DATA_SETS, VARIANTS
from benchmarks.paper import LABELS, RESULTS
from benchmarks.tables import holm, paired, write_difference

RIVALS = tuple(name for name in LABELS if name.startswith("baseline_") and name != "baseline_clock")
OWN_METHODS = ("oti", "classifier_gru", "iqs_folds")
ADDS = {  # what is added: the method with it, the same without
    "the dynamics model": ("model_based_iqs_lb", "iqs_lb"),
    "y, as in the paper": ("do_iqs_lb", "model_based_iqs_lb"),
    "Q's gradient through y": ("do_iqs_lb_gradient", "do_iqs_lb"),
    "memory, accumulate": ("iqs_lb_accumulate", "iqs_lb"),
    "memory, GRU": ("iqs_lb_gru", "iqs_lb"),
}

Values = Mapping[tuple[str, str], list[float]]


def in_common(rows: list[Row], methods: tuple[str, ...]) -> list[Row]:
    """Return the rows of seeds that all of these methods have that a data set has any row of."""
    seeds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["variant"] in methods:
            seeds[row["dataset"], row["variant"]].add(row["seed"])
    shared: dict[str, set[str]] = {}
    for (data, _), known in seeds.items():
        shared[data] = shared.get(data, known) & known
    return [
        row
        for row in rows
        if row["variant"] in methods and row["seed"] in shared.get(row["dataset"], ())
    ]


def by_method(rows: list[Row]) -> Values:
    """Return the balanced accuracies of every seed, by data set and method."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        values[row["dataset"], row["variant"]].append(float(row["balanced_accuracy"] or "nan"))
    return values


def best(values: Values, data: str, methods: tuple[str, ...]) -> str | None:
    """Return the method of the highest mean on a data set, picked afterwards."""
    known = [m for m in methods if (data, m) in values and np.isfinite(values[data, m]).all()]
    return max(known, key=lambda method: float(np.mean(values[data, method])), default=None)


def short_table(rows: list[Row]) -> Iterator[str]:
    """Yield the first table: mean ± standard error over the seeds that all methods have."""
    rows = in_common(rows, ("auto", *VARIANTS, *RIVALS, "baseline_clock"))
    values = by_method(rows)
    yield (
        "| | auto | the paper's ten, best | a rival, best | auto − that rival | clock | limit "
        "| seeds |"
    )
    yield "|---" * 8 + "|"
    for data in DATA_SETS:
        if (data, "auto") not in values:
            continue
        ten, rival = best(values, data, tuple(VARIANTS)), best(values, data, RIVALS)
        cells = [_cell(values[data, "auto"])]
        cells += [_named(values, data, ten), _named(values, data, rival)]
        cells.append(_difference(rows, rival, data))
        clock, limit = values.get((data, "baseline_clock")), published.LIMIT.get(data)
        cells.append("" if clock is None else f"{np.mean(clock):.3f}")
        cells.append("" if limit is None else f"{limit:.3f}")
        cells.append(str(len(values[data, "auto"])))
        yield f"| {data} | " + " | ".join(cells) + " |"


def _difference(rows: list[Row], rival: str | None, data: str) -> str:
    found = {} if rival is None else paired(rows, "auto", rival, "balanced_accuracy")
    return write_difference(found, data, proven=False)


def _cell(values: list[float]) -> str:
    if len(values) < 2:
        return f"{np.mean(values):.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"


def _named(values: Values, data: str, method: str | None) -> str:
    if method is None:
        return ""
    return f"{np.mean(values[data, method]):.3f} ({LABELS[method]})"


def adds_table(rows: list[Row]) -> Iterator[str]:
    """Yield what each idea adds, with 95 % intervals; bold where Holm's procedure rejects zero."""
    found = {
        what: paired(rows, method, other, "balanced_accuracy")
        for what, (method, other) in ADDS.items()
    }
    keys = [(what, data) for what, known in found.items() for data in known]
    proven = dict(zip(keys, holm([found[w][d].p for w, d in keys]), strict=True))
    datasets = [data for data in DATA_SETS if any(data in known for known in found.values())]
    yield "| adds | " + " | ".join(datasets) + " |"
    yield "|---" * (len(datasets) + 1) + "|"
    for what, known in found.items():
        cells = [
            write_difference(known, data, proven.get((what, data), False)) for data in datasets
        ]
        yield f"| {what} | " + " | ".join(cells) + " |"


def beside_table(rows: list[Row]) -> Iterator[str]:
    """Yield auto beside other recurrent methods, and how often each candidate was taken."""
    values = by_method(in_common(rows, ("auto", *OWN_METHODS)))
    taken: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row["variant"] == "auto" and row.get("candidate"):
            taken[row["dataset"]][row["candidate"]] += 1
    yield "| | auto | " + " | ".join(LABELS[m] for m in OWN_METHODS) + " | auto took |"
    yield "|---" * (len(OWN_METHODS) + 3) + "|"
    for data in DATA_SETS:
        if not any((data, method) in values for method in OWN_METHODS):
            continue
        cells = [
            _cell(values[data, m]) if (data, m) in values else "" for m in ("auto", *OWN_METHODS)
        ]
        chosen = sorted(taken[data].items(), key=lambda item: -item[1])
        cells.append(", ".join(f"{name} {count}" for name, count in chosen))
        yield f"| {data} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the tables and keep them beside the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__)
    parser.add_argument("--file", type=Path, default=RESULTS, help="results (%(default)s)")
    args = parser.parse_args()
    rows: list[Row] = list(read_rows(args.file))
    parts = {
        "auto, and what one would take instead": short_table(rows),
        "auto beside recurrent methods": beside_table(rows),
        "what each idea adds": adds_table(rows),
    }
    lines = [line for title, table in parts.items() for line in (f"\n{title}\n", *table)]
    text = "\n".join(lines).strip() + "\n"
    print(text)
    args.file.with_name("summary.md").write_text(text)


if __name__ == "__main__":
    main()
