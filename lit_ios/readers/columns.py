"""Columns → arrays: numbers, times, names and flags, each with errors that say where."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.readers.dates import as_dates, dates_written, is_date
from lit_ios.readers.dialects import looks_like_a_decimal_comma
from lit_ios.readers.files import TableError
from lit_ios.times import SECONDS, TimeUnit
from lit_ios.trajectories import FloatArray, IntArray

EXACT = 2**53  # up to which every integer is a double
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST_CATEGORIES = 100
FEW_CATEGORIES = 10  # up to which texts such as 10mg may well be categories


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
        self.name, self.path_column = name, path_column
        self.rows = table.num_rows
        self.numbers_of_rows = numbers  # in the files, where not all rows were kept
        self.parts = parts or [(name, table.num_rows)]  # files and their numbers of rows
        self.columns = list(table.column_names)
        self.events: Source | None = None  # a table with one row per path, where there is one
        self._held = dict(zip(self.columns, table.columns, strict=True))

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """Return a column as it was read."""
        return self._held[column]

    def __contains__(self, column: str) -> bool:
        """Whether there is such a column."""
        return column in self._held

    @property
    def table(self) -> pa.Table:
        """The columns that have not been dropped."""
        return pa.table(self._held)

    def drop(self, column: str) -> None:
        """Free the memory of a column that is not read any more."""
        del self._held[column]

    def kind(self, column: str) -> pa.DataType:
        """Return the type of a column's values."""
        kind = self[column].type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def check_text(self, column: str) -> None:
        """Refuse bytes that are not text."""
        kind = self.kind(column)
        try:
            self[column].validate(full=True)
            self[column].cast(kind).validate(full=True)
            binary = any(test(kind) for test in _BINARY)
        except pa.ArrowException:
            binary = True
        if binary:
            raise TableError(
                f"{self.name}, column {column!r}: text that is not UTF-8; save the file as UTF-8"
            )

    def where(self, column: str, row: int) -> str:
        """Name a cell; rows count from 1, the header not counted."""
        path = ""
        if self.path_column is not None and column != self.path_column:
            path = f", path {self.texts(self.path_column)[row].as_py()!r}"
        file, row = self.in_its_file(row)
        return f"{file}, column {column!r}{path}, row {row + 1}"

    def cell(self, column: str, row: int) -> str:
        """Return what a cell holds, as text."""
        return str(self[column].slice(row, 1).cast(pa.string())[0])

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
        return self[column].cast(pa.string())

    def numbers(self, column: str) -> FloatArray:
        """Return a numeric column, missing values as NaN; text in it is an error."""
        values = self[column]
        if self.is_text(column):
            row = self._first_text(column)
            text = values[row].as_py()
            why = f"not a number: {text!r}; {_hint(str(text))}"
            raise TableError(f"{self.where(column, row)}: {why}")
        kind = values.type
        if pa.types.is_null(kind):
            return np.full(len(values), np.nan)
        if not _is_numeric(kind):
            raise TableError(
                f"{self.name}, column {column!r}: a feature must be numbers or text, got {kind}; "
                f"leave the column out with drop={[column]}"
            )
        wanted = pa.float32() if pa.types.is_float32(kind) else pa.float64()
        if pa.types.is_boolean(kind):
            values = values.cast(pa.int8())
        return np.asarray(values.cast(wanted, safe=False).to_numpy())

    def _first_text(self, column: str) -> int:
        """Return the first row of a text column that is no number, with or without a comma."""
        texts = self.texts(column).to_pylist()
        words = (row for row, text in enumerate(texts) if text is not None and not _numeric(text))
        others = (row for row, text in enumerate(texts) if text is not None and not is_number(text))
        return next(words, next(others, 0))

    def _first_no_time(self, column: str) -> int:
        """Return the first row that is not a date, or, where most are not, not a number."""
        texts = self.texts(column).to_pylist()
        dates = sum(is_date(text) for text in texts) * 2 > len(texts)
        for row, text in enumerate(texts):
            if not (is_date(text) if dates else is_number(text)):
                return row
        return 0

    def holds_dates(self, column: str, written: str | None) -> bool:
        """Whether a column of times, which can be read, holds dates rather than numbers."""
        return (
            written is not None or self.is_text(column) or pa.types.is_temporal(self.kind(column))
        )

    def holds_numbers(self, column: str) -> bool:
        """Whether some cell of a text column is a number: then the text is a mistake."""
        distinct = pc.unique(self.texts(column)).to_pylist()
        return any(text is not None and _numeric(text) for text in distinct)

    def times(self, column: str, unit: TimeUnit, written: str | None = None) -> FloatArray:
        """Return a column of times: numbers as they are, dates in `unit` since 1970.

        Args:
            column: its name.
            unit: of dates.
            written: format of dates that are text, as for strptime; None for ISO 8601.
        """
        values = self[column]
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy()))
            raise TableError(f"{self.where(column, row)}: no time; fill it in, or drop the row")
        if written is not None and not pa.types.is_temporal(values.type):
            values = self._dates_written(column, written)
        elif self.is_text(column):
            values = as_dates(values)
        kind = values.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            if pa.types.is_date(kind):
                values = values.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
            per_second = _PER_SECOND[values.type.unit]
            return np.asarray(values.cast(pa.int64()).to_numpy() / (per_second * SECONDS[unit]))
        if self.is_text(column):
            row = self._first_no_time(column)
            raise TableError(
                f"{self.where(column, row)}: neither a number nor a date: "
                f"{values[row].as_py()!r}; say how dates are written, e.g. "
                "date_format='%d.%m.%Y'"
            )
        if pa.types.is_boolean(kind) or not _is_numeric(kind):
            what = "true or false" if pa.types.is_boolean(kind) else f"{kind}"
            raise TableError(
                f"{self.name}, column {column!r}: times must be numbers or dates, not {what}; "
                "write numbers, such as hours since the path began, or name another column: "
                "time='…'"
            )
        times = self.numbers(column).astype(np.float64)
        if not np.isfinite(times).all():
            row = int(np.argmin(np.isfinite(times)))
            raise TableError(
                f"{self.where(column, row)}: time must be finite, got {times[row]}; correct it, "
                "or drop the row"
            )
        if _merges(values, times):
            raise TableError(
                f"{self.name}, column {column!r}: different times are the same as numbers of 16 "
                f"digits, such as {values[0].as_py()}: subtract where they begin, or write dates"
            )
        if are_compact_dates(times):
            warnings.warn(
                f"{self.name}, column {column!r}: {times[0]:.0f} and so on are taken as numbers, "
                "though they look like dates: set date_format='%Y%m%d' if they are",
                stacklevel=2,
            )
        return times

    def _dates_written(self, column: str, written: str) -> pa.ChunkedArray:
        try:
            texts = self.texts(column)
        except pa.ArrowException:
            raise TableError(
                f"{self.name}, column {column!r}: times must be numbers or dates, got "
                f"{self.kind(column)}; name another column: time='…'"
            ) from None
        dates, bad = dates_written(texts, written)
        if bad.any():
            row = int(np.argmax(bad))
            raise TableError(
                f"{self.where(column, row)}: {texts[row].as_py()!r} is not a date written as "
                f"{written!r}; correct the cell, or date_format"
            )
        return dates

    def path_names(self, column: str) -> pa.DictionaryArray:
        """Return the path of each row; an empty one is an error."""
        kind = self.kind(column)
        if not any(test(kind) for test in _NAMES):
            raise TableError(
                f"{self.name}, column {column!r}: a path is named by text or numbers, not {kind}; "
                "name another column: path='…'"
            )
        if pa.types.is_integer(kind) and not self[column].null_count:  # written once for each path
            coded = self[column].cast(kind).combine_chunks().dictionary_encode()
            return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string()))
        names = self.texts(column).combine_chunks()
        if pa.types.is_floating(kind):
            nan = np.isnan(self[column].cast(pa.float64()).to_numpy())
            if nan.any():
                raise TableError(
                    f"{self.where(column, int(np.argmax(nan)))}: the path has no name; {_NAMELESS}"
                )
        empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(names), ""), True)
        if pc.any(empty).as_py():
            row = int(np.argmax(empty.to_numpy(zero_copy_only=False)))
            raise TableError(f"{self.where(column, row)}: the path has no name; {_NAMELESS}")
        return names.dictionary_encode()

    def codes(self, column: str, categories: Sequence[str], *, others: bool = False) -> FloatArray:
        """Return the code of each row's category, NaN where it is missing.

        Args:
            column: its name.
            categories: in the order of their codes.
            others: take other categories as missing, too, instead of refusing them.
        """
        try:
            texts = self.texts(column)
        except pa.ArrowException:
            raise TableError(
                f"{self.name}, column {column!r}: text expected, got {self.kind(column)}; "
                "convert the column to text"
            ) from None
        found = pc.index_in(texts, pa.array(categories)).to_numpy()
        codes = np.asarray(found, dtype=np.float64)  # NaN where there is none
        missing = self[column].is_null().to_numpy()
        unknown = np.isnan(codes) & ~missing
        codes[missing] = np.nan
        if unknown.any() and not others:
            row = int(np.argmax(unknown))
            raise TableError(
                f"{self.where(column, row)}: {texts[row].as_py()!r} is not one of the "
                f"{len(categories)} categories known from training; correct it, or, if the "
                "rule was trained with missing='impute' or 'last', set unknown='missing' to treat "
                "it as missing"
            )
        return codes

    def categories(self, column: str) -> list[str]:
        """Return the distinct values of a categorical column, sorted."""
        found = sorted(x for x in pc.unique(self.texts(column)).to_pylist() if x is not None)
        marked = len(found) > FEW_CATEGORIES and all(map(is_marked_number, found))
        if marked:
            text = (
                f"{self.name}, column {column!r}: {len(found)} different texts such as "
                f"{found[0]!r}, which look like numbers: write numbers alone to have them as such"
            )
            if len(found) > MOST_CATEGORIES:
                raise TableError(f"{text}, or leave the column out with drop={[column]}")
            warnings.warn(f"{text}; they are taken as categories", stacklevel=2)
        if len(found) > MOST_CATEGORIES:
            raise TableError(
                f"{self.name}, column {column!r}: {len(found)} different texts are names, not "
                f"categories (at most {MOST_CATEGORIES}); leave the column out with drop={[column]}"
            )
        return found


