"""What README and docs show is so: links lead somewhere, code can run, options exist."""

import ast
import importlib
import inspect
import re
import shlex

import pytest
import pytorch_lightning as pl
import yaml
from pages import BLOCKS, PAGES, PARTS, Block, anchors, commands
from repository import ROOT

import callbacks
import datamodules
import lit_ios
from lit_ios import modules, promises
from lit_ios.live import Stream
from lit_ios.metrics import path_metrics
from lit_ios.program.mistakes import arguments_of
from lit_ios.program.parsers import parser_of
from lit_ios.program.tuning import own_options
from lit_ios.program.usage import TRAINING, USES
from lit_ios.program.words import translate
from lit_ios.settings import Settings
from lit_ios.variants import variants

LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = re.sub(r"`[^`\n]*`", "", PARTS[page][0])
    for link in LINK.findall(prose):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.is_relative_to(ROOT), link
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file), link


def test_every_page_of_the_site_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for block in PARTS[page][1]:
            if block.language.startswith("{toctree}"):
                for line in block.text.splitlines():
                    if line and not line.startswith(":"):
                        listed.add((page.parent / f"{line}.md").resolve())
    site = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert site - listed == {ROOT / "docs/index.md"}


# Python ------------------------------------------------------------------------------------------

KNOWN = {  # what names stand for in the pages
    "policy": lit_ios.StoppingPolicy, "rule": lit_ios.StoppingPolicy, "stream": Stream,
    "model": object, "lit_ios": lit_ios,
}  # fmt: skip
OURS = ("lit_ios", "datamodules", "callbacks", "benchmarks")


