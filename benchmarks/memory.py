"""Peak memory of large data, over the size of the table: `python -m benchmarks.memory --help`.

A Parquet file of random numbers is written; fresh processes read, split and standardise it
through TableData, and train one epoch of IQS on it, alone and as two processes. Each reports its
peak resident memory above that of the imports.
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
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, Any]
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


def measure(file: str, task: str) -> Figures:
    """Read, split and standardise the file, and if asked for train one epoch of it."""
    import pytorch_lightning as pl
    import torch

    from datamodules import TableData
    from lit_ios.modules import IQS

    torch.set_num_threads(1)
    before, start = peak(), time.perf_counter()
    data = TableData(
        file=file, path="unit", time="cycle", batch_size=8192, test_share=0.05,
        validation_share=0.05,
    )  # fmt: skip
    if task != "two_processes":  # which read their shares when they know of each other
        data.setup("fit")
        _ = data.training_paths
    read = time.perf_counter() - start
    if task != "read":
        processes = {"devices": 2, "strategy": "ddp"} if task == "two_processes" else {"devices": 1}
        trainer = pl.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0, **processes,
        )  # fmt: skip
        trainer.fit(IQS.for_data(data), data)
    return {
        "training_rows": len(data.training_paths.states),
        "read_seconds": round(read, 2),
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
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.measure)))
        return
    result: Figures = {"rows": args.rows, "features": args.features}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        size = write_table(table, args.rows, args.features, args.path_length)
        result["table_bytes"] = size
        for task in ("read", "epoch", "two_processes"):
            words = [sys.executable, "-m", "benchmarks.memory", "--measure", str(table), task]
            child = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
            found = [json.loads(line) for line in child.stdout.splitlines() if line[:1] == "{"]
            figures = max(found, key=lambda process: process["peak_bytes"])
            figures |= {"processes": len(found)}
            figures["peak_over_table"] = round(figures["peak_bytes"] / size, 2)
            result[task] = figures
    args.file.parent.mkdir(parents=True, exist_ok=True)
    args.file.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
