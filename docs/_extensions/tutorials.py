"""Tutorials: a kernel whose `%%bash` behaves like a terminal, and pages without the magic."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

MAGIC = "%%bash\n"


def prepare_kernel(app: Sphinx) -> None:
    """Give kernels a folder of their own with our startup file."""
    folder = Path(app.outdir).parent / "ipython"
    startup = folder / "profile_default/startup"
    startup.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("kernel_startup.py"), startup / "terminal.py")
    os.environ["IPYTHONDIR"] = str(folder)


def hide_magic(app: Sphinx, doctree: nodes.document) -> None:
    """Show cells of commands as commands, to be copied as they are."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource.startswith(MAGIC) or block.astext().startswith(MAGIC):
            text = block.astext().removeprefix(MAGIC)
            block.rawsource = text
            block.children = [nodes.Text(text)]
            block["language"] = "bash"


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to the build."""
    app.connect("builder-inited", prepare_kernel)
    app.connect("doctree-read", hide_magic)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
