"""Peak memory of large data, over the size of the table: `python -m benchmarks.memory --help`.

A Parquet file of random numbers is written; a fresh process reads, splits and standardises it
through TableData, and reports its peak resident memory above that of the imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/memory.json"


def write_table(file: Path, rows: int, features: int, path_length: int) -> int:
    """Write paths of equal length, a piece at a time; return the table's size in memory."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    size, writer, piece = 0, None, 2000 * path_length
    for start in range(0, rows, piece):
        row = np.arange(start, min(start + piece, rows))
        columns = {"unit": row // path_length, "cycle": row % path_length}
        for i in range(features):
            columns[f"x{i}"] = rng.standard_normal(len(row), dtype=np.float32)
        table = pa.table(columns)
        size += table.nbytes
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return size


def peak() -> float:
    """Return the peak resident memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def measure(file: str) -> dict[str, float]:
    """Read, split and standardise the file."""
    from datamodules import TableData

    before, start = peak(), time.perf_counter()
    data = TableData(file=file, path_column="unit", time_column="cycle")
    data.setup("fit")
    rows = len(data.training_paths.states)
    return {
        "training_rows": rows,
        "seconds": round(time.perf_counter() - start, 2),
        "imports_bytes": before,
        "peak_bytes": peak() - before,
    }


def main() -> None:
    """Write the table, measure in a process of its own, keep the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--path-length", type=int, default=500)
    parser.add_argument("--file", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        size = write_table(table, args.rows, args.features, args.path_length)
        words = [sys.executable, "-m", "benchmarks.memory", "--measure", str(table)]
        child = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    result = json.loads(child.stdout) | {
        "rows": args.rows, "features": args.features, "table_bytes": size,
    }  # fmt: skip
    result["peak_over_table"] = round(result["peak_bytes"] / size, 2)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    args.file.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
