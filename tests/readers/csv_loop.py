"""A naive reader of CSV files: the csv module, regular expressions and loops over cells."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from datetime import UTC, datetime

from table_loop import BadTableError, Cells, LoopPaths, Row, loop_rows

from lit_ios.readers import TableRoles

NUMBER = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[ \t]*", re.IGNORECASE | re.ASCII)
PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile(r"[ \t]*[+-]?(inf|infinity|nan)[ \t]*", re.IGNORECASE | re.ASCII)
HEXADECIMAL = re.compile(r"[ \t]*0x[0-9a-f]+[ \t]*", re.IGNORECASE | re.ASCII)
DATE = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
WORD = re.compile(r"[a-z]+ ?[a-z]*", re.ASCII)
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# pyarrow's documented spellings of nothing, ConvertOptions.null_values
NOTHING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
           "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"}  # fmt: skip
HOUR = 3600.0
FLAG_WORDS = [("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on")]


class CsvTable:
    """The cells of a CSV file by column, and whether all is spelled plainly."""

    def __init__(self, data: bytes, file_name: str) -> None:
        text = unpacked(data, file_name)
        self.plain = text.count('"') % 2 == 0  # RFC 4180 allows none in a cell without quotes
        mark = separator(text)
        lines = [line for line in csv_lines(text, mark) if line]
        self.comma = mark != "," and has_decimal_commas(lines[1:])
        if len(lines) < 2 or any(len(line) != len(lines[0]) for line in lines):
            raise BadTableError("no rows, or ragged ones")
        if "" in lines[0] or len(set(lines[0])) < len(lines[0]):
            raise BadTableError("column names that are empty or not unique")
        self.columns = {name: [line[i] for line in lines[1:]] for i, name in enumerate(lines[0])}

    def __getitem__(self, name: str) -> list[str]:
        if name not in self.columns:
            raise BadTableError(f"no column {name}")
        return self.columns[name]

    def odd(self, is_odd: bool) -> None:
        """Note a spelling that a reader may refuse."""
        self.plain = self.plain and not is_odd

    def names(self, column: str) -> list[str]:
        if any(not cell.strip() for cell in self[column]):
            raise BadTableError("empty path name")
        self.odd(any(cell in NOTHING for cell in self[column]))
        return self[column]

    def times(self, column: str, date_format: str | None) -> list[float]:
        cells = [cell.strip(" \t") for cell in self[column]]
        if date_format is not None:
            self.odd(cells != self[column])
            return loop_dates(cells, date_format)
        if all(DATE.fullmatch(cell) for cell in cells):
            self.odd(cells != self[column] or len({len(cell) for cell in cells}) > 1)
            return loop_dates(cells)
        times = self.numbers(self[column])
        if None in times:
            raise BadTableError("a time is missing or infinite")
        return times

    def numbers(self, cells: list[str]) -> Cells:
        values: Cells = []
        for written in cells:
            cell = written
            if self.comma:
                if "." in cell and cell not in NOTHING:
                    raise BadTableError(f"a point among decimal commas: {cell!r}")
                cell = cell.replace(",", ".")
            self.odd(cell != "" and not PLAIN_NUMBER.fullmatch(cell))
            if cell in NOTHING or NOT_FINITE.fullmatch(cell):
                values.append(None)
            elif HEXADECIMAL.fullmatch(cell):
                values.append(float(int(cell, 16)))
            elif NUMBER.fullmatch(cell):
                values.append(None if abs(float(cell)) == float("inf") else float(cell))
            else:
                raise BadTableError(f"not a number: {cell!r}")
        return values

    def truths(self, cells: list[str]) -> Cells | None:
        """Return 1 for true and 0 for false; None if the cells are something else."""
        words = [cell for cell in cells if cell not in NOTHING]
        if not any(word in TRUTH for word in words):
            return None
        if not all(word in TRUTH or word in ("0", "1") for word in words):
            return None
        self.odd(not all(cell in TRUTH for cell in cells))
        truth = TRUTH | {"0": False, "1": True}
        return [None if cell in NOTHING else float(truth[cell]) for cell in cells]

    def flags(self, column: str) -> list[bool]:
        words = [cell.strip().lower() for cell in self[column]]
        for no, yes in FLAG_WORDS:
            if words[0] in (no, yes):
                self.odd(any(cell != cell.strip() for cell in self[column]))
                if not set(words) <= {no, yes}:
                    raise BadTableError(f"neither {no} nor {yes}")
                return [word == yes for word in words]
        values = self.truths(self[column]) or self.numbers(self[column])
        if any(value not in (0.0, 1.0) for value in values):
            raise BadTableError("a flag that is neither 0 nor 1")
        return [value == 1.0 for value in values]

    def feature(self, name: str) -> dict[str, Cells]:
        """Return the feature, or one per category, by name."""
        cells = self[name]
        if truths := self.truths(cells):
            return {name: truths}
        present = [cell for cell in cells if cell not in NOTHING]
        pointed = [cell.replace(",", ".") if self.comma else cell for cell in present]
        if any(NUMBER.fullmatch(cell) for cell in present) and self.comma:
            self.odd(any("." in cell for cell in present))
        numeric = any(NUMBER.fullmatch(cell) or NOT_FINITE.fullmatch(cell) for cell in pointed)
        if numeric or all(HEXADECIMAL.fullmatch(cell) for cell in present):
            return {name: self.numbers(cells)}
        return self.one_hot(name, sorted(set(present)))

    def one_hot(
        self, column: str, categories: list[str], unknown: str = "error"
    ) -> dict[str, Cells]:
        for cell in self[column]:
            self.odd(not WORD.fullmatch(cell) or cell in NOTHING or cell in TRUTH)
            self.odd(NOT_FINITE.fullmatch(cell) is not None)
            if cell not in NOTHING and cell not in categories and unknown == "error":
                raise BadTableError(f"unknown category {cell!r}")
        return {
            f"{column}={category}": [
                None if cell in NOTHING or cell not in categories else float(cell == category)
                for cell in self[column]
            ]
            for category in categories
        }

    def features(self, roles: TableRoles, others: list[str]) -> dict[str, Cells]:
        chosen = roles.features or [name for name in self.columns if name not in others]
        found: dict[str, Cells] = {}
        for name in chosen:
            known = roles.categories.get(name)
            if known is None:
                found |= self.feature(name)
            else:
                found |= self.one_hot(name, list(known), roles.unknown)
        if not found:
            raise BadTableError("no features")
        return found


def unpacked(data: bytes, file_name: str) -> str:
    try:
        if file_name.endswith(".csv.gz"):
            data = gzip.decompress(data)
        elif not file_name.endswith(".csv"):
            raise BadTableError("not named as a CSV file")
        return data.decode().removeprefix("\ufeff")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadTableError(str(error)) from None


def csv_lines(text: str, mark: str) -> list[list[str]]:
    """Split into cells; a line added at the end must come out alone, else a quote is open."""
    *lines, last = csv.reader(io.StringIO(text + "\nthe end", newline=""), delimiter=mark)
    if last != ["the end"]:
        raise BadTableError("the file ends within quotes")
    return lines


def separator(text: str) -> str:
    """Return the only mark that makes equally many columns of all lines, else the comma."""
    fitting = []
    for mark in ",;\t":
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if line]
        widths = [len(line) for line in lines]
        if lines and max(widths) == min(widths) > 1:
            fitting.append(mark)
    return fitting[0] if len(fitting) == 1 else ","


def has_decimal_commas(lines: list[list[str]]) -> bool:
    """Whether some cell is surely a number with a comma, and none is one with a point."""
    cells = [cell.strip() for line in lines for cell in line]
    sure = False
    for cell in cells:
        if "." in cell and NUMBER.fullmatch(cell) and not cell.endswith("."):
            return False
        whole, comma, rest = cell.partition(",")
        if not comma or "." in cell or not NUMBER.fullmatch(f"{whole}.{rest}"):
            continue
        digits = whole.lstrip("+-")
        thousands = len(rest) == 3 and rest.isdigit() and len(digits) < 4 and digits[:1] != "0"
        sure = sure or (bool(digits) and bool(rest) and rest[0].isdigit() and not thousands)
    return sure


def loop_dates(cells: list[str], written: str | None = None) -> list[float]:
    """Return hours since 1970."""
    try:
        dates = [
            datetime.fromisoformat(cell) if written is None else datetime.strptime(cell, written)
            for cell in cells
        ]
    except ValueError as error:
        raise BadTableError(str(error)) from None
    if len({date.tzinfo is None for date in dates}) > 1:
        raise BadTableError("dates with and without a time zone")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    instants = [date.replace(tzinfo=date.tzinfo or UTC) for date in dates]
    return [(instant - epoch).total_seconds() / HOUR for instant in instants]


def loop_csv(data: bytes, file_name: str, roles: TableRoles, training: bool) -> LoopPaths:
    """Read a CSV file cell by cell."""
    table = CsvTable(data, file_name)
    flags = [name for name in (roles.stop, roles.censored) if name is not None]
    others = [roles.path, roles.time, *flags]
    names, times = table.names(roles.path), table.times(roles.time, roles.date_format)
    features = table.features(roles, others)
    columns = list(features.values())
    none = [False] * len(names)
    stops = none if roles.stop is None else table.flags(roles.stop)
    losses = none if roles.censored is None else table.flags(roles.censored)
    cells = zip(names, times, zip(*columns, strict=True), stops, losses, strict=True)
    rows = [Row(name, time, list(state), stop, lost) for name, time, state, stop, lost in cells]
    return loop_rows(rows, list(features), roles, training, table.plain)
