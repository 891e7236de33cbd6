"""A network of one's own in the current folder, named by a settings file."""

import subprocess
import sys

import pytest
import yaml
from repository import ROOT

import train
from lit_ios.checks import UserError
from lit_ios.program import run

NETWORK = """
from torch import nn

from lit_ios.rule import Head, join


class Own(Head):
    def __init__(self, state_dim, memory_dim, width=4):
        super().__init__(width)
        self.first = nn.Linear(state_dim + memory_dim, width)

    def features(self, state, h):
        return self.first(join(state, h))
"""
SMALL = (
    "--data.init_args.paths=40", "--data.init_args.test_paths=8", "--trainer.max_epochs=1",
    "--no-baseline", "--no-report",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return a settings file that names a network of the current folder."""
    monkeypatch.chdir(tmp_path)
    head = {"class_path": "own_network_here.Own", "init_args": {"width": 3}}
    (tmp_path / "own_network_here.py").write_text(NETWORK)
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"model": {"init_args": {"head": head}}}))
    return str(file)


def kept(folder):
    (config,) = folder.glob("runs/*/*/version_0/config.yaml")
    return yaml.safe_load(config.read_text())["model"]


def test_the_program_finds_a_network_in_the_current_folder_if_it_is_allowed(settings, tmp_path):
    words = ["fit", "--data", "CP1", "--model", "iqs", "--config", settings, *SMALL]
    code = "import sys; sys.path.pop(0); from lit_ios.program import main; sys.exit(main())"
    there = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def program(*more):
        script = f"import sys; sys.path.append({str(ROOT)!r}); {code}"  # as the command lit-ios has
        command = [sys.executable, "-c", script, *words, *more]
        return subprocess.run(command, cwd=tmp_path, env=there, capture_output=True, text=True)

    assert "own_network_here" in program().stderr  # refused, or not found
    done = program("--allow", "own_network_here")
    assert done.returncode == 0, done.stderr[-2000:]
    assert kept(tmp_path)["init_args"]["head"]["init_args"] == {"width": 3}


@pytest.mark.parametrize("order", [0, 1])
def test_settings_of_ones_own_lie_over_those_that_a_name_stands_for(settings, tmp_path, order):
    named = ["--model", "iqs_folds"], ["--config", settings]
    words = [*named[order], *named[1 - order]]
    train.main(["fit", "--data", "CP1", *words, "--allow", "own_network_here", *SMALL])
    model = kept(tmp_path)
    assert model["class_path"].endswith("IQS")
    assert model["init_args"]["members"] == 8  # of iqs_folds
    assert model["init_args"]["head"]["class_path"] == "own_network_here.Own"


def test_two_models_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = str(ROOT / "configs/model/do_iqs.yaml")
    with pytest.raises(UserError, match=r"names IQS and --config .* names DOIQS: leave one"):
        run(["fit", "--data", "CP1", "--model", "iqs", "--config", other])
    assert not (tmp_path / "runs").exists()


def test_a_module_that_is_nowhere_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "own.yaml"
    file.write_text("model: {init_args: {head: {class_path: nowhere_at_all.Own}}}")
    words = ["fit", "--data", "CP1", "--model", "iqs", "--config", str(file), *SMALL]
    with pytest.raises(UserError, match=r"o module (named )?.?nowhere_at_all"):
        run([*words, "--allow", "nowhere_at_all"])
