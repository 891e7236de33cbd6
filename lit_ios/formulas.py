"""Text cells of a CSV file that a spreadsheet would take for formulas.

A name such as =HYPERLINK(…) comes from the data and does whatever it says when the file is opened
in a spreadsheet. An apostrophe before it makes it text there, and changes it for everybody else, so
it is only put there where that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BEGINNINGS = ("=", "+", "-", "−", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe_text(text: str) -> str:
    """Return a text so that a spreadsheet takes it for one."""
    return f"'{text}" if text.lstrip(" ").startswith(BEGINNINGS) else text


def safe_cells(table: pa.Table) -> pa.Table:
    """Return a table whose text, names of columns included, no spreadsheet takes for formulas."""
    import pyarrow as pa

    columns = [_safe(column) for column in table.columns]
    return pa.table(columns, [safe_text(name) for name in table.column_names])


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    texts = column.cast(kind)
    formula = pc.match_substring_regex(texts, r"^ *[=+\-−@\t\r\n＝＋－＠]")
    quoted = pc.binary_join_element_wise(pa.scalar("'", kind), texts, pa.scalar("", kind))
    return pc.if_else(pc.fill_null(formula, False), quoted, texts)
