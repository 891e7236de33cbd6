"""Texts → dates: ISO 8601, or as a format says."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from lit_ios.trajectories import BoolArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_dates(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ISO 8601 texts as dates, where all of them are such, with or without time zones."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(pa.string()).cast(kind)
    return texts


def dates_written(texts: pa.ChunkedArray, written: str) -> tuple[pa.ChunkedArray, BoolArray]:
    """Return dates of a format, and which cells are not dates of it.

    Args:
        texts: no nulls among them.
        written: the format, as for strptime; each different text is read once.
    """
    coded = texts.cast(pa.string()).combine_chunks().dictionary_encode()
    known = np.array([_microseconds(text, written) for text in coded.dictionary.to_pylist()] or [0])
    codes = coded.indices.to_numpy(zero_copy_only=False)
    bad = np.asarray([value is None for value in known], dtype=bool)
    numbers = np.where(bad, 0, known).astype(np.int64)
    return pa.chunked_array([pa.array(numbers[codes], pa.timestamp("us"))]), bad[codes]


def _microseconds(text: str, written: str) -> int | None:
    """Return the time since 1970, which is in UTC where no zone is given; None if it is none."""
    try:
        moment = datetime.strptime(text.strip(), written)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def is_date(text: str | None) -> bool:
    """Whether a text is a date of ISO 8601."""
    try:
        datetime.fromisoformat(text or "")
    except ValueError:
        return False
    return True
