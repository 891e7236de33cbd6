"""Versions of dependencies: the pins and their hashes agree, and bounds can be made pins."""

import re
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


def test_citation_and_changelog_name_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == lit_ios.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == lit_ios.__version__


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=str)
def test_workflows_call_targets_that_exist(file):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    jobs = yaml.safe_load(file.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {name for command in commands for name in re.findall(r"make ([\w-]+)", command)}
    assert called <= targets
    assert called or "bash .ci/run" in commands
