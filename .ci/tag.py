"""Check that a tag names the version, and that changelog and citation are those of its day.

python .ci/tag.py v0.1.0
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(root: Path, tag: str) -> list[str]:
    """Return what keeps the tag from being set, a sentence each."""
    version = _found(root / "lit_ios/__init__.py", r'^__version__ = "(.+)"$')
    cited = _found(root / "CITATION.cff", r"^version: (\S+)$")
    day = _found(root / "CITATION.cff", r'^date-released: "(\d{4}-\d\d-\d\d)"$')
    closed = _found(root / "CHANGELOG.md", rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$")
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, __version__ in lit_ios/__init__.py is {version}")
    if cited != version:
        found.append(f"CITATION.cff says version {cited or 'nothing'}, not {version}")
    if not closed:
        found.append(f"CHANGELOG.md has no line  ## {version} (YYYY-MM-DD)")
    elif day != closed:
        found.append(
            f"{version} is closed on {closed} in CHANGELOG.md, CITATION.cff says {day or 'no day'}"
        )
    return found


def _found(file: Path, pattern: str) -> str:
    match = re.search(pattern, file.read_text(), re.M)
    return match[1] if match else ""


if __name__ == "__main__":
    wrong = problems(ROOT, sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join(wrong) or f"{sys.argv[1]} can be set")
    sys.exit(bool(wrong))
