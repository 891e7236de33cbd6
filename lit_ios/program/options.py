"""This program's own options of fit, validate, test and predict."""

from __future__ import annotations

from typing import Any

from pytorch_lightning.cli import LightningArgumentParser

from lit_ios.checks import check_integer


def add_options(parser: LightningArgumentParser) -> None:
    """Add the options that are neither the model's, the data's nor the trainer's."""
    parser.add_argument("--runs_dir", type=str, default="runs", help="Folder of the run folders.")
    parser.add_argument(
        "--threads",
        type=int | None,
        help="CPU threads of PyTorch (default: one, all cores for large networks). Two make "
        "8 small members a fifth faster, but many times slower when the machine is busy.",
    )
    parser.add_argument(
        "--output",
        type=str | None,
        help="predict: the .csv or .parquet file of decisions (default: in the run folder).",
    )
    parser.add_argument(
        "--safe_csv",
        type=bool,
        default=False,
        help="predict: mark text that a spreadsheet would take for a formula.",
    )
    parser.add_argument(
        "--baseline",
        type=bool,
        default=True,
        help="fit: end with what gradient boosting gets on the same paths.",
    )
    parser.add_argument(
        "--report",
        type=bool,
        default=True,
        help="fit: write report.html into the run folder.",
    )


def check_seed(seed: Any) -> None:
    """Refuse what NumPy cannot be seeded with."""
    number = int(seed) if isinstance(seed, str) and seed.strip().isdecimal() else seed
    if seed is not None:
        check_integer("seed_everything", number, at_least=0, below=2**32)
