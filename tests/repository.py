"""Where the repository is, and which settings files it has."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = sorted(path.stem for path in (ROOT / "configs/model").glob("*.yaml"))
DATA_SETS = sorted(path.stem for path in (ROOT / "configs/data").glob("*.yaml"))

needs_real_data = pytest.mark.skipif(
    "LIT_IOS_DATA" not in os.environ, reason="LIT_IOS_DATA names no folder of real data"
)
