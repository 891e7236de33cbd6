"""Where the repository is, and which settings files it has."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = sorted(path.stem for path in (ROOT / "configs/model").glob("*.yaml"))
DATA_SETS = sorted(path.stem for path in (ROOT / "configs/data").glob("*.yaml"))
