"""Decisions as tables: one schema, whoever writes them.

<path>, <time>       under the user's own column names and in the user's own types
margin               Q(s, stop) − Q(s, continue)
probability          of stopping; ½ at the threshold
stop                 the margin reaches the threshold
first_stop           the first such row of its path
stop_gain            G(s), E10
continuation_gain    g(s), where the variant models it
margin_spread        standard deviation of the members' margins, where there are several
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from lit_ios.checks import UserError
from lit_ios.rule import Decisions
from lit_ios.trajectories import IntArray

ENDINGS = (".csv", ".parquet")


def decision_table(
    rows: pa.Table, decisions: Sequence[Decisions], order: IntArray | None = None
) -> pa.Table:
    """Return rows with what was decided on each.

    Args:
        rows: the columns of path and time, in the order of the decisions.
        decisions: of one batch of rows after the other.
        order: to put the rows into; None leaves them.
    """
    for name in Decisions._fields:
        parts = [getattr(batch, name) for batch in decisions]
        if parts and parts[0] is not None:
            values = np.concatenate([part.cpu().numpy() for part in parts])
            rows = rows.append_column(name, pa.array(values))
    return rows if order is None else rows.take(pa.array(order))


def path_table(decided: pa.Table) -> pa.Table:
    """Return one row per path: its number of rows and the time of its first stop, if any.

    Args:
        decided: as `decision_table` makes it.
    """
    path, time = decided.column_names[:2]
    names = decided[path].combine_chunks()
    codes = names.dictionary_encode()
    stops = decided.filter(decided["first_stop"]).select([path, time]).rename_columns(
        [path, "first_stop_time"]
    )  # fmt: skip
    counts = np.bincount(codes.indices.to_numpy(zero_copy_only=False))
    made = pa.table({path: codes.dictionary, "rows": pa.array(counts)})
    joined = made.append_column("number", pa.array(np.arange(len(made))))
    joined = joined.join(stops, path, join_type="left outer").sort_by("number")
    return joined.drop_columns(["number"])


def write_decisions(decided: pa.Table, file: Path) -> list[Path]:
    """Write decisions to a .csv or .parquet file, and what became of each path beside it."""
    check_ending(file)
    files = [file, file.with_stem(f"{file.stem}_paths")]
    for table, target in zip((decided, path_table(decided)), files, strict=True):
        if target.suffix == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(table, target)
        else:
            import pyarrow.csv

            options = pyarrow.csv.WriteOptions(quoting_style="needed")
            pyarrow.csv.write_csv(table, target, options)
    return files


def check_ending(file: Path, name: str = "output") -> None:
    """Refuse a file that is neither CSV nor Parquet."""
    if file.suffix not in ENDINGS:
        raise UserError(f"{name} must end in {' or '.join(ENDINGS)}, got {str(file)!r}")
