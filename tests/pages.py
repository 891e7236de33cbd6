"""The pages of the documentation, taken apart: links, headings, blocks of code."""

import re
from pathlib import Path
from typing import NamedTuple

from repository import ROOT

FENCE = re.compile(r"^( *)(`{3,}|:{3,})(.*)$")
STUBS = {
    "changelog",
    "conduct",
    "contributing",
    "security",
}  # docs/project: pages of the top folder
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), ROOT / "examples/README.md", *ROOT.glob("docs/**/*.md"))
    if "_build" not in page.parts and not (page.parent.name == "project" and page.stem in STUBS)
)


class Block(NamedTuple):
    """Code between fences."""

    page: str
    line: int
    language: str  # python, bash, yaml, text, …; empty where none is named
    text: str


def taken_apart(page: Path) -> tuple[str, list[Block]]:
    """Return a page's prose, and its blocks of code."""
    prose, blocks, inside = [], [], None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = FENCE.match(line)
        if inside is not None:
            mark, language, start, lines = inside
            if fence and fence[2] == mark and not fence[3].strip():
                name = str(page.relative_to(ROOT))
                blocks.append(Block(name, start, language, "\n".join(lines)))
                inside = None
            else:
                lines.append(line)
        elif fence and fence[2].startswith("`"):
            inside = (fence[2], fence[3].strip(), number, [])
        else:
            prose.append(line)
    assert inside is None, f"{page}: a block is not closed"
    return "\n".join(prose), blocks


def cells(block: Block) -> Block:
    """Return a cell of a tutorial as what it holds: Python, or commands."""
    if block.language != "{code-cell}":
        return block
    lines = [line for line in block.text.splitlines() if not line.startswith(":tags:")]
    if lines and lines[0] == "%%bash":
        return block._replace(language="bash", text="\n".join(lines[1:]))
    return block._replace(language="python", text="\n".join(lines))


def anchors(page: Path) -> set[str]:
    """Return the names by which a page's headings are linked to."""
    found: set[str] = set()
    for line in taken_apart(page)[0].splitlines():
        if heading := re.match(r"#{1,6} (.+)", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")
            number = 0
            while (name := f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(name)
    return found


PARTS = {page: taken_apart(page) for page in PAGES}
BLOCKS = [cells(block) for _, blocks in PARTS.values() for block in blocks]


def commands(text: str) -> list[str]:
    """Return the commands of a shell block, continued lines joined, scripts inside left out."""
    text = re.sub(r"<<'END'\n.*?^END$", "", text, flags=re.S | re.M)
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
