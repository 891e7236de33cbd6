"""Columns → arrays: numbers, times, names and flags, each with errors that say where."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.readers.files import TableError
from lit_ios.times import SECONDS, TimeUnit
from lit_ios.trajectories import BoolArray, FloatArray, IntArray

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST_CATEGORIES = 100


class Source:
    """One table and how to speak of its places."""

    def __init__(
        self,
        name: str,
        table: pa.Table,
        path_column: str | None = None,
        parts: list[tuple[Any, int]] | None = None,
        numbers: IntArray | None = None,
    ) -> None:
        self.name, self.table, self.path_column = name, table, path_column
        self.numbers_of_rows = numbers  # in the files, where not all rows were kept
        self.parts = parts or [(name, table.num_rows)]  # files and their numbers of rows
        self.columns = list(table.column_names)

    def drop(self, column: str) -> None:
        """Free the memory of a column that is not read any more."""
        self.table = self.table.drop_columns([column])

    def kind(self, column: str) -> pa.DataType:
        """Return the type of a column's values."""
        kind = self.table[column].type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def check_text(self, column: str) -> None:
        """Refuse bytes that are not text."""
        kind = self.kind(column)
        try:
            self.table[column].validate(full=True)
            self.table[column].cast(kind).validate(full=True)
            binary = any(test(kind) for test in _BINARY)
        except pa.ArrowException:
            binary = True
        if binary:
            raise TableError(f"{self.name}, column {column!r}: text that is not UTF-8")

    def where(self, column: str, row: int) -> str:
        """Name a cell; rows count from 1, the header not counted."""
        path = ""
        if self.path_column is not None and column != self.path_column:
            path = f", path {self.texts(self.path_column)[row].as_py()!r}"
        file, row = self.in_its_file(row)
        return f"{file}, column {column!r}{path}, row {row + 1}"

    def cell(self, column: str, row: int) -> str:
        """Return what a cell holds, as text."""
        return str(self.table[column].slice(row, 1).cast(pa.string())[0])

    def in_its_file(self, row: int) -> tuple[str, int]:
        """Return the file a row is from, and which of its rows it is, counting from 0."""
        if self.numbers_of_rows is not None:
            row = int(self.numbers_of_rows[row])
        for file, length in self.parts[:-1]:
            if row < length:
                return str(file), row
            row -= length
        return str(self.parts[-1][0]), row

    def is_text(self, column: str) -> bool:
        """Whether a column holds text (also if it is stored as a dictionary)."""
        kind = self.kind(column)
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def texts(self, column: str) -> pa.ChunkedArray:
        """Return a column as text."""
        return self.table[column].cast(pa.string())

    def numbers(self, column: str) -> FloatArray:
        """Return a numeric column, missing values as NaN; text in it is an error."""
        values = self.table[column]
        if self.is_text(column):
            raise TableError(f"{self.where(column, self._first_text(column))}: not a number: "
                             f"{values[self._first_text(column)].as_py()!r}")  # fmt: skip
        kind = values.type
        if pa.types.is_null(kind):
            return np.full(len(values), np.nan)
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind)
        ):
            raise TableError(
                f"{self.name}, column {column!r}: a feature must be numbers or text, got {kind}"
            )
        wanted = pa.float32() if pa.types.is_float32(kind) else pa.float64()
        if pa.types.is_boolean(kind):
            values = values.cast(pa.int8())
        return np.asarray(values.cast(wanted, safe=False).to_numpy())

    def _first_text(self, column: str) -> int:
        """Return the first row of a text column that is no number."""
        for row, text in enumerate(self.texts(column).to_pylist()):
            if text is not None and not _is_number(text):
                return row
        return 0

    def _first_no_time(self, column: str) -> int:
        """Return the first row that is not a date, or, where most are not, not a number."""
        texts = self.texts(column).to_pylist()
        dates = sum(_is_date(text) for text in texts) * 2 > len(texts)
        for row, text in enumerate(texts):
            if not (_is_date(text) if dates else _is_number(text)):
                return row
        return 0

    def holds_numbers(self, column: str) -> bool:
        """Whether some cell of a text column is a number: then the text is a mistake."""
        distinct = pc.unique(self.texts(column)).to_pylist()
        return any(text is not None and _is_number(text) for text in distinct)

    def times(self, column: str, unit: TimeUnit) -> FloatArray:
        """Return a column of times: numbers as they are, dates in `unit` since 1970."""
        values = self.table[column]
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy()))
            raise TableError(f"{self.where(column, row)}: no time")
        values = _as_dates(values) if self.is_text(column) else values
        kind = values.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            if pa.types.is_date(kind):
                values = values.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
            per_second = _PER_SECOND[values.type.unit]
            return np.asarray(values.cast(pa.int64()).to_numpy() / (per_second * SECONDS[unit]))
        if self.is_text(column):
            row = self._first_no_time(column)
            text = values[row].as_py()
            raise TableError(f"{self.where(column, row)}: neither a number nor a date: {text!r}")
        if pa.types.is_boolean(kind):
            raise TableError(
                f"{self.name}, column {column!r}: times must be numbers or dates, not true or false"
            )
        times = self.numbers(column).astype(np.float64)
        if not np.isfinite(times).all():
            row = int(np.argmin(np.isfinite(times)))
            raise TableError(f"{self.where(column, row)}: time must be finite, got {times[row]}")
        return times

    def flags(self, column: str) -> BoolArray:
        """Return a column of 0 and 1, or false and true."""
        values = self.numbers(column)
        bad = ~np.isin(values, (0.0, 1.0))
        if bad.any():
            row = int(np.argmax(bad))
            raise TableError(f"{self.where(column, row)}: a flag must be 0 or 1, got {values[row]}")
        return np.asarray(values == 1)

    def path_names(self, column: str) -> pa.DictionaryArray:
        """Return the path of each row; an empty one is an error."""
        kind = self.kind(column)
        if not any(test(kind) for test in _NAMES):
            raise TableError(
                f"{self.name}, column {column!r}: a path is named by text or numbers, not {kind}"
            )
        names = self.texts(column).combine_chunks()
        if pa.types.is_floating(kind):
            nan = np.isnan(self.table[column].cast(pa.float64()).to_numpy())
            if nan.any():
                raise TableError(f"{self.where(column, int(np.argmax(nan)))}: the path has no name")
        empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(names), ""), True)
        if pc.any(empty).as_py():
            row = int(np.argmax(empty.to_numpy(zero_copy_only=False)))
            raise TableError(f"{self.where(column, row)}: the path has no name")
        return names.dictionary_encode()

    def codes(self, column: str, categories: list[str]) -> FloatArray:
        """Return the code of each row's category, NaN where it is missing; others are an error."""
        try:
            texts = self.texts(column)
        except pa.ArrowException:
            raise TableError(
                f"{self.name}, column {column!r}: text expected, got {self.kind(column)}"
            ) from None
        found = pc.index_in(texts, pa.array(categories)).to_numpy()
        codes = np.asarray(found, dtype=np.float64)  # NaN where there is none
        missing = self.table[column].is_null().to_numpy()
        unknown = np.isnan(codes) & ~missing
        codes[missing] = np.nan
        if unknown.any():
            row = int(np.argmax(unknown))
            value = texts[row].as_py()
            raise TableError(
                f"{self.where(column, row)}: {value!r} is not one of the known categories "
                f"{', '.join(map(repr, categories))}"
            )
        return codes

    def categories(self, column: str) -> list[str]:
        """Return the distinct values of a categorical column, sorted."""
        found = sorted(x for x in pc.unique(self.texts(column)).to_pylist() if x is not None)
        if len(found) > MOST_CATEGORIES:
            raise TableError(
                f"{self.name}, column {column!r}: {len(found)} different texts are names, not "
                f"categories (at most {MOST_CATEGORIES}); list the features without this column"
            )
        return found


_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_NAMES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,
    pa.types.is_date,
)


def _as_dates(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ISO 8601 texts as dates, where all of them are such, with or without time zones."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(pa.string()).cast(kind)
    return texts


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


_NUMBER = re.compile(
    r"[ \t]*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan))[ \t]*", re.I | re.A
)


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return False
    return True
