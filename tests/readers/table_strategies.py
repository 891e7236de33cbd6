"""Strategies for CSV files, clean and with faults put in.

Hypothesis chooses kinds of columns, roles and faults; a generator seeded by it fills the cells,
which keeps thousands of tables cheap.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from lit_ios.readers import TableRoles

NAMES = ["a", "b", "unit 7", "7", "007", "1", "1.0", "true", "True", "2020-01-01", "é", "x,y",
         'q"q', "two\nlines", "12345678901234567890", "12345678901234567891", "0"]  # fmt: skip
WORDS = ["red", "blue", "pale green"]
TEXTS = [*WORDS, "x,y", "ü", "a=b", "yes", "True", "line\nbreak", "", 'in "quotes"', "NA"]
BAD_CELLS = ["", "NA", "nan", "inf", "-inf", "1e999", "text", "1_000", "1,5", "0x1F", "+3", " 4 ",
             "--", "1e", "5 6", "\0", "7\0", "½", "１", "true", "2020-02-30", "2020-01-01", "1e308",
             "-0.0", "00012", "99999999999999999999", "9007199254740993", " ", "1\n", "é",
             "0xFFFFFFFFFFFFFFFF", "12:30", "1e-999"]  # fmt: skip
FEATURES: dict[str, Callable[[Random], str]] = {
    "int": lambda rng: str(rng.randint(-1000, 1000)),
    "float": lambda rng: repr(rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300)),
    "mixed": lambda rng: rng.choice(["0", "1", "-0.0", "2.5", "1e7", "5e-324", "-1e308"]),
    "huge": lambda rng: str(rng.randint(-(10**25), 10**25)),
    "bool": lambda rng: rng.choice(["true", "false"]),
    "word": lambda rng: rng.choice(WORDS),
    "text": lambda rng: rng.choice(TEXTS),
    "gaps": lambda rng: rng.choice(["1", "2.5", "-3", "4", "", "", "NA", "inf"]),
}
CLOCKS: dict[str, Callable[[int], str]] = {
    "int": str,
    "float": lambda i: repr(i * 0.1 - 0.3),
    "date": lambda i: str((datetime(1999, 12, 30) + timedelta(days=i)).date()),
    "second": lambda i: (datetime(1969, 12, 31, 23, 59, 55) + timedelta(seconds=i)).isoformat(),
    "german": lambda i: (datetime(1999, 12, 30) + timedelta(days=i)).strftime("%d.%m.%Y"),
    "zone": lambda i: (datetime(2024, 2, 28) + timedelta(hours=i)).isoformat() + "+05:30",
}
GRID_FAULTS = ["cell", "cell", "cell", "any text", "no name", "same time", "flag", "flag", "flag",
               "swap", "repeat", "short", "long", "rename", "double", "unnamed", "no rows",
               "narrow"]  # fmt: skip
FLAG_WORDS = [("0", "1"), ("0", "1"), ("no", "yes"), ("F", "T"), ("off", "On")]
FLAG_FAULTS = {"s": ["1", "1", "0", "2"], "c": ["true", "true", "false", "1", "no"]}
FILE_FAULTS = ["cut", "cut", "insert", "insert", "blank lines", "crlf", "bom", "trailing comma",
               "quote all", "gzip", "cut gzip", "other name", "noise", "utf-16",
               "semicolons", "tabs", "decimal commas"]  # fmt: skip

Grid = list[list[str]]


class CsvCase(NamedTuple):
    """A file and how it is to be read."""

    file_name: str
    data: bytes
    roles: TableRoles
    training: bool


@st.composite
def csv_cases(draw: st.DrawFn, faults: bool) -> CsvCase:
    """Return a clean table, or one with up to three faults."""
    clock_name = draw(st.sampled_from(sorted(CLOCKS)))
    clock = CLOCKS[clock_name]
    kinds = draw(st.lists(st.sampled_from(sorted(FEATURES)), min_size=1, max_size=2))
    roles = draw(ROLES)
    if clock_name == "german":
        roles = replace(roles, date_format="%d.%m.%Y")
    grid_faults = draw(st.lists(st.sampled_from(GRID_FAULTS), max_size=2)) if faults else []
    file_fault = draw(st.none() | st.sampled_from(FILE_FAULTS)) if faults else None
    rng = Random(draw(st.integers(0, 2**64 - 1)))
    words, outcome = draw(st.sampled_from(FLAG_WORDS)), draw(st.sampled_from([False, False, True]))
    grid = random_grid(rng, clock, kinds, roles, words, outcome)
    for fault in grid_faults:
        spoil_grid(rng, fault, grid)
    file_name, data = spoiled_file(rng, file_fault, grid)
    return CsvCase(file_name, data, roles, training=rng.random() < 0.7)


def some_roles(missing: str, unknown: str, **roles: Any) -> TableRoles:
    """Return roles; what takes categories as missing must not refuse missing values."""
    unknown = "error" if missing == "error" else unknown
    return TableRoles(missing=missing, unknown=unknown, **roles)


ROLES = st.builds(
    some_roles,
    path=st.just("unit"),
    time=st.just("t"),
    features=st.sampled_from([None, None, ("x0",)]),
    stop=st.sampled_from([None, "s"]),
    censored=st.sampled_from([None, "c"]),
    missing=st.sampled_from(["error", "error", "drop", "last", "impute"]),
    unknown=st.sampled_from(["error", "missing"]),
    duplicates=st.sampled_from(["error", "error", "drop"]),
    sort=st.booleans(),
    categories=st.sampled_from([{}, {}, {}, {"x0": ("pale green", "red", "grey", "blue")}]),
)


def random_grid(
    rng: Random,
    clock: Callable[[int], str],
    kinds: list[str],
    roles: TableRoles,
    words: tuple[str, str],
    outcome: bool,
) -> Grid:
    """Return header and rows of a few paths, whose columns lie in any order."""
    owners = rng.choices(rng.sample(NAMES, rng.randint(1, 3)), k=rng.randint(2, 8))
    if rng.random() < 0.5:
        owners.sort()
    columns = {"unit": owners, "t": [clock(i) for i in range(len(owners))]}
    for i, kind in enumerate(kinds):
        columns[f"x{i}"] = [FEATURES[kind](rng) for _ in owners]
    last = {name: i for i, name in enumerate(owners)}
    stopped = {name: rng.random() < 0.8 for name in last}
    if roles.stop is not None:
        stops = [stopped[n] and (outcome or last[n] == i) for i, n in enumerate(owners)]
        columns["s"] = [words[stop] for stop in stops]
    if roles.censored is not None:
        columns["c"] = ["false" if stopped[name] else "true" for name in owners]
    header = rng.sample(sorted(columns), len(columns))
    return [header, *map(list, zip(*(columns[name] for name in header), strict=True))]


def spoil_grid(rng: Random, fault: str, grid: Grid) -> None:
    """Put one fault into header or rows."""
    header, *rows = grid
    if not rows or not header:
        return
    row, other = rng.choice(rows), rng.choice(rows)
    column = rng.randrange(len(header))
    at = {name: i for i, name in enumerate(header)}
    match fault:
        case "cell" if column < len(row):
            row[column] = rng.choice(BAD_CELLS)
        case "any text" if column < len(row):
            row[column] = chr(rng.randrange(128)) + chr(rng.randrange(0x3000))
        case "no name" if len(row) == len(header) and "unit" in at:
            row[at["unit"]] = rng.choice(["", " ", "\t", "\u2003"])
        case "same time" if len(row) == len(other) == len(header) and "t" in at:
            row[at["t"]] = other[at["t"]]
        case "flag" if len(row) == len(header) and {"s", "c"} & set(at):
            place, flags = rng.choice([(at[n], f) for n, f in FLAG_FAULTS.items() if n in at])
            row[place] = rng.choice(flags)
        case "swap":
            place = rng.randrange(1, len(grid))
            grid[1], grid[place] = grid[place], grid[1]
        case "repeat":
            grid.insert(rng.randrange(1, len(grid) + 1), list(row))
        case "short":
            del row[-1:]
        case "long":
            row.append(rng.choice(["", "9"]))
        case "rename" | "double" | "unnamed":
            header[column] = {"rename": "other", "double": header[0], "unnamed": ""}[fault]
        case "no rows":
            del grid[1:]
        case "narrow":
            for line in grid:
                del line[-1:]


def written(grid: Grid, **options: object) -> bytes:
    text = io.StringIO()
    csv.writer(text, **({"lineterminator": "\n"} | options)).writerows(grid)
    return text.getvalue().encode()


def with_commas(grid: Grid) -> Grid:
    """Write decimals of the features and times with commas."""
    plain = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")
    return [[c.replace(".", ",") if plain.fullmatch(c) else c for c in row] for row in grid]


def spoiled_file(rng: Random, fault: str | None, grid: Grid) -> tuple[str, bytes]:
    """Write the table, in another way than usual or with damaged bytes."""
    data = written(grid)
    place = rng.randint(0, len(data))
    noise = rng.choice([b"\xff", b"\xe9", b'"', b"\0", b"\n", b"\r", b",", b"\xc3", b" ", b"\t"])
    packed = gzip.compress(data)
    anything = rng.choice([rng.randbytes(rng.randint(0, 40)), b"PAR1" + data + b"PAR1", packed])
    files = {
        None: ("table.csv", data),
        "cut": ("table.csv", data[:place]),
        "insert": ("table.csv", data[:place] + noise + data[place:]),
        "blank lines": ("table.csv", written([line for row in grid for line in ([], row, [])])),
        "crlf": ("table.csv", written(grid, lineterminator="\r\n")),
        "bom": ("table.csv", b"\xef\xbb\xbf" + data),
        "trailing comma": ("table.csv", data.replace(b"\n", b",\n")),
        "quote all": ("table.csv", written(grid, quoting=csv.QUOTE_ALL)),
        "semicolons": ("table.csv", written(grid, delimiter=";")),
        "tabs": ("table.csv", written(grid, delimiter="\t")),
        "decimal commas": ("table.csv", written(with_commas(grid), delimiter=";")),
        "gzip": ("table.csv.gz", packed),
        "cut gzip": ("table.csv.gz", packed[: place % len(packed)]),
        "other name": (rng.choice(["table.parquet", "table.csv.gz", "table.txt"]), data),
        "noise": (rng.choice(["table.csv", "table.csv.gz", "table.parquet"]), anything),
        "utf-16": ("table.csv", data.decode().encode("utf-16")),
    }
    return files[fault]
