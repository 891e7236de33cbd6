"""Pages that lie elsewhere in the repository as pages of the site, and links to them."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "CHANGELOG.md": "project/changelog",
    "CODE_OF_CONDUCT.md": "project/conduct",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "examples/README.md": "project/examples",
}
LINK = re.compile(r"(\]\()((?:\.\./)*)([\w./-]+)")
STREAM = re.compile(r"\A%%bash\n")


def _relative(docname: str, page: str) -> str:
    return "../" * docname.count("/") + page


def place(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the text of such a page where the site has it; send links to them there."""
    whole = {page: file for file, page in PAGES.items()}
    if docname in whole:
        source[0] = (ROOT / whole[docname]).read_text()

    folder = ROOT / (
        Path(whole[docname]).parent if docname in whole else Path("docs") / docname / ".."
    )

    def moved(link: re.Match[str]) -> str:
        before, up, target = link.groups()
        file = (folder / up / target).resolve()
        name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
        if name in PAGES:
            return before + _relative(docname, f"{PAGES[name]}.md")
        if docname in whole and name.startswith("docs/"):
            return before + _relative(docname, name.removeprefix("docs/"))
        if docname in whole and name and file.exists():
            return before + "../" * (docname.count("/") + 1) + name
        return link[0]

    source[0] = LINK.sub(moved, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what is read."""
    app.connect("source-read", place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