def check_imports(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in OURS:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in OURS:
                    importlib.import_module(alias.name)


def check_calls(tree: ast.AST) -> None:
    """Check methods of what is known by its name, and their keyword arguments."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        known = KNOWN.get(node.value.id, object)
        assert known is object or hasattr(known, node.attr), f"{node.value.id}.{node.attr}"
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = KNOWN.get(getattr(node.func.value, "id", ""), object)
        called = getattr(owner, node.func.attr, None) if owner is not object else None
        if not inspect.isroutine(called):
            continue
        parameters = inspect.signature(called).parameters
        free = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for keyword in node.keywords:
            assert free or keyword.arg is None or keyword.arg in parameters, keyword.arg


PYTHON = [block for block in BLOCKS if block.language == "python"]


def name_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_python_compiles_and_names_what_exists(block):
    tree = ast.parse(block.text)
    check_imports(tree)
    check_calls(tree)


# Settings ----------------------------------------------------------------------------------------

YAML = [block for block in BLOCKS if block.language == "yaml"]
CLASSES = {
    role: {name: getattr(module, name) for module in places for name in module.__all__}
    for role, places in {"model": [modules], "data": [datamodules]}.items()
}


def check_settings(settings: Settings, role: str) -> None:
    """Check the classes and arguments of a model or of data."""
    given = settings.get(role) or {}
    assert set(given) <= {"class_path", "init_args"}
    name = given.get("class_path")
    assert name is None or name.startswith("my_") or name in CLASSES[role]
    cls = CLASSES[role].get(name)
    known = set(arguments_of(cls)) if cls else arguments_known(role)
    assert set(given.get("init_args") or {}) <= known


def arguments_known(role: str) -> set[str]:
    """Return the arguments of any class of a role."""
    return {
        argument
        for cls in CLASSES[role].values()
        if inspect.isclass(cls) and hasattr(cls, "__init__")
        for argument in arguments_of(cls)
    }


@pytest.mark.parametrize("block", YAML, ids=name_of)
def test_settings_name_classes_and_arguments_that_exist(block):
    settings = yaml.safe_load(block.text)
    if not {"model", "data", "trainer"} & set(settings):  # a space of tune
        known = arguments_known("model") | arguments_known("data") | {"epsilon_decay"}
        assert set(settings) <= known
        return
    check_settings(settings, "model")
    check_settings(settings, "data")
    assert set(settings.get("trainer") or {}) <= set(inspect.signature(pl.Trainer).parameters)


# Commands ----------------------------------------------------------------------------------------

SHELL = [block for block in BLOCKS if block.language in ("", "bash", "console")]
SPANS = [
    Block(str(page.relative_to(ROOT)), 0, "", span)
    for page in PAGES
    if page.name != "CHANGELOG.md"
    for span in re.findall(
        r"`((?:lit-ios|make|python -m benchmarks\.\w+) [^`\n]+)`", PARTS[page][0]
    )
]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
BENCHMARKS = "".join(file.read_text() for file in ROOT.glob("benchmarks/*.py"))
PLACEHOLDERS = ("COMMAND", "…")


def check_dotted(option: str) -> None:
    """Check an option of LightningCLI."""
    name = option.removeprefix("--").partition("=")[0]
    role, _, rest = name.partition(".")
    if role == "trainer":
        assert rest.split(".")[0] in inspect.signature(pl.Trainer).parameters, option
    elif rest.startswith("init_args."):
        argument = rest.removeprefix("init_args.")
        assert argument.split(".")[0] in arguments_known(role) | {"X"}, option
    else:
        assert rest in ("help", ""), option


def without(options: tuple[str, ...], words: list[str]) -> list[str]:
    """Leave out options with their values."""
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in options and before not in options
    ]
    return kept


def check_program(words: list[str]) -> None:
    """Check a command line of the program: its command, and every option."""
    command = words[0]
    if command in PLACEHOLDERS or words == ["--version"]:
        return
    assert command in TRAINING or command in USES, command
    if len(words) == 1 or set(words) & {"--help", "-h", "--help-all", "…"}:
        return
    for word in words:
        if word.startswith("--") and "." in word.partition("=")[0]:
            check_dotted(word)
    dotted = any("." in word.partition("=")[0] for word in words if word.startswith("--"))
    if command in USES and not dotted:
        parser_of(command).read(["RUN" if word == "…" else word for word in words[1:]])
    elif command == "tune":
        own_options(words[1:])
    elif command == "fit":
        translate(without(("--on", "--workers", "--address"), words))


def check_command(line: str) -> None:
    """Check a command if it is one of this project's."""
    words = shlex.split(line.partition(" #")[0].partition(" | ")[0].partition(" > ")[0])
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words.pop(0)
    if not words:
        return
    if words[0] == "srun":
        words.pop(0)
    if words[0] == "lit-ios":
        check_program(words[1:])
    elif words[:2] == ["python", "train.py"]:
        check_program(words[2:])
    elif words[0] == "make":
        for target in words[1:]:
            assert "=" in target or target in TARGETS, target
    elif words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."):
        assert (ROOT / f"{words[2].replace('.', '/')}.py").exists(), words[2]
        for word in words[3:]:
            assert not word.startswith("--") or f'"{word}"' in BENCHMARKS, word


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Make the files that commands of the pages name, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    for name in ("my.csv", "new.csv", "fresh.csv", "pumps.csv", "history.csv", "my_network.yaml"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "folder").mkdir()


@pytest.mark.parametrize("block", SHELL, ids=name_of)
@pytest.mark.usefixtures("files")
def test_commands_of_a_block_exist_with_their_options(block):
    for line in commands(block.text):
        check_command(line)


@pytest.mark.usefixtures("files")
def test_commands_in_the_text_exist_with_their_options():
    for span in SPANS:
        try:
            check_command(span.text)
        except (AssertionError, lit_ios.checks.UserError) as error:
            raise AssertionError(f"{span.page}: `{span.text}`: {error}") from error


# What is written by hand and known elsewhere -----------------------------------------------------


def test_table_of_the_readme_is_that_of_the_results():
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", readme, re.M)
    assert len(rows) == 6
    known = {}
    for line in (ROOT / "benchmarks/results/summary.md").read_text().splitlines():
        parts = [cell.strip().split(" ")[0] for cell in line.strip("|").split("|")]
        if len(parts) == 8:
            known[parts[0]] = [*parts[1:4], parts[6]]
    for data, *numbers in rows:
        assert [number.strip() for number in numbers] == known[data]


def test_every_method_has_a_page():
    pages = {page.stem for page in (ROOT / "docs/methods").glob("*.md")}
    assert pages >= {*variants(), "auto", "memory"}


def test_page_of_log_keys_has_every_metric():
    page = (ROOT / "docs/reference/log-keys.md").read_text()
    for key in path_metrics("val/", frontier=False):
        assert f"| `{key}` |" in page, key


def test_pages_of_reference_have_every_class_of_settings():
    page = (ROOT / "docs/reference/settings.md").read_text()
    for module in (modules, datamodules):
        for name in module.__all__:
            cls = getattr(module, name)
            if inspect.isclass(cls) and issubclass(
                cls, pl.LightningModule | pl.LightningDataModule
            ):
                assert f"{module.__name__}.{name}" in page or name == "PathsData", name
    assert "callbacks.EpsilonDecay" in page
    assert hasattr(callbacks, "EpsilonDecay")
    python = (ROOT / "docs/reference/python.md").read_text()
    assert f"{{members}} {promises.__name__}" in python
