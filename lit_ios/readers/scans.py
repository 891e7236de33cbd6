"""What is looked for in a file before it is read: how large it is, and what parsers pass over."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from lit_ios.readers.limits import LONGEST_LINE, Limits

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what Excel calls Unicode text
BLOCK = 1 << 20  # bytes that are looked at at a time


class ScanError(Exception):
    """What is wrong with a file, without its name."""


class Marks(NamedTuple):
    """What is to be known of a CSV file before it is parsed."""

    quotes: int
    hexadecimal: bool
    longest_line: int  # of those that reach from one block into the next
    is_utf8: bool


def scan(file: Path, separator: bytes, limits: Limits) -> Marks:
    """Look for a quotation mark never closed and hexadecimal numbers, and count rows and bytes.

    A file that unpacks to too much is refused on the way.

    Args:
        file: CSV, maybe compressed.
        separator: of its columns.
        limits: what is too much.
    """
    quotes, hexadecimal, last, line, longest = 0, False, b"", 0, 0
    size = rows = cells = 0
    decoder, is_utf8 = codecs.getincrementaldecoder("utf-8")(), True
    with pa.input_stream(file, buffer_size=BLOCK) as stream:
        while block := stream.read(BLOCK):
            if not size and block.startswith(_UTF16):
                raise ScanError("the file is written in UTF-16; save it as UTF-8")
            is_utf8 = is_utf8 and _decodes(decoder, block)
            quotes += _count(b'"', block)
            joined = block if hexadecimal or last != b"0" else last + block
            hexadecimal = hexadecimal or _has_hexadecimal(joined)
            last = block[-1:]
            end = b"\n" if b"\n" in block else b"\r"
            head, tail = block.find(end), block.rfind(end)
            longest = max(longest, line + (len(block) if head < 0 else head))
            line = line + len(block) if head < 0 else len(block) - tail
            size, ends = size + len(block), _count(end, block)
            rows, cells = rows + ends, cells + ends + _count(separator, block)
            reason = limits.reason(rows, size, cells)
            if longest > LONGEST_LINE:
                reason = f"a row of more than {LONGEST_LINE >> 20} MB; is this a table of text?"
            if reason is not None:
                raise ScanError(reason)
    if quotes % 2:
        raise ScanError(
            "the number of quotation marks is odd; close the one that is open, and double those "
            "within a text"
        )
    return Marks(quotes, hexadecimal, longest, is_utf8 and _decodes(decoder, b"", last=True))


def _count(mark: bytes, block: bytes) -> int:
    """Count a byte; `bytes.count` takes four times as long where there are many."""
    if len(mark) > 1:  # in UTF-8
        return block.count(mark)
    return int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == mark[0]))


def _has_hexadecimal(block: bytes) -> bool:
    """Look for 0x; first for x alone, since zeros abound."""
    return any(mark[1:] in block and mark in block for mark in (b"0x", b"0X"))


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, last: bool = False) -> bool:
    try:
        decoder.decode(block, last)
    except UnicodeDecodeError:
        return False
    return True


def check_parquet(
    file: Path,
    about: pa_parquet.FileMetaData,
    wanted: list[str] | None,
    limits: Limits,
    share: float = 1.0,
) -> None:
    """Refuse a Parquet file that unpacks to too much: by what it declares, and by its texts.

    One long text that many rows share is small in the file and large in memory.

    Args:
        file: to look at.
        about: its metadata.
        wanted: columns that are read; None for all.
        limits: what is too much.
        share: of the rows that is kept in memory.
    """
    size = cells = 0
    shared: dict[str, None] = {}  # columns of text that many rows may share
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        for chunk in (group.column(place) for place in range(group.num_columns)):
            name = chunk.path_in_schema
            if wanted is None or name in wanted:
                size += max(chunk.total_uncompressed_size, 0)
                cells += max(chunk.num_values, 0)
                if chunk.physical_type == "BYTE_ARRAY" and "RLE_DICTIONARY" in chunk.encodings:
                    shared[name] = None
    columns = len(about.schema.names) if wanted is None else len(wanted)
    cells = max(cells, about.num_rows * columns)
    size, cells = int(share * size), int(share * cells)
    _refuse(limits, about.num_rows, size, cells)
    for name in shared:
        with pa_parquet.ParquetFile(file, read_dictionary=[name], pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(BLOCK, columns=[name]):
                size += int(share * sum(map(_expanded, batch.columns)))
                _refuse(limits, about.num_rows, size, cells)


def _expanded(column: pa.Array) -> int:
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _refuse(limits: Limits, rows: int, size: int, cells: int) -> None:
    reason = limits.reason(rows, size, cells)
    if reason is not None:
        raise ScanError(reason)
