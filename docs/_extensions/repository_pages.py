"""Pages of the repository's top folder as pages of the site, and links to them."""

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
}
LINK = re.compile(r"(\]\()((?:\.\./)*)([\w./-]+)")
STREAM = re.compile(r"\A%%bash\n")


def _relative(docname: str, page: str) -> str:
    return "../" * docname.count("/") + page


def place(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the text of a top page where the site has it; send links to top pages there."""
    whole = {page: file for file, page in PAGES.items()}
    if docname in whole:
        source[0] = (ROOT / whole[docname]).read_text()

    def moved(link: re.Match[str]) -> str:
        before, up, target = link.groups()
        top = docname in whole or up == "../" * (docname.count("/") + 1)
        if top and target in PAGES:
            return before + _relative(docname, f"{PAGES[target]}.md")
        if docname in whole and target.startswith("docs/"):
            return before + _relative(docname, target.removeprefix("docs/"))
        if docname in whole and (ROOT / target).exists():
            return before + "../" * (docname.count("/") + 1) + target
        return link[0]

    source[0] = LINK.sub(moved, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what is read."""
    app.connect("source-read", place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
