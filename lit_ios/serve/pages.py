"""The pages for people: each a file of its own that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources


def _read(name: str) -> str:
    return resources.files("lit_ios.serve").joinpath(name).read_text(encoding="utf-8")


PAGES = {"/": _read("live.html"), "/docs": _read("docs.html")}


def policy_of(page: str) -> str:
    """Return the content security policy: the script and style of the page, this server's data."""
    hashes = {
        tag: " ".join(
            "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
            for text in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        )
        for tag in ("script", "style")
    }
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
