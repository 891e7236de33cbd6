"""The documentation names things that exist."""

import importlib
import re

import pytest
from repository import ROOT, VARIANTS

EQUATIONS = (ROOT / "docs/equations.md").read_text()
ROWS = [line.split("|") for line in EQUATIONS.splitlines() if re.match(r"\| [EM–]", line)]


def test_equations_page_lists_every_equation_and_metric():
    listed = {row[1].strip() for row in ROWS}
    assert listed >= {*(f"E{i}" for i in range(1, 14)), *(f"M{i}" for i in (*range(1, 8), 9))}


NAMES = sorted(set(re.findall(r"`((?:lit_ios|callbacks)[\w.]+)`", EQUATIONS)))


@pytest.mark.parametrize("name", NAMES)
def test_function_named_in_the_equations_page_exists(name):
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


SOURCES = {
    file: file.read_text()
    for folder in ("lit_ios", "datamodules", "callbacks")
    for file in (ROOT / folder).rglob("*.py")
}


@pytest.mark.parametrize("name", NAMES)
def test_function_named_in_the_equations_page_is_used_by_something_beside_tests(name):
    word = name.rpartition(".")[2]
    defined = re.compile(rf"^(def|class) {word}\b", re.M)
    used = [
        file
        for file, text in SOURCES.items()
        if re.search(rf"\b{word}\(|\({word}\)|: {word}\b", re.sub(defined, "", text))
    ]
    settings = "".join(file.read_text() for file in (ROOT / "configs").rglob("*.yaml"))
    assert used or word in settings, f"nothing calls {name}"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w./]+)`", EQUATIONS))))
def test_test_named_in_the_equations_page_exists(path):
    assert (ROOT / path).exists()


def test_variants_page_lists_every_settings_file():
    page = (ROOT / "docs/variants.md").read_text()
    assert all(f"| `{variant}` |" in page for variant in VARIANTS)
