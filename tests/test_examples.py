"""The examples run as they are, in an empty folder, and come to what they say."""

import ast
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from repository import ROOT

from lit_ios import StoppingPolicy
from lit_ios.trajectories import Trajectory, TrajectorySet

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 80  # lines


def output_of(name, folder):
    words = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    there = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=folder, env=there, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def accuracy_in(text):
    return float(re.search(r"balanced accuracy ([\d.]+)", text)[1])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short_says_how_to_run_it_and_is_listed(file):
    text = file.read_text()
    assert len(text.splitlines()) < LONGEST
    assert f"python examples/{file.name}" in ast.get_docstring(ast.parse(text))
    assert f"[{file.name}]({file.name})" in (ROOT / "examples/README.md").read_text()
    assert f"test_{file.stem}_" in (ROOT / "tests/test_examples.py").read_text()


def test_own_table_ends_with_a_promise_and_decisions(tmp_path):
    text = output_of("own_table", tmp_path)
    assert accuracy_in(text) > 0.85
    assert "promised: event-miss rate at most 0.1" in text
    assert len(re.findall(r"^pump 3-\d: (?:goes on|service it on day \d+)$", text, re.M)) == 5
    assert StoppingPolicy.load(tmp_path / "pumps.ckpt").calibration is not None


def test_own_network_is_trained_and_deployed(tmp_path):
    text = output_of("own_network", tmp_path)
    assert accuracy_in(text) > 0.75
    assert "written to waves.onnx" in text
    assert (tmp_path / "waves.onnx").is_file()


def test_own_data_set_is_learnt(tmp_path):
    text = output_of("own_data_set", tmp_path)
    assert accuracy_in(text) > 0.85
    assert text.rstrip().endswith("1.7 mm after 20000 km: change it")
    assert "7.8 mm after 0 km: drive on" in text


def test_live_stream_goes_on_as_if_nothing_had_happened(tmp_path):
    text = output_of("live_stream", tmp_path)
    first, second = text.split("the second process")
    rows = [int(row) for row in re.findall(r"^row (\d+):", text, re.M)]
    assert rows == list(range(len(rows)))
    assert "row" in first
    assert "row" in second
    loads = np.array(json.loads((tmp_path / "loads.json").read_text()))[: len(rows), None]
    policy = StoppingPolicy.load(tmp_path / "machine.ckpt")
    whole = policy.margins(TrajectorySet.from_paths([Trajectory(loads, stopped=False)], ["load"]))
    told = [float(margin) for margin in re.findall(r"margin ([-+.\d]+)", text)]
    np.testing.assert_allclose(told, whole, atol=6e-4)


def test_onnx_without_torch_decides(tmp_path):
    text = output_of("onnx_without_torch", tmp_path)
    margins = [float(margin) for margin in re.findall(r"margin ([-+.\d]+)", text)]
    assert len(margins) == 4
    assert margins == sorted(margins)  # it leaks more and more
    assert "saved for the next start" in text
