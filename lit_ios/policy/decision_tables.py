"""Decisions as tables: one schema, whoever writes them.

<path>, <time>       under the user's own column names and in the user's own types
margin               Q(s, stop) − Q(s, continue)
probability          of stopping; ½ at the threshold
stop                 the margin reaches the threshold
first_stop           the first such row of its path
stop_gain            G(s), E10
continuation_gain    g(s), where the variant models it
margin_spread        standard deviation of the members' margins, where there are several
familiar             whether training had rows like this one
unfamiliar           the features that make it unlike them, the worst first; empty where familiar
remaining_…          how long is left, where that was learnt (`lit_ios.policy.forecast_columns`)
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute

from lit_ios.checks import UserError
from lit_ios.files import replacing
from lit_ios.formulas import safe_cells
from lit_ios.rule import Decisions
from lit_ios.trajectories import FloatArray, IntArray

ENDINGS = (".csv", ".parquet")
USUAL_SHARE = 0.03  # of paths with an unfamiliar row, of which nothing is said


def decision_table(
    rows: pa.Table,
    decisions: Sequence[Decisions],
    names: Sequence[str],
    order: IntArray | None = None,
    more: Mapping[str, FloatArray] | None = None,
) -> pa.Table:
    """Return rows with what was decided on each.

    Args:
        rows: the columns of path and time, in the order of the decisions.
        decisions: of one batch of rows after the other.
        names: of the coordinates that can make a row unfamiliar.
        order: to put the rows into; None leaves them.
        more: further columns, in the order of the decisions.
    """
    for name in Decisions._fields:
        parts = [getattr(batch, name) for batch in decisions]
        if not parts or parts[0] is None or name == "distance":
            continue
        values = np.concatenate([part.cpu().numpy() for part in parts])
        if name == "responsible":
            rows = rows.append_column("familiar", pa.array(values[:, 0] < 0))
            rows = rows.append_column("unfamiliar", _named(values, names))
        else:
            rows = rows.append_column(name, pa.array(values))
    for name, values in (more or {}).items():
        rows = rows.append_column(name, pa.array(values, from_pandas=True))  # NaN is no value
    return rows if order is None else rows.take(pa.array(order))


def _named(coordinates: IntArray, names: Sequence[str]) -> pa.Array:
    """Return the names of coordinates, (N, 3) with −1 for none, as text; null where there is none.

    The few different rows are named once.
    """
    strange = np.flatnonzero(coordinates[:, 0] >= 0)
    kinds, which = np.unique(coordinates[strange], axis=0, return_inverse=True)
    texts = [None, *(", ".join(names[i] for i in kind if i >= 0) for kind in kinds)]
    number = np.zeros(len(coordinates), dtype=np.int64)
    number[strange] = 1 + which.ravel()
    return pa.array(texts, pa.string()).take(pa.array(number))


def warn_of_strangers(decided: pa.Table) -> None:
    """Say so if more paths than usual have rows unlike those of training.

    About one in a hundred has, by the choice of the level.
    """
    strange = decided.filter(pa.compute.invert(decided["familiar"]))
    if not strange.num_rows:
        return
    path = decided.column_names[0]
    met, all_paths = (len(table[path].unique()) for table in (strange, decided))
    if met <= USUAL_SHARE * all_paths:
        return
    counts = Counter(
        name for text in strange["unfamiliar"].to_pylist() for name in (text or "").split(", ")
    )
    named = ", ".join(name for name, _ in counts.most_common(3))
    warnings.warn(
        f"{met} of {all_paths} paths have rows unlike those of training ({named}): there the rule "
        "guesses. Are units and columns the same as in training?",
        stacklevel=3,
    )


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


def decision_files(file: Path) -> list[Path]:
    """Return the file of decisions, and that of the paths beside it."""
    return [file, file.with_stem(f"{file.stem}_paths")]


def refuse_own_table(output: Path, table: str | Path) -> None:
    """Refuse to write decisions onto the table that they are made on."""
    for target in decision_files(output):
        if target.exists() and Path(table).exists() and target.samefile(table):
            raise UserError(f"--output: {target} is the table that is read: name another file")


def write_decisions(decided: pa.Table, file: Path, safe_csv: bool = False) -> list[Path]:
    """Write decisions to a .csv or .parquet file, and what became of each path beside it.

    Args:
        decided: as `decision_table` makes it.
        file: to write.
        safe_csv: mark text that a spreadsheet would take for a formula.
    """
    check_ending(file)
    files = decision_files(file)
    with contextlib.ExitStack() as stack:  # both or neither
        streams = [stack.enter_context(replacing(target)) for target in files]
        for table, stream in zip((decided, path_table(decided)), streams, strict=True):
            marked = safe_cells(table) if safe_csv and file.suffix == ".csv" else table
            _write(marked, stream, file.suffix)
    return files


def _write(table: pa.Table, stream: IO[bytes], ending: str) -> None:
    if ending == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, stream)
    else:
        import pyarrow.csv

        options = pyarrow.csv.WriteOptions(quoting_style="needed")
        pyarrow.csv.write_csv(table, stream, options)


def check_ending(file: Path, name: str = "output") -> None:
    """Refuse a file that is neither CSV nor Parquet."""
    if file.suffix not in ENDINGS:
        raise UserError(f"{name} must end in {' or '.join(ENDINGS)}, got {str(file)!r}")
