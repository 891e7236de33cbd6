"""Versions of dependencies: the pins and their hashes agree, and bounds can be made pins."""

import re
import runpy
import subprocess
import sys
import tomllib

import pytest
import yaml
from repository import ROOT

import lit_ios

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([\w.+]+)", re.M)


def pins(text):
    return {name.lower().replace("_", "-"): version for name, version in PINNED.findall(text)}


def test_hashed_versions_are_the_pinned_ones():
    text, extras = (ROOT / "constraints.txt").read_text().split("\n# Of the extras")
    pinned, hashed = pins(text), pins((ROOT / "requirements-hashed.txt").read_text())
    of_cuda = re.compile("cuda-|nvidia-|triton$")  # PyTorch's, where it is not built for CPUs
    hashed = {name: version for name, version in hashed.items() if not of_cuda.match(name)}
    assert hashed.pop("setuptools")  # which builds the package
    assert hashed == pinned
    assert not pinned.keys() & pins(extras).keys()


def test_what_the_package_needs_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = pins((ROOT / "constraints.txt").read_text())
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(extras[name] for name in ("dev", "ray", "mlflow"))]
    flat = [line for some in needed for line in ([some] if isinstance(some, str) else some)]
    names = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in flat}
    assert names <= pinned.keys()


def test_every_hashed_version_has_a_hash():
    text = (ROOT / "requirements-hashed.txt").read_text()
    entries = re.split(r"^(?=[a-zA-Z])", text, flags=re.M)[1:]
    assert len(entries) > 50
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_oldest_versions_are_the_lower_bounds():
    done = subprocess.run(
        [sys.executable, ROOT / ".ci/oldest.py"], capture_output=True, text=True, check=True
    )
    found = pins(done.stdout)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["dependencies"]:
        name = re.match(r"[\w-]+", line)[0].lower()
        assert f">={found[name]}" in line


def test_other_versions_take_the_place_of_the_oldest():
    def oldest(*words):
        command = [sys.executable, ROOT / ".ci/oldest.py", *words]
        return subprocess.run(command, capture_output=True, text=True)

    plain, other = pins(oldest().stdout), pins(oldest("torch==9.9", "onnxscript==8.8").stdout)
    assert other == plain | {"torch": "9.9", "onnxscript": "8.8"}
    assert "does not name nothing" in oldest("nothing==1").stderr


def test_the_version_is_named_once_and_repeated_where_people_look():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == lit_ios.__version__
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == lit_ios.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "lit_ios.__version__"}


def test_the_citation_names_software_and_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what its format asks
    assert citation["type"] == "software"
    (paper,) = citation["references"]
    assert paper["type"] == "article"
    assert paper["authors"][0]["family-names"] == "Kuchko"
    assert {"type": "doi", "value": "10.48550/arXiv.2503.03515"} in paper["identifiers"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (None, "", "", None),
        ("lit_ios/__init__.py", "1.2.3", "1.2.4", "the tag is v1.2.3, __version__"),
        ("CITATION.cff", "version: 1.2.3", "version: 1.2.2", "CITATION.cff says version 1.2.2"),
        ("CITATION.cff", "2030-01-02", "2030-01-03", "CITATION.cff says 2030-01-03"),
        ("CHANGELOG.md", "(2030-01-02)", "(unreleased)", "has no line  ## 1.2.3 (YYYY-MM-DD)"),
    ],
)
def test_a_tag_is_refused_unless_version_changelog_and_citation_agree(
    tmp_path, file, old, new, said
):
    texts = {
        "lit_ios/__init__.py": '__version__ = "1.2.3"\n',
        "CITATION.cff": 'version: 1.2.3\ndate-released: "2030-01-02"\n',
        "CHANGELOG.md": "# Changes\n\n## 1.2.3 (2030-01-02)\n",
    }
    (tmp_path / "lit_ios").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace(old, new) if name == file else text)
    found = runpy.run_path(str(ROOT / ".ci/tag.py"))["problems"](tmp_path, "v1.2.3")
    assert (found == []) if said is None else any(said in one for one in found)


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=str)
def test_workflows_call_targets_that_exist(file):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    jobs = yaml.safe_load(file.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {name for command in commands for name in re.findall(r"make ([\w-]+)", command)}
    assert called <= targets
    assert called or "bash .ci/run" in commands


def test_continuous_integration_covers_what_is_promised():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    runs = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    assert runs == {"bash .ci/run", "make test-oldest", "make test-wheel", "make docs"}


def test_hooks_before_a_commit_are_the_linters_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(), re.M)[1]
    for hook, line in zip(hooks, lint.splitlines(), strict=True):
        assert line.strip().startswith(hook["entry"])