_NAMELESS = "name it, or drop the row"
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


def _merges(values: pa.ChunkedArray, times: FloatArray) -> bool:
    """Whether integers of which some differ are the same in double precision."""
    if not pa.types.is_integer(values.type) or np.abs(times).max(initial=0) <= EXACT:
        return False
    return bool(pc.count_distinct(values).as_py() > len(np.unique(times)))


def _is_numeric(kind: pa.DataType) -> bool:
    """Whether values of a kind are taken as numbers."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal,
             pa.types.is_null)  # fmt: skip
    return any(test(kind) for test in tests)


def _hint(text: str) -> str:
    """Say what to do about a cell that is no number."""
    if looks_like_a_decimal_comma(text):
        return "set decimal=',' if all are written so"
    if not any(map(str.isalnum, text)):
        return "leave the cell empty if the value is missing, or correct it"
    return "write the number alone, without marks" if is_marked_number(text) else "correct the cell"


def is_marked_number(text: str) -> bool:
    """Whether a text is a number with a unit, a currency, a percent sign or marks of thousands."""
    return not is_number(text) and _MARKED.fullmatch(text) is not None


def are_compact_dates(times: FloatArray) -> bool:
    """Whether numbers look like dates such as 20240330: all of them."""
    if len(times) > 1 and not are_compact_dates(times[:1]):
        return False
    days, months, years = times % 100, times // 100 % 100, times // 10_000
    as_dates = (years >= 1900) & (years < 2100) & (months >= 1) & (months <= 12) & (days >= 1)
    return bool((as_dates & (days <= 31) & (times == np.floor(times))).all())


def _numeric(text: str) -> bool:
    """Whether a text is a number, maybe one that cannot be read."""
    others = looks_like_a_decimal_comma(text) or _HEXADECIMAL.fullmatch(text)
    return is_number(text) or bool(others)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    return _NUMBER.fullmatch(text) is not None


_UNIT = r"[^\W\d_]{0,5}[%°$€£¥/]?[^\W\d_]{0,5}"
_MARKED = re.compile(rf"\s*[$€£¥]?\s*[+-]?\d{{1,3}}(([,' ]\d{{3}})+|\d*)([.,]\d+)?\s*{_UNIT}\s*")
_HEXADECIMAL = re.compile(r"\s*0x[0-9a-f]+\s*", re.I | re.A)
_NUMBER = re.compile(
    r"[ \t]*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan))[ \t]*", re.I | re.A
)
