"""Tables: `0.98 ± 0.01` stays on one line."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def keep_together(app: Sphinx, doctree: nodes.document) -> None:
    """Put spaces that do not break around ± in cells."""
    for cell in doctree.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            if " ± " in text:
                kept = nodes.Text(text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"))
                text.parent.replace(text, kept)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to the build."""
    app.connect("doctree-read", keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
