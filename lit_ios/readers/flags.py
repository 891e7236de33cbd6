"""Columns of yes and no, in the words people use for them."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lit_ios.checks import did_you_mean
from lit_ios.readers.columns import Source, is_number
from lit_ios.readers.files import TableError
from lit_ios.trajectories import BoolArray

# one pair per column: what mixes them is a mistake
WORDS = [("0", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on")]


def read_stops(source: Source, column: str, value: str | float | None = None) -> BoolArray:
    """Return where a column says stop; `value` is what means it, where it is not yes."""
    hint = "correct the cell, or say what means stop: stop_value='…'"
    found = _read(source, column, value, hint)
    if value is not None and not found.any():
        there = {str(text) for text in pc.unique(source.texts(column)).to_pylist()}
        warnings.warn(
            f"{source.name}, column {column!r}: no cell is {str(value)!r}, which is to mean a stop"
            f"{did_you_mean(value, there)}",
            stacklevel=2,
        )
    return found


def read_flags(source: Source, column: str) -> BoolArray:
    """Return a column of 0 and 1, false and true, or yes and no."""
    return _read(source, column, None, "write 1 and 0, or yes and no, throughout")


def _read(source: Source, column: str, yes: str | float | None, hint: str) -> BoolArray:
    if source.is_text(column):
        return (
            _of_words(source, column, hint)
            if yes is None
            else _equal_text(source, column, str(yes))
        )
    values = source.numbers(column)
    if yes is not None:
        return np.asarray(values == _as_number(source, column, yes))
    bad = ~np.isin(values, (0.0, 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        where = source.where(column, row)
        if np.isnan(values[row]):
            raise TableError(f"{where}: a flag must be 0 or 1, and none is given; {hint}")
        raise TableError(f"{where}: a flag must be 0 or 1, got {values[row]:g}; {hint}")
    return np.asarray(values == 1)


def status_words(texts: list[str | None]) -> bool:
    """Whether distinct texts are a pair of words for yes and no."""
    words = {_word(text) for text in texts if text is not None}
    return any(words == set(pair) for pair in WORDS)


def _of_words(source: Source, column: str, hint: str) -> BoolArray:
    """Read words; the first cell says which pair they are of."""
    coded = source.texts(column).combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False))
    texts = coded.dictionary.to_pylist()
    first = _word(texts[0]) if texts else ""
    pair = next((pair for pair in WORDS if first in pair), None)
    if pair is None and texts:
        row, words = int(np.argmax(codes == 0)), " and ".join(map(repr, texts[:2]))
        raise TableError(f"{source.where(column, row)}: neither yes nor no: {words}; {hint}")
    known = [pair.index(_word(text)) if pair and _word(text) in pair else -1 for text in texts]
    values = np.append(known, -1)[codes]
    if (values < 0).any():
        row = int(np.argmax(values < 0))
        found = "nothing" if codes[row] < 0 else repr(texts[codes[row]])
        expected = " or ".join(pair) if pair else "0 or 1"
        where = source.where(column, row)
        raise TableError(f"{where}: a flag must be {expected} here, got {found}; {hint}")
    return np.asarray(values == 1)


def _equal_text(source: Source, column: str, yes: str) -> BoolArray:
    same = pc.equal(pc.utf8_trim_whitespace(source.texts(column)), yes.strip())
    return np.asarray(pc.fill_null(same, False).to_numpy().astype(bool))


def _as_number(source: Source, column: str, yes: str | float) -> float:
    text = str(yes).strip()
    if pa.types.is_boolean(source.kind(column)):
        pair = next((pair for pair in WORDS if _word(text) in pair), None)
        if pair is not None:
            return float(pair.index(_word(text)))
    if not is_number(text):
        raise TableError(
            f"{source.name}, column {column!r}: holds numbers, and the stop value {text!r} is "
            "none; give one of its numbers: stop_value='…'"
        )
    return float(text)


def _word(text: str) -> str:
    """Return a word as the pairs have it; 1.0 is 1."""
    word = text.strip().casefold()
    return {"0.0": "0", "1.0": "1"}.get(word, word)
