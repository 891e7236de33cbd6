"""Tables of finished runs: mean ± 2 sd beside the paper's, and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks import published

Rows = Iterable[Mapping[str, str]]


class Cell(NamedTuple):
    """Seeds of one method on one data set."""

    mean: float
    spread: float  # two standard deviations
    best: bool  # one of the best three of its column
    seeds: int


class Table(NamedTuple):
    """Means of one metric: data sets, methods, and what is known of their pairs."""

    datasets: list[str]
    methods: list[str]
    cells: dict[tuple[str, str], Cell]


def summarise(rows: Rows, column: str, datasets: Iterable[str], methods: Iterable[str]) -> Table:
    """Take means and spreads over seeds; accuracies get their best three marked."""
    values = defaultdict(list)
    for row in rows:
        values[row["dataset"], row["variant"]].append(float(row[column] or "nan"))
    chosen = [name for name in datasets if any(key[0] == name for key in values)]
    kept = [name for name in methods if any(key[1] == name for key in values)]
    means = {key: float(np.mean(value)) for key, value in values.items()}
    best = {}
    for data in chosen:
        known = sorted((means[data, m] for m in kept if (data, m) in means), reverse=True)
        best[data] = known[:3] if column.endswith("accuracy") else []
    cells = {
        (data, method): Cell(
            means[data, method],
            2 * _deviation(values[data, method]),
            means[data, method] in best[data],
            len(values[data, method]),
        )
        for data in chosen
        for method in kept
        if (data, method) in means
    }
    return Table(chosen, kept, cells)


def _deviation(values: list[float]) -> float:
    """Return the standard deviation of a sample; NaN for one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def markdown(table: Table, column: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a Markdown table line by line, the paper's means in brackets."""

    def write(data: str, method: str, cell: Cell) -> str:
        spread = "" if np.isnan(cell.spread) else f" ± {_number(column, cell.spread, 2)}"
        text = _number(column, cell.mean, 3) + spread
        paper = _published(method, data, column)
        brackets = "" if paper is None else f" ({paper:.3f})"
        return (f"**{text}**" if cell.best else text) + brackets

    yield "| | " + " | ".join(table.datasets) + " |"
    yield "|---" * (len(table.datasets) + 1) + "|"
    for method in table.methods:
        name = names[method] + _fewer_seeds(table, method)
        yield f"| {name} | " + " | ".join(_line(table, method, write, "")) + " |"
    for name, values in _limits(table, column):
        yield f"| {name} | " + " | ".join(values) + " |"


def latex(table: Table, column: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the same as a LaTeX tabular, without the paper's figures."""

    def write(data: str, method: str, cell: Cell) -> str:
        spread = "" if np.isnan(cell.spread) else rf" \pm {_number(column, cell.spread, 2)}"
        text = _number(column, cell.mean, 3) + spread
        return rf"$\mathbf{{{text}}}$" if cell.best else f"${text}$"

    headings = [data.replace("_", r"\_") for data in table.datasets]
    yield rf"\begin{{tabular}}{{l{'c' * len(table.datasets)}}}"
    yield r"\toprule"
    yield " & ".join(["", *headings]) + r" \\"
    yield r"\midrule"
    for method in table.methods:
        name = names[method] + _fewer_seeds(table, method)
        yield " & ".join([name, *_line(table, method, write, "--")]) + r" \\"
    for i, (name, values) in enumerate(_limits(table, column)):
        yield (r"\midrule " if i == 0 else "") + " & ".join([name, *values]) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _fewer_seeds(table: Table, method: str) -> str:
    """Say how many seeds a method has, where others have more."""
    own = {cell.seeds for (_, name), cell in table.cells.items() if name == method}
    most = max(cell.seeds for cell in table.cells.values())
    return "" if own == {most} else f" ({'–'.join(map(str, sorted(own)))} seeds)"


def _limits(table: Table, column: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what the table is to be compared with: the paper's best methods, and the limits."""
    if column != "balanced_accuracy":
        return
    best = {
        data: max(row[i][0] for row in published.BALANCED_ACCURACY.values())
        for i, data in enumerate(published.DATA_SETS)
    }
    for name, known in (("the paper's best", best), ("limit", published.LIMIT)):
        if any(data in known for data in table.datasets):
            yield name, [f"{known[d]:.3f}" if d in known else "" for d in table.datasets]


def _line(
    table: Table, method: str, write: Callable[[str, str, Cell], str], missing: str
) -> list[str]:
    """Write the cells of one method, or what stands for one that is not there."""
    return [
        write(data, method, table.cells[data, method]) if (data, method) in table.cells else missing
        for data in table.datasets
    ]


def _number(column: str, value: float, decimals: int) -> str:
    """Write a share with these decimals, and a time with one."""
    return f"{value:.1f}" if column.startswith("time") else f"{value:.{decimals}f}"


def _published(method: str, data: str, column: str) -> float | None:
    """Return the paper's mean, where it has one."""
    row = published.BALANCED_ACCURACY.get(method)
    if column != "balanced_accuracy" or row is None or data not in published.DATA_SETS:
        return None
    return row[published.DATA_SETS.index(data)][0]


class Difference(NamedTuple):
    """How much better one method is than another on the same seeds."""

    mean: float
    low: float  # 95 % confidence interval of the mean, of this comparison by itself
    high: float
    seeds: int
    p: float  # two-sided, of a paired t test


def paired(rows: Rows, method: str, other: str, column: str) -> dict[str, Difference]:
    """Compare two methods seed by seed on every data set both have two seeds of in common."""
    values: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in rows:
        values[row["dataset"]][row["variant"], row["seed"]] = float(row[column] or "nan")
    found = {}
    for data, known in values.items():
        finite = {key for key, value in known.items() if np.isfinite(value)}
        seeds = sorted(
            {seed for m, seed in finite if m == method} & {s for m, s in finite if m == other}
        )
        if len(seeds) < 2:
            continue
        differences = np.array([known[method, seed] - known[other, seed] for seed in seeds])
        error = float(stats.sem(differences))
        reach = float(stats.t.ppf(0.975, len(seeds) - 1)) * error
        mean = float(differences.mean())
        ratio = abs(mean) / error if error else (np.inf if mean else 0.0)
        p = 2 * float(stats.t.sf(ratio, len(seeds) - 1))
        found[data] = Difference(mean, mean - reach, mean + reach, len(seeds), p)
    return found


def holm(p: list[float], level: float = 0.05) -> list[bool]:
    """Say which of several hypotheses are rejected together at a level, by Holm's procedure.

    The smallest p is compared with level/m, the next with level/(m − 1) and so on, until one is
    too large: the chance of any false rejection is at most the level.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    rejected = [False] * len(p)
    for rank, i in enumerate(order):
        if not p[i] <= level / (len(p) - rank):
            break
        rejected[i] = True
    return rejected


def write_difference(found: Mapping[str, Difference], data: str, proven: bool) -> str:
    """Write a difference with its interval, bold where it is proven; nothing if there is none."""
    if data not in found:
        return ""
    d = found[data]
    text = f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
    return f"**{text}**" if proven else text


def paired_markdown(
    rows: Rows, methods: Iterable[str], other: str, column: str, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield differences to one method as a table, with the 95 % interval of each by itself.

    Bold are those that differ from zero when all comparisons of the table are made at once, by
    Holm's procedure at 5 %.
    """
    rows = list(rows)
    compared = {m: paired(rows, m, other, column) for m in methods if m != other}
    datasets = list(dict.fromkeys(data for found in compared.values() for data in found))
    keys = [(method, data) for method, found in compared.items() for data in found]
    proven = dict(zip(keys, holm([compared[m][d].p for m, d in keys]), strict=True))
    yield f"| minus {names[other]} | " + " | ".join(datasets) + " |"
    yield "|---" * (len(datasets) + 1) + "|"
    for method, found in compared.items():
        if not found:
            continue
        cells = [
            write_difference(found, data, proven.get((method, data), False)) for data in datasets
        ]
        yield f"| {names[method]} | " + " | ".join(cells) + " |"
